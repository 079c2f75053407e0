"""Every definition that is shipped, under the real daemon, with stand-ins that speak the documented formats."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.config.presets import shipped, shipped_names
from fencepost.ports.runs import RunRow
from tests.engines.conftest import STANDINS, Bench

PRESETS = tuple(name for name in shipped_names() if name != "claude")  # which has an engine of its own
RESUMING = tuple(name for name in PRESETS if shipped(name).get("resume_argv"))
Told = tuple[str | None, float | None, dict[str, int] | None]
WORKS: dict[str, Told] = {
    "aider": ("Commit 1a2b3c4 docs: aider answers", 0.02, None),
    "amp": ("amp answers: {prompt}", None, {"input": 42, "output": 4}),
    "cline": ("cline answers: {prompt}", None, {"cache_read": 0, "cache_write": 0, "input": 90, "output": 9}),
    "continue": ("continue answers: {prompt}", None, None),
    "codex": ("codex answers: {prompt}", None, {"cache_read": 100, "input": 900, "output": 40}),
    "copilot": ("copilot answers: {prompt}", None, None),
    "cursor-agent": (
        "cursor answers: {prompt}",
        None,
        {"cache_read": 3, "cache_write": 0, "input": 79, "output": 8},
    ),
    "gemini": ("gemini answers: {prompt}", None, {"cache_read": 0, "input": 70, "output": 7}),
    "goose": (
        "goose answers: {prompt}",
        0.0009,
        {"cache_read": 0, "cache_write": 0, "input": 100, "output": 20, "total": 120},
    ),
    "opencode": ("opencode answers: {prompt}", 0.005, {"cache_read": 3, "cache_write": 0, "input": 30, "output": 11}),
    "qwen": ("qwen answers: {prompt}", None, {"cache_read": 0, "input": 40, "output": 8}),
}
FAILS = {
    "aider": "litellm.AuthenticationError",
    "amp": "out of credits",
    "cline": "invalid x-api-key",
    "continue": "401 invalid x-api-key",
    "codex": "usage limit reached",
    "copilot": "Authentication failed",
    "cursor-agent": None,
    "gemini": "quota",
    "goose": "Rate limit exceeded",
    "opencode": "overloaded",
    "qwen": "401 invalid x-api-key",
}
REFUSED = ("aider", "cline", "continue", "copilot", "qwen")  # their key
REASONS = {"cursor-agent": "exit_code", **dict.fromkeys(REFUSED, "misconfigured")}
MIDDLE = {
    "amp": '"tool_use"',
    "codex": '"item_1"',
    "copilot": '"tool.execution_start"',
    "cursor-agent": '"started"',
    "gemini": '"tool_use"',
    "goose": '"toolRequest"',
    "opencode": '"step_start"',
    "qwen": '"tool_use"',
}


def agent(preset: str, standin: str) -> str:
    """Describe an agent, and a schedule that is due at once."""
    name = f"{standin}-{preset}"
    return (
        f'[agents.{name}]\nengine = "cli"\npreset = "{preset}"\nprompt = "do {{run_id}}"\nenv.STANDIN = "{standin}"\n'
        f'[schedules.{name}-hourly]\nagent = "{name}"\nevery = "1h"\n'
    )


def test_every_definition_has_a_stand_in_and_an_expectation() -> None:
    assert set(PRESETS) == set(WORKS) == set(FAILS)
    assert set(PRESETS) <= {path.stem for path in STANDINS.glob("*.py")}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Let each work once and fail once, side by side, and return what `show` says of each."""
    bench = Bench(tmp_path_factory.mktemp("ready"))
    bench.configure("".join(agent(preset, mood) for preset in PRESETS for mood in ("works", "fails")))
    bench.up("--workers", "4", "--ttl", "5s")
    bench.until(lambda: sum(run.ended_us is not None for run in bench.runs()) == 2 * len(PRESETS), seconds=90)
    yield {run.agent: bench.shown(run.id) for run in bench.runs()}
    bench.close()


@pytest.mark.parametrize("preset", PRESETS)
def test_what_it_says_of_its_work_is_understood(shown: dict[str, dict[str, Any]], preset: str) -> None:
    run = shown[f"works-{preset}"]
    summary, cost, usage = WORKS[preset]

    assert (run["state"], run["exit_code"]) == ("succeeded", 0)
    assert run["summary"] == (summary or "").format(prompt=f"do {run['id']}")
    assert (run["cost_usd"], run["usage"], run["partial"]) == (cost, usage, False)
    assert bool(run["attempts"][0]["session"]) == (preset in RESUMING)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_failure_is_one_whatever_the_exit_code(shown: dict[str, dict[str, Any]], preset: str) -> None:
    run = shown[f"fails-{preset}"]
    said = FAILS[preset]

    assert run["state"] == "dead"
    assert run["reason"] == REASONS.get(preset, "agent_error")
    assert said is None or said in run["summary"]


def test_each_goes_on_with_its_own_session_after_a_deploy(bench: Bench) -> None:
    bench.configure("".join(agent(preset, "mid-turn") for preset in RESUMING))
    daemon = bench.up("--workers", str(len(RESUMING)), "--ttl", "5s")
    bench.until(lambda: sum(_is_at_it(bench, run) for run in bench.runs()) == len(RESUMING), seconds=60)

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(60) == 0
    assert {run.reason for run in bench.runs()} == {"drained"}
    bench.up("--workers", "4", "--ttl", "5s")
    bench.until(lambda: len(bench.runs(state="succeeded")) == len(RESUMING), seconds=60)

    for run in bench.runs():
        row = bench.shown(run.id)
        first, second = row["attempts"]
        assert first["session"] == second["session"], run.agent
        assert second["fence"] > first["fence"]
        assert row["summary"].partition(": ")[2].startswith("You were interrupted"), run.agent


def _is_at_it(bench: Bench, run: RunRow) -> bool:
    """Tell whether an agent is in the middle of its turn."""
    logs = bench.folder.glob(f"state/fencepost/logs/{run.id}*.log")
    return any(MIDDLE[run.agent.removeprefix("mid-turn-")] in path.read_text() for path in logs)
