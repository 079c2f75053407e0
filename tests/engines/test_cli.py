"""The cli engine: the same file with other CLIs, a CLI of the user's own, and what their streams mean."""

import signal
from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.model.errors import Invalid
from tests.engines.conftest import Bench

FILE = """\
[agents.review]
engine = "cli"
preset = "{preset}"
prompt = "review what changed for run {{run_id}}"
[schedules.nightly]
agent = "review"
cron = "0 3 * * *"
"""


def test_the_same_file_runs_three_clis_by_changing_one_line(bench: Bench) -> None:
    bench.configure(FILE.format(preset="codex"))
    bench.up("--workers", "1", "--ttl", "5s", command="worker")
    for preset in ("codex", "gemini", "opencode"):
        bench.configure(FILE.format(preset=preset))
        bench.fencepost("run", "nightly", "--wait")
    third, second, first = bench.runs()

    for run, name in ((first, "codex"), (second, "gemini"), (third, "opencode")):
        assert (run.state, run.summary) == ("succeeded", f"{name} answers: review what changed for run {run.id}")
    assert [run.version for run in (first, second, third)] == [1, 2, 3]  # another CLI is another version
    assert [run.cost_micro for run in (first, second, third)] == [None, None, 5000]
    (shown,) = bench.rows("show", first.id)
    assert shown["usage"] == {"cache_read": 100, "input": 900, "output": 40}
    assert shown["attempts"][0]["session"] == f"th-{first.fence}"


def test_a_codex_thread_is_resumed_after_a_deploy(bench: Bench) -> None:
    options = 'args = ["--sandbox", "workspace-write"]\n'
    bench.configure(
        FILE.format(preset="codex").replace("[schedules", f"{options}[schedules")
        + "[agents.review.env]\nSTANDIN = 'mid-turn'\n"
    )
    daemon = bench.up("--workers", "1", "--ttl", "5s", command="worker")
    bench.fencepost("run", "review")
    bench.until(lambda: "item_1" in _log(bench))

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    bench.up("--workers", "1", "--ttl", "5s", command="worker")
    bench.until(lambda: bench.runs(state="succeeded"))

    assert (bench.runs()[0].summary or "").startswith("codex answers: You were interrupted")


OWN = """\
[engines.mine]
argv = ["{program}", "--ask", "{{prompt}}", "{{args}}"]
prompt_by = "argument"
[engines.mine.exit_codes]
9 = "misconfigured"
[engines.mine.output]
format = "jsonl"
work = [{{ when = {{ kind = "step" }} }}]
succeeded = [{{ when = {{ kind = "end", ok = true }} }}]
failed = [{{ when = {{ kind = "end", ok = false }}, take = "why" }}]
summary = [{{ when = {{ kind = "end" }}, take = "text" }}]
cost_usd = [{{ when = {{ kind = "end" }}, take = "price" }}]
[agents.own]
engine = "cli"
preset = "mine"
prompt = "$(touch X); {{agent}}"
args = ["{mood}"]
max_attempts = 3
backoff = "10ms"
"""
PROGRAM = """\
#!/bin/sh
case "$3" in
  well) echo '{"kind": "step"}'; echo "{\\"kind\\": \\"end\\", \\"ok\\": true, \\"text\\": \\"$2\\", \\"price\\": 0.5}";;
  badly) echo '{"kind": "end", "ok": false, "why": "no luck"}';;
  wrongly) exit 9;;
esac
"""


@pytest.mark.parametrize(
    ("mood", "code", "ending"),
    [
        ("well", 0, ("succeeded", None, "$(touch X); own", 500_000, 1)),
        ("badly", 1, ("dead", "agent_error", "no luck", None, 3)),
        ("wrongly", 78, ("dead", "misconfigured", None, None, 1)),
    ],
)
def test_a_cli_of_ones_own_needs_no_code(
    bench: Bench, mood: str, code: int, ending: tuple[str, str | None, str | None, int | None, int]
) -> None:
    program = bench.folder / "my cli"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    bench.configure(OWN.format(program=program, mood=mood))
    bench.up("--workers", "1", "--ttl", "5s", command="worker")

    bench.fencepost("run", "own", "--wait", code=code)
    (run,) = bench.runs()

    assert (run.state, run.reason, run.summary, run.cost_micro, run.attempt) == ending
    assert not (bench.folder / "X").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('preset = "codx"\nprompt = "x"', 'Did you mean "codex"'),
        ('preset = "codex"\nprompt = "{perod_start}"', "Did you mean {period_start}?"),
        ('preset = "codex"', "it has no prompt or prompt_file"),
        ('preset = "aider"\nprompt = "x"\nprompt_file = "y"', "keep one of the two"),
        ('preset = "codex"\nprompt_file = "nowhere.md"', "nowhere.md cannot be read"),
        ('argv = ["x", "{promt}"]', "Did you mean {prompt}?"),
        ('preset = "whole"\nprompt = "x"\nstall_timeout = "5m"', "prints nothing until its end"),
    ],
)
def test_a_definition_that_cannot_work_is_refused_at_apply(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fencepost.toml"
    whole = '[engines.whole]\nargv = ["x"]\noutput = { format = "json" }\n'
    file.write_text(f'{whole}[agents.a]\nengine = "cli"\n{text}\n')

    with pytest.raises(Invalid) as refused:
        load(str(file))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('args = ["--bare"]', "--bare leaves hooks out"),
        ("settings = { disableAllHooks = true }", "disableAllHooks would undo checks"),
        ('args = ["--resume=x"]', "is set by the engine itself"),
        ('tools = ["--dangerously-skip-permissions"]', "is no tool"),
        ('permission_mode = "yolo"', "is none of default"),
    ],
)
def test_options_that_undo_one_another_are_refused_at_apply(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(f'[agents.a]\nengine = "claude"\nprompt = "x"\n{text}\n')

    with pytest.raises(Invalid) as refused:
        load(str(file))
    assert said in str(refused.value)


def _log(bench: Bench) -> str:
    return "".join(path.read_text() for path in (bench.folder / "state").glob("fencepost/logs/*.log"))
