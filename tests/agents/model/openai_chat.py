"""OpenAI's chat completions, which most other servers speak too."""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.model.script import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Call, Said

PATH = "/v1/chat/completions"
USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def asked(request: dict[str, Any]) -> Asked:
    """Read a request."""
    messages = request["messages"]
    last = max((place for place, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    new = [one for one in messages[last + 1 :] if one["role"] != "system"]
    functions = [tool.get("function", tool) for tool in request.get("tools", ())]
    return Asked(
        text=" ".join(text_of(one.get("content")) for one in new),
        answered=any(one["role"] == "tool" for one in new),
        tools={one["name"]: one.get("parameters", {}) for one in functions if "name" in one},
        model=request["model"],
        streams=bool(request.get("stream")),
    )


def text_of(content: Any) -> str:  # noqa: ANN401  # a text, or a list of parts
    """Return the text of a message's content."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def whole(said: Call | Said, model: str, number: int) -> dict[str, Any]:
    """Answer at once."""
    message: dict[str, Any] = {"role": "assistant", "content": None if isinstance(said, Call) else "".join(said.pieces)}
    if isinstance(said, Call):
        message["tool_calls"] = [_call(said, number)]
    choice = {"index": 0, "message": message, "finish_reason": _stop(said)}
    return {**_base(model, number), "object": "chat.completion", "choices": [choice], "usage": USAGE}


def stream(said: Call | Said, model: str, number: int) -> Iterator[bytes]:
    """Answer event by event."""
    base = {**_base(model, number), "object": "chat.completion.chunk"}
    yield _event({**base, "choices": [_choice({"role": "assistant", "content": ""})]})
    if isinstance(said, Call):
        yield _event({**base, "choices": [_choice({"tool_calls": [{**_call(said, number), "index": 0}]})]})
    else:
        for piece in said.pieces:
            yield _event({**base, "choices": [_choice({"content": piece})]})
    yield _event({**base, "choices": [_choice({}, _stop(said))]})
    yield _event({**base, "choices": [], "usage": USAGE})
    yield b"data: [DONE]\n\n"


def error(status: int, words: str) -> dict[str, Any]:
    """Say what went wrong."""
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: "server_error"}
    return {"error": {"message": words, "type": codes[status], "code": codes[status], "param": None}}


def _base(model: str, number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "created": 1_700_000_000, "model": model}


def _call(said: Call, number: int) -> dict[str, Any]:
    function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _choice(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": stop}


def _stop(said: Call | Said) -> str:
    return "tool_calls" if isinstance(said, Call) else "stop"


def _event(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()
