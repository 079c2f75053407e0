"""An agent reaches its run from inside, whatever its shell does to PATH and whichever variables its host lets through."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import Site

# As Codex's login shell and Gemini's start of an MCP server do: another PATH, and no variable that looks like a secret.
ASK = 'unset FENCEPOST_RUN_KEY FENCEPOST_IDEMPOTENCY_KEY; PATH=/nowhere; "$FENCEPOST_EXE" hook check'
WORK = f"""\
import subprocess
def ask(ctx):
    subprocess.run(["/bin/sh", "-c", {ASK!r}], check=True)
"""
COMMAND = f'[agents.asks]\ncommand = ["/bin/sh", "-c", {ASK!r}]\n'
FUNCTION = '[agents.asks]\nengine = "python"\nfunction = "work:ask"\n'
AGENTS = {"command": COMMAND, "function": FUNCTION}  # in a lane a function has its context, and no environment


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    (tmp_path / "work.py").write_text(WORK)
    yield made
    made.close()


@pytest.mark.parametrize("way", AGENTS)
def test_a_scheduled_run_is_reached_from_inside(site: Site, way: str) -> None:
    site.configure(AGENTS[way])
    site.up("--workers", "1", "--ttl", "5s", command="worker")

    site.fencepost("run", "asks", "--wait")

    assert [run.state for run in site.runs()] == ["succeeded"]


def test_a_guarded_command_is_reached_from_inside(site: Site) -> None:
    said = site.fencepost("exec", "--lock", "z", "--", "/bin/sh", "-c", f'{ASK} && echo "by $FENCEPOST_EXE"')

    assert said.split() == ["by", str(Path(sys.executable).parent / "fencepost")]


def test_without_any_key_the_run_is_not_reached(site: Site) -> None:
    asks = f"unset FENCEPOST_RUN_PROOF; {ASK}"

    site.fencepost("exec", "--lock", "z", "--", "/bin/sh", "-c", asks, code=2)
