"""The schedules in the how-to pages of engines can be copied as they are."""

import re
from pathlib import Path

import pytest

from fencepost.config.load import load

ROOT = Path(__file__).parents[2]
PAGES = ("run-claude-code", "run-another-agent-cli", "run-an-http-agent", "run-a-python-agent")
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_first_block_is_a_whole_file(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / f"docs/how-to/{page}.md").read_text())
    file = tmp_path / "fencepost.toml"
    file.write_text(blocks[0])

    config = load(str(file))

    assert config.agents
    assert config.schedules


def test_a_definition_of_ones_own_can_be_copied_too(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs/how-to/run-another-agent-cli.md").read_text())
    file = tmp_path / "fencepost.toml"
    file.write_text(blocks[1])

    assert load(str(file)).agents["mine"].options["definition"]["argv"][0] == "mycli"
