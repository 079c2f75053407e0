"""The claude engine with the real Claude Code, which comes with its SDK; only the model behind it is a stand-in."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from fencepost.engines.claude import SETTINGS_FILE, settings_files
from tests.engines.conftest import Bench
from tests.support.messages_api import INPUT_TOKENS, OUTPUT_TOKENS, MessagesApi, messages_api
from tests.support.repository import files_of, git, make_repository

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with messages_api() as found:
        yield found


@pytest.fixture
def real(bench: Bench) -> Bench:
    (bench.folder / "bin" / "claude").unlink()
    (bench.folder / "bin" / "claude").symlink_to(CLI)
    return bench


def agent(api: MessagesApi, name: str, prompt: str, **settings: str) -> str:
    """Describe an agent whose model is ours."""
    more = "".join(f"{key} = {value}\n" for key, value in settings.items())
    env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in api.environment.items())
    return f'[agents.{name}]\nengine = "claude"\nprompt = "{prompt}"\ntools = ["Bash"]\nenv = {{ {env} }}\n{more}'


def shown(bench: Bench) -> dict[str, Any]:
    (run,) = bench.runs()
    (row,) = bench.rows("show", run.id)
    return row


def session_cost(run: dict[str, Any]) -> float:
    """Return what the last result said that the whole session cost, however much of it an interrupted turn had told."""
    events = [json.loads(line) for line in Path(run["log"]).read_text().splitlines() if line.startswith("{")]
    return float(next(one["total_cost_usd"] for one in reversed(events) if one.get("type") == "result"))


def used(answers: int) -> dict[str, int]:
    """Return what so many answers of the model count as."""
    return {"cache_read": 0, "cache_write": 0, "input": answers * INPUT_TOKENS, "output": answers * OUTPUT_TOKENS}


def test_a_run_holds_its_lease_while_it_works_and_tells_what_it_used(real: Bench, api: MessagesApi) -> None:
    real.configure(agent(api, "coder", "please WRITE"))
    real.up("--workers", "1", "--ttl", "5s", command="worker")

    real.fencepost("run", "coder", "--wait")
    run = shown(real)

    assert (run["state"], run["summary"], run["attempts"][0]["turns"]) == ("succeeded", "done", 2)
    assert (real.folder / "written").read_text() == "written\n"
    assert (run["usage"], run["partial"], run["cost_usd"] > 0) == (used(2), False, True)
    assert run["attempts"][0]["session"] in Path(run["log"]).read_text()


def test_a_deploy_interrupts_a_turn_and_what_the_session_cost_is_counted_once(real: Bench, api: MessagesApi) -> None:
    real.configure(agent(api, "coder", "please STAY"))
    daemon = real.up("--workers", "1", "--ttl", "5s", command="worker")
    real.fencepost("run", "coder")
    real.until((real.folder / "draft").exists)

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    between = shown(real)
    real.up("--workers", "1", "--ttl", "5s", command="worker")
    real.until(lambda: real.runs(state="succeeded"))
    run = shown(real)

    first, second = run["attempts"]
    assert (between["state"], between["reason"]) == ("ready", "drained")
    assert first["session"] == second["session"]
    assert "please STAY" in json.dumps(api.asked[-1]), "the conversation goes on"
    assert (run["summary"], run["usage"]) == ("went on", used(2))
    assert run["cost_usd"] == pytest.approx(session_cost(run))


def test_a_nightly_agent_goes_on_in_its_worktree_after_a_deploy(real: Bench, api: MessagesApi) -> None:
    repo = real.folder / "repo"
    make_repository(repo)
    nightly = (
        agent(api, "coder", "please STAY", project='"repo"') + '[schedules.nightly]\nagent = "coder"\nevery = "1h"\n'
    )
    real.configure(f'[projects.repo]\npath = "repo"\nisolation = "worktree"\n{nightly}')
    daemon = real.up("--workers", "1", "--ttl", "5s")
    real.until(lambda: any((real.folder / ".repo.worktrees").glob("*/draft")))

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(30) == 0
    between = shown(real)
    real.up("--workers", "1", "--ttl", "5s")
    real.until(lambda: real.runs(state="succeeded"))
    run = shown(real)

    assert (between["reason"], run["summary"]) == ("drained", "went on")
    assert len({one["session"] for one in run["attempts"]}) == 1
    assert run["cost_usd"] == pytest.approx(session_cost(run))
    assert files_of(repo, f"fencepost/{run['id']}")["draft"] == "half"
    assert git(repo, "status", "--porcelain") == ""


def test_one_that_is_killed_tells_what_it_used_until_then(real: Bench, api: MessagesApi) -> None:
    real.configure(agent(api, "coder", "please DIE"))
    real.up("--workers", "1", "--ttl", "5s", command="worker")

    real.fencepost("run", "coder", "--wait", code=137)
    run = shown(real)

    assert (run["cost_usd"], run["partial"], run["usage"]["input"]) == (None, True, INPUT_TOKENS)
    assert "unknown, for the agent was cut off" in " ".join(real.fencepost("show", run["id"]).split())


@pytest.mark.parametrize("events", [("PreToolUse",), ("PreToolUse", "UserPromptSubmit")], ids=["tool", "turn"])
def test_the_hook_stops_an_agent_whose_supervisor_is_gone(
    real: Bench, api: MessagesApi, events: tuple[str, ...]
) -> None:
    settings = json.loads(settings_files({"checks": True})[SETTINGS_FILE])
    settings["hooks"] = {name: settings["hooks"][name] for name in events}
    words = ["claude", "-p", "--output-format", "json", "--allowedTools", "Bash", "--settings", json.dumps(settings)]
    env = {**real.environment(), **api.environment, "FENCEPOST_SOCKET": "/nowhere"}

    ran = subprocess.run(
        words, cwd=real.folder, env=env, input=b"please WRITE", capture_output=True, check=False, timeout=60
    )

    assert not (real.folder / "written").exists(), ran.stdout
    if len(events) > 1:
        assert api.asked == [], "the model was never asked"
    else:
        assert any("fencepost: " in answer for answer in api.tool_answers())


SERVER = """\
from pathlib import Path
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def add(line: str) -> str:
    with Path("notes").open("a") as file:
        file.write(f"{line}\\n")
    return "added"


server.run("stdio")
"""


def test_a_write_by_mcp_passes_the_gateway_and_is_in_the_ledger(real: Bench, api: MessagesApi) -> None:
    (real.folder / "notes.py").write_text(SERVER)
    server = f'{{ notes = {{ command = "{sys.executable}", args = ["{real.folder}/notes.py"] }} }}'
    asks = agent(api, "coder", "please NOTE", mcp_servers=server)
    real.configure(asks.replace('tools = ["Bash"]', 'tools = ["mcp__notes__add"]'))
    real.up("--workers", "1", "--ttl", "5s", command="worker")

    real.fencepost("run", "coder", "--wait")
    (entry,) = real.rows("ledger", "list")

    assert shown(real)["state"] == "succeeded"
    assert (real.folder / "notes").read_text() == "a note\n"
    assert (entry["state"], "add" in entry["key"]) == ("completed", True)


def test_a_session_that_is_not_there_is_told_as_the_definition_reads_it(real: Bench, api: MessagesApi) -> None:
    unknown = "3b241101-e2bb-4255-8caf-4136c566a962"
    words = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--resume", unknown]

    ran = subprocess.run(
        words,
        cwd=real.folder,
        env={**os.environ, **real.environment(), **api.environment},
        input=b"x",
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert ran.returncode == 1
    assert json.loads(ran.stdout.splitlines()[-1])["errors"][0].startswith("No conversation found")
