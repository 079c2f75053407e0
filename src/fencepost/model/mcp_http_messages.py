"""MCP over streamable HTTP, as far as it is text: which headers a message needs, and how events come in lines."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fencepost.model.mcp import FRAME_MAX, Message, version_of

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SENTINEL = "=?base64?"


class Event(NamedTuple):
    """One event of a stream."""

    data: bytes
    id: str


def message_headers(message: object, schemas: Mapping[str, object]) -> dict[str, str]:
    """Return the headers that repeat what a message says, for those who route it without reading it."""
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return {}
    headers = {"Mcp-Method": header_text(message["method"])}
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get(NAMED_BY.get(message["method"], ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = header_text(name)
    if version_of(message):
        headers["MCP-Protocol-Version"] = header_text(version_of(message))
    if message["method"] == "tools/call" and version_of(message):
        headers.update(_parameter_headers(schemas.get(str(name)), params.get("arguments")))
    return headers


def header_text(value: str) -> str:
    """Write a value so that a header can carry it."""
    is_plain = value.isascii() and (not value or value.isprintable()) and value == value.strip()
    if is_plain and not value.startswith(SENTINEL):
        return value
    return f"{SENTINEL}{b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


def _parameter_headers(schema: object, arguments: object) -> Iterator[tuple[str, str]]:
    """Yield a header for each argument whose schema asks for one, however deep in nested properties."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not isinstance(arguments, dict):
        return
    for name, one in properties.items():
        value = arguments.get(name)
        header = one.get("x-mcp-header") if isinstance(one, dict) else None
        if isinstance(header, str) and isinstance(value, str | int):
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            yield f"Mcp-Param-{header}", header_text(shown)
        yield from _parameter_headers(one, value)


def schemas_of(result: object) -> dict[str, Any]:
    """Read from an answer to tools/list what each tool takes."""
    tools = result.get("tools") if isinstance(result, dict) else None
    listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return {tool["name"]: tool.get("inputSchema") for tool in listed if isinstance(tool.get("name"), str)}


class EventReader:
    """Reads server-sent events line by line; comments and other fields are left out."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._id = ""

    def feed(self, line: bytes) -> Event | None:
        """Take one line in and return the event that it ends, if it ends one."""
        line = line.rstrip(b"\r\n")
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return Event(data, self._id) if data.strip() else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._size += len(value)
            if self._size > FRAME_MAX:
                raise ValueError(f"an event of more than {FRAME_MAX:,} bytes is not passed on.")
            self._data.append(value)
        elif field == b"id" and value.isascii():
            self._id = value.decode()
        return None


def is_response_to(message: object, call_id: object) -> bool:
    """Tell whether a message answers this request."""
    return isinstance(message, dict) and "method" not in message and message.get("id") == call_id


def protocol_of(message: Message) -> str:
    """Return the protocol version that an answer to `initialize` has settled on, or nothing."""
    result = message.get("result")
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) else ""
