"""The man page says what the commands say, and roff understands it."""

import re
import subprocess
from pathlib import Path

from fencepost.cli.main import COMMANDS
from fencepost.cli.man_page import EXIT_CODES, page
from tests.support import debian

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "packaging/fencepost.1"


def formatted(*words: str) -> str:
    ran = subprocess.run(
        [debian.program("mandoc"), *words, PAGE], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout


def test_the_page_is_what_the_commands_say_of_themselves() -> None:
    assert PAGE.read_text() == page(), "renew it with: make man"


def test_roff_finds_no_mistake_in_it() -> None:
    assert formatted("-T", "lint", "-W", "error") == ""


def test_a_reader_finds_every_command_and_its_options() -> None:
    text = re.sub(r".\x08", "", formatted("-T", "utf8", "-O", "width=200"))

    assert [name for name in COMMANDS if f"fencepost {name}" not in text] == []
    assert "--busy-exit N" in text
    assert "--wait[=D]" in text
    assert "fencepost schedule pause [option ...] SCHEDULE" in text
    assert "sh -c './build | fencepost gate write-file site/index.html'" in text


def test_it_lists_the_exit_codes_of_the_reference() -> None:
    codes = re.findall(r"^\| (\d+) \|", (ROOT / "docs/reference/exit-codes.md").read_text(), re.MULTILINE)

    assert [code for code, _ in EXIT_CODES] == codes
