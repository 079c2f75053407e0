"""The hook for programs on the Claude Agent SDK: with the real SDK and the Claude Code that comes with it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, query

from fencepost.integrations.claude_agent_sdk import check_lease, hooks, report
from tests.support.messages_api import INPUT_TOKENS, OUTPUT_TOKENS, MessagesApi, messages_api
from tests.support.site import Site

PROGRAM = """\
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from fencepost.integrations.claude_agent_sdk import hooks, report

async def work(run):
    options = ClaudeAgentOptions(hooks=hooks(), allowed_tools=["Bash"])
    async for message in query(prompt="please WRITE", options=options):
        if isinstance(message, ResultMessage):
            report(run, message)
"""


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with messages_api() as found:
        yield found


def test_inside_a_run_tools_pass_and_the_result_is_settled_with_its_cost(site: Site, api: MessagesApi) -> None:
    (site.folder / "mine.py").write_text(PROGRAM)
    env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in api.environment.items())
    site.configure(f'[agents.worker]\nengine = "python"\nfunction = "mine:work"\nenv = {{ {env} }}\n')
    site.up("--workers", "1", "--ttl", "5s", command="worker")

    site.fencepost("run", "worker", "--wait")
    (run,) = site.runs()
    (shown,) = site.rows("show", run.id)

    assert (site.folder / "written").read_text() == "written\n"
    assert (run.state, run.summary, (run.cost_micro or 0) > 0) == ("succeeded", "done", True)
    assert shown["attempts"][0]["turns"] == 2
    assert shown["usage"] == {"input": 2 * INPUT_TOKENS, "output": 2 * OUTPUT_TOKENS}


def test_without_a_lease_the_tool_is_denied_and_the_agent_stops(
    api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FENCEPOST_SOCKET", raising=False)
    env = {**api.environment, "HOME": str(tmp_path)}
    options = ClaudeAgentOptions(hooks=hooks(), allowed_tools=["Bash"], cwd=tmp_path, env=env)

    async def ask() -> list[ResultMessage]:
        asked = query(prompt="please WRITE", options=options)
        return [message async for message in asked if isinstance(message, ResultMessage)]

    (ended,) = asyncio.run(ask())

    assert not (tmp_path / "written").exists()
    assert len(api.asked) == 1, "the model was not asked again"
    assert ended.terminal_reason == "hook_stopped"


def test_the_hooks_are_a_matcher_for_every_tool() -> None:
    assert hooks() == {"PreToolUse": [HookMatcher(None, [check_lease], 10)]}


def test_a_result_without_usage_is_reported_all_the_same() -> None:
    said: list[dict[str, object]] = []
    run = SimpleNamespace(report=lambda **told: said.append(told))

    report(run, SimpleNamespace(total_cost_usd=None, num_turns=1, result="x", model_usage=None))

    assert said == [{"cost_usd": None, "turns": 1, "summary": "x", "usage": {}}]
