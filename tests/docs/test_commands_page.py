"""The reference of the commands says what the commands say."""

import sys
from pathlib import Path

import pytest

from fencepost.cli import gate
from fencepost.cli.main import COMMANDS
from fencepost.cli.reference import help_of, page

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
RENEW = "renew it with: python -m fencepost.cli.reference > docs/reference/commands.md"


@pytest.mark.skipif(sys.version_info[:2] > (3, 12), reason="argparse words its help otherwise since 3.13")
def test_the_page_is_the_commands_own_help() -> None:
    assert PAGE.read_text() == page(), RENEW


def test_no_command_has_a_line_that_does_not_fit() -> None:
    assert [line for line in page().splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"version"}))
def test_every_command_and_each_of_its_actions_shows_an_example_or_where_to_find_one(name: str) -> None:
    elsewhere = ("fencepost schedule ticks", "fencepost schedule backfill")  # they have a parser of their own
    texts = [text for text in help_of(name) if not text.removeprefix("usage: ").startswith(elsewhere)]
    assert [text for text in texts if "example" not in text] == []


@pytest.mark.parametrize("name", sorted(gate.COMMANDS))
def test_every_gate_command_fits_and_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gate.main([name, "--help"])
    said = capsys.readouterr().out
    assert "example" in said
    assert [line for line in said.splitlines() if len(line) > 80] == []
