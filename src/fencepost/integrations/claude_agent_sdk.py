"""For programs on the Claude Agent SDK: a hook that asks before every tool call whether the run still has its lease.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from fencepost.integrations.claude_agent_sdk import hooks

    options = ClaudeAgentOptions(hooks=hooks())

The SDK calls hooks for every tool, also for those that need no permission. Without an answer the tool is denied and the
run stops. This is a check in the agent's own tree; what it writes through a gate is compared there.
"""

import asyncio
from typing import Any

from fencepost.model.errors import FencepostError
from fencepost.operations import supervisor_client

EVENT = "PreToolUse"
SECONDS = 10


async def check_lease(input_data: Any, tool_use_id: str | None, context: Any) -> Any:  # noqa: ANN401  # the SDK's own types
    """Let a tool call pass while the run holds its lease; deny it, and stop the agent, once it does not."""
    del input_data, tool_use_id, context  # the lease alone decides
    try:
        await asyncio.to_thread(supervisor_client.ask, "check")
    except FencepostError as error:
        return denied(f"fencepost: {error}")
    return {}


def denied(reason: str) -> dict[str, Any]:
    """Return the answer that keeps the tool from running and ends the conversation."""
    return {
        "continue_": False,
        "stopReason": reason,
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        },
    }


def hooks() -> dict[Any, list[Any]]:
    """Return what to give to `ClaudeAgentOptions(hooks=…)`: the check, for every tool."""
    from claude_agent_sdk import HookMatcher

    return {EVENT: [HookMatcher(matcher=None, hooks=[check_lease], timeout=SECONDS)]}


def report(run: Any, message: Any) -> None:  # noqa: ANN401  # a RunContext, and the SDK's ResultMessage
    """Hand the result's cost, turns and usage over to the run: `report(run, message)` for the last message."""
    by_model = getattr(message, "model_usage", None) or {}
    kinds = {"input": "inputTokens", "output": "outputTokens", "cache_read": "cacheReadInputTokens"}
    usage = {name: sum(one.get(key, 0) for one in by_model.values()) for name, key in kinds.items()}
    run.report(
        cost_usd=message.total_cost_usd,
        turns=message.num_turns,
        summary=message.result,
        usage={name: amount for name, amount in usage.items() if amount},
    )
