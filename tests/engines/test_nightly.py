"""A nightly coding agent beside the person at work: in a worktree, through a deploy in the middle of a turn."""

import json
import signal
from pathlib import Path

from tests.engines.conftest import Bench
from tests.engines.test_claude import claude
from tests.support.repository import files_of, git, make_repository


def test_a_nightly_agent_is_killed_by_a_deploy_and_goes_on_where_it_was(bench: Bench) -> None:
    repo = bench.folder / "repo"
    make_repository(repo)
    (repo / "mine").write_text("a person is at work here\n")
    agent = claude("coder", "mid-turn", project='"repo"', budget_usd="1", env='DRAFT = "draft"')
    nightly = '[schedules.nightly]\nagent = "coder"\nevery = "1h"\n'
    bench.configure(f'[projects.repo]\npath = "repo"\nisolation = "worktree"\n{agent}{nightly}')
    daemon = bench.up("--workers", "2", "--ttl", "5s")
    bench.until(lambda: _is_at_it(bench))

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    (handed_back,) = bench.runs()
    between = files_of(repo, f"fencepost/{handed_back.id}")
    bench.up("--workers", "2", "--ttl", "5s")
    bench.until(lambda: bench.runs(state="succeeded"))
    (run,) = bench.runs()
    (session,) = (bench.folder / ".claude-sessions").glob("*.jsonl")
    story = [json.loads(line) for line in session.read_text().splitlines()]

    assert (handed_back.state, handed_back.reason) == ("ready", "drained")
    assert between["draft"] == "half a thought"
    assert (run.id, run.attempt, run.summary) == (handed_back.id, 1, "went on and finished")
    assert [one["word"] for one in story] == ["begun", "interrupted", "resumed"]
    assert int(story[0]["fence"]) < int(story[2]["fence"])
    assert {Path(one["folder"]).name for one in story} == {run.id}
    assert run.cost_micro == 10_000 + 12_300
    assert files_of(repo, f"fencepost/{run.id}")["draft"] == "half a thought\nand the other half"
    assert git(repo, "status", "--porcelain") == "?? mine"
    assert not list(bench.folder.glob(".repo.worktrees/*"))


def _is_at_it(bench: Bench) -> bool:
    """Tell whether the agent is in the middle of its turn."""
    return any((bench.folder / ".repo.worktrees").glob("*/draft"))
