"""Messages between an agent and an MCP server, as far as a gateway has to understand them.

Most pass as they are; `mcp_frame` reads and writes them. What matters is a request to call a tool, what it is called in the ledger, and which tools write.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

FRAME_MAX = 33_554_432  # bytes; what is longer is not held in memory, and so not passed
CALL, LIST, CANCELLED = "tools/call", "tools/list", "notifications/cancelled"
PARSE_ERROR, INVALID_REQUEST, UPSTREAM_ERROR = -32700, -32600, -32000
VERSION_META = "io.modelcontextprotocol/protocolVersion"
WORD_MAX = 128
HINT_MAX = 60
ANSWER_KEPT_MAX = 60_000  # of 65,536 bytes that the ledger keeps

Message = dict[str, Any]


class ToolCall(NamedTuple):
    """A request to call a tool."""

    id: str  # as JSON, so that 1 and "1" are two
    tool: str
    arguments: object
    modern: bool = False  # a request of the sessionless protocol, whose results say that they are complete


def call_of(message: object) -> ToolCall | None:
    """Return the call of a tool that a message is, if it is one."""
    if not isinstance(message, dict) or message.get("method") != CALL:
        return None
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    return ToolCall(id_of(message), str(params.get("name", "")), params.get("arguments"), bool(version_of(message)))


def version_of(message: object) -> str:
    """Return the protocol version that a request of the sessionless protocol carries, or nothing."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(VERSION_META) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else ""


def id_of(message: Message) -> str:
    """Return the id of a request or response as JSON, or nothing for a notification."""
    value = message.get("id")
    return "" if value is None or not isinstance(value, str | int | float) else json.dumps(value)


def cancelled_by(message: object) -> str:
    """Return the id of the request that a notification cancels, or nothing."""
    if (
        not isinstance(message, dict)
        or message.get("method") != CANCELLED
        or not isinstance(message.get("params"), dict)
    ):
        return ""
    return id_of({"id": message["params"].get("requestId")})


def name_of(server: str, call: ToolCall, key_args: Iterable[str] | None = None) -> str:
    """Name a call by what makes it the same again: server, tool, and arguments in one canonical spelling."""
    chosen = call.arguments
    if key_args is not None:
        given = chosen if isinstance(chosen, dict) else {}
        chosen = {name: given[name] for name in key_args if name in given}
    text = json.dumps(chosen, sort_keys=True, separators=(",", ":"))
    return ":".join(["mcp", _word(server), _word(call.tool), *filter(None, [_hint(chosen)]), _digest(text)])


def _hint(arguments: object) -> str:
    """Say in a few letters what a call was about: the person who has to tell whether it took place cannot read a digest."""
    given = arguments if isinstance(arguments, dict) else {}
    shown = ",".join(f"{name}={value}" for name, value in sorted(given.items()) if isinstance(value, str | int))
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_.,=@/+") else "_" for one in shown[:HINT_MAX])


def server_name(argv: Iterable[str]) -> str:
    """Name a server that was given none, by how it is started."""
    words = list(argv)
    return f"{_word(words[0].rstrip('/').rpartition('/')[2] or 'server')[:40]}-{_digest(json.dumps(words))[:8]}"


def read_only_tools(result: object) -> dict[str, bool]:
    """Read from an answer to tools/list which tools say that they only read; by default a tool writes."""
    tools = result.get("tools") if isinstance(result, dict) else None
    found = {}
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            hints = tool.get("annotations")
            found[tool["name"]] = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    return found


def response(call_id: str, content: Mapping[str, Any]) -> Message:
    """Return a response with this result or error."""
    return {"jsonrpc": "2.0", "id": json.loads(call_id), **content}


def refusal(call: ToolCall, why: str) -> Message:
    """Answer a call as a tool that failed, so that the model reads why."""
    return response(call.id, {"result": text_result(f"fencepost: {why}", failed=True, modern=call.modern)})


def text_result(text: str, *, failed: bool, modern: bool) -> Message:
    """Return what a tool answers that has only words to say."""
    result = {"content": [{"type": "text", "text": text}], "isError": failed}
    return {**result, "resultType": "complete"} if modern else result


def protocol_error(code: int, why: str, call_id: str = "") -> Message:
    """Answer what is no proper request."""
    return response(call_id or "null", {"error": {"code": code, "message": f"fencepost: {why}"}})


def kept_answer(message: Message) -> str:
    """Return what the ledger keeps of a response: its result or error, or that it was too long to keep."""
    content = {name: message[name] for name in ("result", "error") if name in message}
    text = json.dumps(content)
    if len(text) <= ANSWER_KEPT_MAX:
        return text
    result = content.get("result")
    known = result if isinstance(result, dict) else {}
    failed = "error" in content or known.get("isError") is True
    words = (
        f"fencepost: this call was made by an earlier attempt; its answer of {len(text):,} bytes was too long to keep."
    )
    return json.dumps({"result": text_result(words, failed=failed, modern="resultType" in known)})


def _word(text: str) -> str:
    if 0 < len(text) <= WORD_MAX and text.isascii() and text.isprintable() and ":" not in text and " " not in text:
        return text
    return f"~{_digest(text)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
