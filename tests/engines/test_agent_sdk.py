"""The hook for programs on the Claude Agent SDK, called as the SDK documents it: (input, tool_use_id, context)."""

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fencepost.integrations.claude_agent_sdk import check_lease, hooks, report
from tests.support.site import Site

INPUT = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s"}

PROGRAM = """\
import asyncio, json, sys
from types import SimpleNamespace
from fencepost.integrations.claude_agent_sdk import check_lease, report

async def work(run):
    first = await check_lease({"hook_event_name": "PreToolUse", "tool_name": "Bash"}, "toolu_1", {"signal": None})
    usage = {"big": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokens": 0}}
    report(run, SimpleNamespace(total_cost_usd=0.25, num_turns=3, result="finished", model_usage=usage))
    print(json.dumps(first))
"""


def test_outside_of_a_run_every_tool_is_denied_and_the_agent_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_SOCKET", raising=False)

    answer = asyncio.run(check_lease(INPUT, "toolu_1", {"signal": None}))

    assert answer["continue_"] is False
    assert answer["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert answer["hookSpecificOutput"]["permissionDecisionReason"]


def test_inside_a_run_tools_pass_and_the_result_is_settled_with_its_cost(site: Site) -> None:
    (site.folder / "mine.py").write_text(PROGRAM)
    site.configure('[agents.worker]\nengine = "python"\nfunction = "mine:work"\n')
    site.up("--workers", "1", "--ttl", "5s")

    site.fencepost("run", "worker", "--wait")
    (run,) = site.runs()
    (shown,) = site.rows("show", run.id)

    assert json.loads(Path(run.log or "").read_text()) == {}
    assert (run.cost_micro, run.summary) == (250_000, "finished")
    assert (shown["attempts"][0]["turns"], shown["usage"]) == (3, {"input": 5, "output": 2})


def test_a_result_without_usage_is_reported_all_the_same() -> None:
    said: list[dict[str, object]] = []
    run = SimpleNamespace(report=lambda **told: said.append(told))

    report(run, SimpleNamespace(total_cost_usd=None, num_turns=1, result="x", model_usage=None))

    assert said == [{"cost_usd": None, "turns": 1, "summary": "x", "usage": {}}]


class HookMatcher(NamedTuple):
    """The SDK's own class, with the fields that version 0.2 documents."""

    matcher: str | None = None
    hooks: list[Any] = []  # noqa: RUF012  # as the SDK has it
    timeout: float | None = None


def test_the_hooks_are_a_matcher_for_every_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = ModuleType("claude_agent_sdk")
    monkeypatch.setattr(sdk, "HookMatcher", HookMatcher, raising=False)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", sdk)

    assert hooks() == {"PreToolUse": [HookMatcher(None, [check_lease], 10)]}
