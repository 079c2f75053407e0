"""Google's Gemini API: generateContent and streamGenerateContent."""

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.model.script import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Call, Said

PATH = "/v1beta/models/"
STREAMS = ":streamGenerateContent"
COUNTS = ":countTokens"


def asked(request: dict[str, Any], path: str = "") -> Asked:
    """Read a request; which model it is for stands in the path."""
    contents = request.get("contents", [])
    last = max((place for place, one in enumerate(contents) if one.get("role") == "model"), default=-1)
    parts = [part for one in contents[last + 1 :] for part in one.get("parts", ())]
    functions = [one for tool in request.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    return Asked(
        text=" ".join(str(part.get("text", "")) for part in parts),
        answered=any("functionResponse" in part for part in parts),
        tools={one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in functions},
        model=path.removeprefix(PATH).partition(":")[0],
        streams=STREAMS in path,
    )


def whole(said: Call | Said, model: str, _: int) -> dict[str, Any]:
    """Answer at once."""
    text = "" if isinstance(said, Call) else "".join(said.pieces)
    return _chunk(model, _part(said, text), last=True)


def stream(said: Call | Said, model: str, _: int) -> Iterator[bytes]:
    """Answer event by event."""
    pieces = [""] if isinstance(said, Call) else list(said.pieces)
    for place, piece in enumerate(pieces, start=1):
        yield f"data: {json.dumps(_chunk(model, _part(said, piece), last=place == len(pieces)))}\r\n\r\n".encode()


def error(status: int, words: str) -> dict[str, Any]:
    """Say what went wrong."""
    kinds = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
    return {"error": {"code": status, "message": words, "status": kinds[status]}}


def _part(said: Call | Said, text: str) -> dict[str, Any]:
    return {"functionCall": {"name": said.tool, "args": said.arguments}} if isinstance(said, Call) else {"text": text}


def _chunk(model: str, part: dict[str, Any], *, last: bool) -> dict[str, Any]:
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": [part]},
        **({"finishReason": "STOP"} if last else {}),
    }
    usage = {
        "promptTokenCount": INPUT_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS if last else 1,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "r"}
