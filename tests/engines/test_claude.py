"""The claude engine from end to end, under the real daemon, with a stand-in that speaks Claude Code's documented stream."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.ports.runs import RunRow
from tests.engines.conftest import Bench
from tests.service.test_up import _commands


def claude(name: str, standin: str, **settings: str) -> str:
    """Describe an agent of the claude engine that finds the stand-in in this mood."""
    more = "".join(f"{key} = {value}\n" for key, value in settings.items() if key != "env")
    env = ", ".join(filter(None, [f'STANDIN = "{standin}"', settings.get("env", "")]))
    return f'[agents.{name}]\nengine = "claude"\nprompt = "do it"\nenv = {{ {env} }}\n{more}'


AGENTS = {
    "works": claude("works", "works", budget_usd="2.5", model='"opus"', max_turns="40", permission_mode='"acceptEdits"',
                    tools='["Bash(git diff *)", "Read"]', checks="true",
                    mcp_servers='{ tracker = { command = "tracker-mcp", args = ["--stdio"] } }'),
    "stays": claude("stays", "never exits", result_grace='"300ms"'),
    "goes-on": claude("goes-on", "goes on after a result", result_grace='"10s"'),
    "errs": claude("errs", "error with exit 0"),
    "idle": claude("idle", "nothing with exit 0"),
    "ends": claude("ends", "no result"),
    "spends": claude("spends", "over budget"),
    "noisy": claude("noisy", "keep-alives", stall_timeout='"1s"'),
    "tool": claude("tool", "long tool", stall_timeout='"5s"', tool_timeout='"60s"', env='TOOL_SECONDS = "6"'),
    "stuck": claude("stuck", "long tool", stall_timeout='"20s"', tool_timeout='"700ms"', env='TOOL_SECONDS = "60"'),
    "orphan": claude("orphan", "orphan"),
    "silent": claude("silent", "silent"),
    "secret": claude("secret", "secret", secrets='{ SECRET_WORD = "file:/dev/fd/word" }'),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunRow]]:
    """Run every agent once, side by side."""
    bench = Bench(tmp_path_factory.mktemp("claude"))
    word = bench.folder / "word"
    word.write_text("correct-horse-battery")
    bench.configure("".join(AGENTS.values()).replace("/dev/fd/word", str(word)))
    bench.up("--workers", "4", "--ttl", "5s")
    for name in AGENTS:
        bench.fencepost("run", name)
    bench.until(lambda: all(run.ended_us for run in bench.runs()), seconds=90)
    yield {run.agent: run for run in bench.runs()}
    bench.close()


def test_outcome_cost_turns_and_usage_come_from_the_result(runs: dict[str, RunRow]) -> None:
    run = runs["works"]

    assert (run.state, run.exit_code, run.summary, run.cost_micro) == ("succeeded", 0, "all done", 12_300)


def test_its_standard_error_is_in_the_log_and_tears_no_event(runs: dict[str, RunRow]) -> None:
    log = Path(runs["works"].log or "").read_text()

    assert "a note on standard error" in log
    assert '"type": "result"' in log


def test_one_that_never_exits_after_its_result_has_succeeded_and_is_ended(runs: dict[str, RunRow]) -> None:
    run = runs["stays"]

    assert (run.state, run.exit_code, run.cost_micro) == ("succeeded", 0, 12_300)
    assert "never exits" not in _commands()


def test_one_that_goes_on_after_a_result_is_left_to_its_work(runs: dict[str, RunRow]) -> None:
    assert (runs["goes-on"].state, runs["goes-on"].summary) == ("succeeded", "really done")


def test_an_error_that_leaves_with_exit_0_is_a_failure(runs: dict[str, RunRow]) -> None:
    run = runs["errs"]

    assert (run.state, run.reason, run.summary) == ("dead", "agent_error", "API Error: 529 overloaded")
    assert run.cost_micro == 12_300  # it was paid for all the same


def test_a_result_without_a_turn_is_a_failure(runs: dict[str, RunRow]) -> None:
    assert (runs["idle"].state, runs["idle"].reason) == ("dead", "agent_error")
    assert runs["idle"].summary == "it ended without a single turn"


def test_an_end_without_a_result_is_a_failure(runs: dict[str, RunRow]) -> None:
    assert (runs["ends"].state, runs["ends"].reason) == ("dead", "agent_error")


def test_one_that_used_up_its_budget_is_dead_because_of_it(runs: dict[str, RunRow]) -> None:
    assert (runs["spends"].state, runs["spends"].reason, runs["spends"].cost_micro) == ("dead", "budget", 500_000)


def test_keep_alives_are_no_work(runs: dict[str, RunRow]) -> None:
    assert (runs["noisy"].state, runs["noisy"].reason) == ("dead", "stall_timeout")


def test_an_open_tool_call_has_a_budget_of_its_own(runs: dict[str, RunRow]) -> None:
    assert runs["tool"].state == "succeeded"
    assert (runs["stuck"].state, runs["stuck"].reason) == ("dead", "stall_timeout")


def test_a_server_that_left_the_process_group_dies_with_the_run(runs: dict[str, RunRow]) -> None:
    assert runs["orphan"].state == "succeeded"
    assert "sleep 987" not in _commands()


def test_one_that_says_nothing_until_its_end_succeeds(runs: dict[str, RunRow]) -> None:
    assert runs["silent"].state == "succeeded"


def test_a_secret_reaches_neither_the_log_nor_the_summary(runs: dict[str, RunRow]) -> None:
    run = runs["secret"]

    assert run.summary == "the word is [redacted]"
    assert "correct-horse" not in Path(run.log or "").read_text()


def asked(bench: Bench) -> tuple[list[str], str, dict[str, str]]:
    words, prompt, env = json.loads((bench.folder / "claude-argv.json").read_text())
    return words, prompt, env


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_everything_is_handed_over_by_words_of_its_own(bench: Bench) -> None:
    (bench.folder / "ask.md").write_text("Since {period_start}: $(touch X) {payload} {{literal}} {not a field}")
    more = AGENTS["works"].replace('prompt = "do it"', 'prompt_file = "ask.md"')
    bench.configure(more)
    bench.up("--workers", "1", "--ttl", "5s")

    bench.fencepost("run", "works", "--wait", "--payload", '{"t": "</payload> {fence} `touch X`"}')
    words, prompt, env = asked(bench)

    assert prompt == (
        'Since : $(touch X) <payload>\n{"t": "\\u003c/payload> {fence} `touch X`"}\n</payload> {literal} {not a field}'
    )
    assert not any("touch" in word for word in words)
    assert not (bench.folder / "X").exists()
    assert after(words, "--model") == "opus"
    assert after(words, "--max-turns") == "40"
    assert after(words, "--max-budget-usd") == "2.50"
    assert after(words, "--permission-mode") == "acceptEdits"
    place = words.index("--allowedTools")
    assert words[place + 1 : place + 3] == ["Bash(git diff *)", "Read"]
    assert "--strict-mcp-config" in words
    assert env["CLAUDE_CODE_DISABLE_CRON"] == "1"
    assert env["TRACEPARENT"].startswith("00-")


def test_a_deploy_in_the_middle_of_a_turn_resumes_the_session_under_a_new_fence(bench: Bench) -> None:
    bench.configure(claude("nightly", "mid-turn", budget_usd="1"))
    daemon = bench.up("--workers", "1", "--ttl", "5s")
    bench.fencepost("run", "nightly")
    sessions = bench.folder / ".claude-sessions"
    bench.until(lambda: "toolu_1" in _log(bench))

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    (handed_back,) = bench.runs()
    bench.up("--workers", "1", "--ttl", "5s")
    bench.until(lambda: bench.runs(state="succeeded"))
    (run,) = bench.runs()
    words, prompt, _ = asked(bench)
    (session,) = sessions.glob("*.jsonl")
    story = [json.loads(line) for line in session.read_text().splitlines()]

    assert (handed_back.state, handed_back.reason) == ("ready", "drained")
    assert (run.id, run.attempt, run.summary) == (handed_back.id, 1, "went on and finished")
    assert [one["word"] for one in story] == ["begun", "interrupted", "resumed"]
    assert int(story[0]["fence"]) < int(story[2]["fence"])
    assert after(words, "--resume") == session.stem
    assert "--session-id" not in words
    assert "interrupted" in prompt
    assert run.cost_micro == 10_000 + 12_300  # what the interrupted turn cost, and the rest
    assert after(words, "--max-budget-usd") == "0.99"
    (shown,) = bench.rows("show", run.id)
    assert shown["cost_usd"] == 0.0223
    assert [one["session"] for one in shown["attempts"]] == [session.stem, session.stem]
    assert shown["attempts"][1]["turns"] == 3
    assert shown["attempts"][1]["usage"] == {"cache_read": 50, "cache_write": 7, "input": 1010, "output": 202}


def test_a_session_that_was_killed_with_its_worker_is_resumed_if_its_owner_says_so(bench: Bench) -> None:
    bench.configure(claude("nightly", "mid-turn", on_lost='"resume"'))
    bench.up("--workers", "1", "--ttl", "3s")
    bench.fencepost("run", "nightly")
    bench.until(lambda: "toolu_1" in _log(bench))

    bench.kill()  # with its guard, else the next worker adopts it
    bench.up("--workers", "1", "--ttl", "3s")
    bench.until(lambda: bench.runs(state="succeeded"))

    assert bench.runs()[0].summary == "went on and finished"


@pytest.mark.parametrize("mood", ["another session", "forgetful"])
def test_an_agent_that_cannot_go_on_with_its_session_goes_to_a_person(bench: Bench, mood: str) -> None:
    bench.configure(claude("nightly", mood))
    daemon = bench.up("--workers", "1", "--ttl", "5s")
    bench.fencepost("run", "nightly")
    bench.until(lambda: "toolu_1" in _log(bench))

    daemon.send_signal(signal.SIGTERM)
    daemon.wait(30)
    bench.up("--workers", "1", "--ttl", "5s")
    bench.until(lambda: bench.runs(state="dead"))
    (run,) = bench.runs()

    assert run.reason == "ambiguous"
    assert (run.summary or "").startswith("it could not go on with its session ")


def _log(bench: Bench) -> str:
    return "".join(path.read_text() for path in (bench.folder / "state").glob("fencepost/logs/*.log"))
