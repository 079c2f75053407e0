"""OpenAI's responses, which Codex speaks."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.agents.model.openai_chat import error, text_of
from tests.agents.model.script import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Call, Said

__all__ = ["PATH", "asked", "error", "stream", "whole"]
PATH = "/v1/responses"
ANSWERS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def asked(request: dict[str, Any]) -> Asked:
    """Read a request."""
    given = request["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    own = [place for place, one in enumerate(items) if one.get("role") == "assistant" or _is_call(one)]
    new = items[max(own, default=-1) + 1 :]
    return Asked(
        text=" ".join(text_of(one.get("content")) for one in new if one.get("role") == "user"),
        answered=any(one.get("type") in ANSWERS for one in new),
        tools=dict(_tools(request.get("tools", ()))),
        model=request["model"],
        streams=bool(request.get("stream")),
    )


def _tools(tools: Any, above: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # JSON
    """Yield every function, also those in a namespace, such as an MCP server's."""
    for tool in tools:
        name = tool.get("name") or ("local_shell" if tool.get("type") == "local_shell" else "")
        if tool.get("type") == "namespace":
            yield from _tools(tool.get("tools", ()), f"{name}::")
        elif name:
            yield f"{above}{name}", tool.get("parameters") or {}


def _is_call(item: dict[str, Any]) -> bool:
    return str(item.get("type", "")).endswith("_call")


def whole(said: Call | Said, model: str, number: int) -> dict[str, Any]:
    """Answer at once."""
    return {**_response(model, number), "status": "completed", "output": [_item(said, number)], "usage": USAGE}


def stream(said: Call | Said, model: str, number: int) -> Iterator[bytes]:
    """Answer event by event."""
    numbers, item = count(), _item(said, number)
    empty: dict[str, Any] = {"content": []} if isinstance(said, Said) else {"arguments": ""}
    begun = {**item, "status": "in_progress", **empty}

    def event(kind: str, **fields: Any) -> bytes:  # noqa: ANN401  # JSON
        data = {"type": kind, "sequence_number": next(numbers), **fields}
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()

    yield event("response.created", response={**_response(model, number), "status": "in_progress", "output": []})
    yield event("response.output_item.added", output_index=0, item=begun)
    if isinstance(said, Said):
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield event("response.content_part.added", **place, part=part)
        for piece in said.pieces:
            yield event("response.output_text.delta", **place, delta=piece)
        yield event("response.output_text.done", **place, text="".join(said.pieces))
        yield event("response.content_part.done", **place, part=item["content"][0])
    else:
        arguments = json.dumps(said.arguments)
        yield event("response.function_call_arguments.done", item_id=item["id"], output_index=0, arguments=arguments)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=whole(said, model, number))


def _response(model: str, number: int) -> dict[str, Any]:
    return {"id": f"resp_{number}", "object": "response", "created_at": 1_700_000_000, "model": model, "error": None}


def _item(said: Call | Said, number: int) -> dict[str, Any]:
    if isinstance(said, Said):
        content = [{"type": "output_text", "text": "".join(said.pieces), "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{number}",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
    space, _, name = said.tool.rpartition("::")
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        **({"namespace": space} if space else {}),
        "arguments": json.dumps(said.arguments),
        "status": "completed",
    }
