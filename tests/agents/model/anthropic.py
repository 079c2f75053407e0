"""Anthropic's Messages API, as its reference describes it."""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.model.script import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Call, Said

PATH = "/v1/messages"


def asked(request: dict[str, Any]) -> Asked:
    """Read a request."""
    messages = request["messages"]
    last = max((place for place, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    blocks = [block for message in messages[last + 1 :] for block in _blocks(message)]
    return Asked(
        text=" ".join(block.get("text", "") for block in blocks),
        answered=any(block.get("type") == "tool_result" for block in blocks),
        tools={tool["name"]: tool.get("input_schema", {}) for tool in request.get("tools", ()) if "name" in tool},
        model=request["model"],
        streams=bool(request.get("stream")),
    )


def whole(said: Call | Said, model: str, number: int) -> dict[str, Any]:
    """Answer at once."""
    block, stop = _block(said, number)
    return {**_message(model, number), "content": [block], "stop_reason": stop, "usage": _usage(OUTPUT_TOKENS)}


def stream(said: Call | Said, model: str, number: int) -> Iterator[bytes]:
    """Answer event by event."""
    block, stop = _block(said, number)
    begun = {**block, "input": {}} if isinstance(said, Call) else {"type": "text", "text": ""}
    yield _event(
        {
            "type": "message_start",
            "message": {**_message(model, number), "content": [], "stop_reason": None, "usage": _usage(1)},
        }
    )
    yield _event({"type": "content_block_start", "index": 0, "content_block": begun})
    for delta in _deltas(said):
        yield _event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _event({"type": "content_block_stop", "index": 0})
    ended = {"stop_reason": stop, "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": OUTPUT_TOKENS}})
    yield _event({"type": "message_stop"})


def error(status: int, words: str) -> dict[str, Any]:
    """Say what went wrong."""
    kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}
    return {"type": "error", "error": {"type": kinds[status], "message": words}}


def _message(model: str, number: int) -> dict[str, Any]:
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _usage(output: int) -> dict[str, int]:
    return {
        "input_tokens": INPUT_TOKENS,
        "output_tokens": output,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }


def _block(said: Call | Said, number: int) -> tuple[dict[str, Any], str]:
    if isinstance(said, Call):
        return {"type": "tool_use", "id": f"toolu_{number}", "name": said.tool, "input": said.arguments}, "tool_use"
    return {"type": "text", "text": "".join(said.pieces)}, "end_turn"


def _deltas(said: Call | Said) -> Iterator[dict[str, Any]]:
    if isinstance(said, Call):
        yield {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
        return
    for piece in said.pieces:
        yield {"type": "text_delta", "text": piece}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
