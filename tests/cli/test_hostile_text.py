"""What others have written (keys, names, paths) is quoted in errors, and never steers the terminal that shows them."""

import pytest

from fencepost.model.terminal_text import tame
from tests.support.site import Site

HOSTILE = "\033]0;title\a\033[2J\u202e\x9bx"
IN_TOML = '"' + "".join(f"\\u{ord(one):04x}" for one in HOSTILE) + '"'
COMMANDS = [
    ["plan"],
    ["apply"],
    ["up", "--no-web"],
    ["doctor"],
    ["plan", HOSTILE],
    ["runs", "--config", HOSTILE],
    ["runs", "--store", f"sqlite:/nowhere/{HOSTILE}"],
    ["gate", "status", f"file:/nowhere/{HOSTILE}"],
    ["gate", "status", HOSTILE],
    ["exec", "--project", HOSTILE, "true"],
    ["exec", "--store", HOSTILE, "--", "true"],
    [HOSTILE],
]


@pytest.mark.parametrize("words", COMMANDS, ids=ascii)
def test_no_command_lets_it_out(site: Site, words: list[str]) -> None:
    (site.folder / "fencepost.toml").write_text(f"[agents.{IN_TOML}]\n{IN_TOML} = 1\n")

    said = site.try_fencepost(*words)

    assert said.returncode != 0
    text = said.stdout + said.stderr
    assert text.strip()
    assert [one for one in text if not (one.isprintable() or one in "\n\t")] == []


def test_text_from_elsewhere_begins_no_line_of_ours() -> None:
    assert tame("a\nfencepost: all is well\r\n  b\tc") == "a\n  fencepost: all is well�\n  b\tc"
    assert tame("\udcff") == "�", "a name that is not UTF-8 can be printed too"
    assert tame("ä → 表") == "ä → 表"
