"""The reference of the commands says what the commands say."""

import sys
from pathlib import Path

import pytest

from fencepost.cli.reference import page

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
RENEW = "renew it with: python -m fencepost.cli.reference > docs/reference/commands.md"


@pytest.mark.skipif(sys.version_info[:2] > (3, 12), reason="argparse words its help otherwise since 3.13")
def test_the_page_is_the_commands_own_help() -> None:
    assert PAGE.read_text() == page(), RENEW


def test_no_command_has_a_line_that_does_not_fit() -> None:
    assert [line for line in page().splitlines() if len(line) > 100] == []
