"""Whatever comes over the wire: nothing crashes, nothing changes its meaning, and no call of a tool slips by."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model import mcp, mcp_http_messages
from fencepost.model.effect_ledger import KEY_MAX
from fencepost.model.errors import FenceRefused
from fencepost.model.mcp_frame import MEMBERS, is_variant, one_line
from fencepost.service.gateway import Splitter
from fencepost.service.tool_gate import Rules, ToolGate

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
METHODS = st.sampled_from(["tools/call", "tools/list", "ping", "notifications/cancelled", "initialize"]) | st.text()
PARAMS = st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON, "requestId": JSON, "_meta": JSON}) | JSON
MESSAGES = st.fixed_dictionaries({}, optional={"jsonrpc": JSON, "id": JSON, "method": METHODS | JSON, "params": PARAMS})
FRAMES = (MESSAGES | st.lists(MESSAGES, max_size=4) | JSON).map(lambda value: json.dumps(value).encode() + b"\n")
BYTES = FRAMES | st.binary(max_size=200).map(lambda data: data.replace(b"\n", b" ") + b"\n")


def stale(_: str, **__: str) -> Mapping[str, Any]:
    raise FenceRefused("the lease is lost.")


def willing(verb: str, **_: str) -> Mapping[str, Any]:
    return {"ok": True, "verdict": "new", "entry": "k:1"} if verb == "tool_begin" else {"ok": True}


def gate(ask: Any) -> ToolGate:  # noqa: ANN401
    return ToolGate(Rules("s"), ask, wait=lambda _: None, say=lambda _: None)


def calls(frame: bytes) -> list[dict[str, Any]]:
    """Find calls of tools by another reading than the gateway's."""
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return []
    found = value if isinstance(value, list) else [value]
    return [one for one in found if isinstance(one, dict) and one.get("method") == "tools/call"]


@settings(max_examples=60, deadline=None)
@given(BYTES)
def test_a_stale_run_gets_no_call_through_and_all_else_passes_or_is_answered(frame: bytes) -> None:
    passage = gate(stale).from_agent(frame)

    assert not calls(passage.onward)
    if not calls(frame):
        assert is_same(passage.onward, frame) or passage.back or not frame.strip()


@settings(max_examples=60, deadline=None)
@given(st.lists(BYTES, max_size=5))
def test_a_run_with_its_lease_sees_what_every_frame_says_in_both_directions(frames: list[bytes]) -> None:
    one = gate(willing)
    for frame in frames:
        passage = one.from_agent(frame)
        nameless = [call for call in calls(frame) if not mcp.id_of(call)]
        assert is_same(passage.onward, frame) or passage.back or nameless or not frame.strip()
        back = one.from_server(frame)
        assert back == one_line(frame) or is_same(back, frame)
    one.end("the server ended")


def is_same(one: bytes, other: bytes) -> bool:
    """Tell whether two frames say the same; names that look like those of a message need not arrive."""
    try:
        return bool(one) and _clear(json.loads(one)) == _clear(json.loads(other))
    except (ValueError, RecursionError):
        return False


def _clear(value: object) -> object:
    if isinstance(value, list):
        return [_clear(one) for one in value]
    return {name: value[name] for name in value if not is_variant(name, MEMBERS)} if isinstance(value, dict) else value


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=50)), st.integers(1, 7))
def test_frames_are_cut_at_line_ends_and_nowhere_else(parts: list[bytes], size: int) -> None:
    stream = b"".join(parts)
    splitter = Splitter()
    lines = [line for start in range(0, len(stream), size) for line in splitter.feed(stream[start : start + size])]

    assert b"".join([*lines, splitter.rest()]) == stream
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)


@settings(max_examples=60, deadline=None)
@given(JSON, st.integers(0, 3))
def test_an_event_stream_gives_back_each_message_on_one_line(value: object, indent: int) -> None:
    text = json.dumps(value, indent=indent or None)
    reader = mcp_http_messages.EventReader()
    lines = [": a comment", "event: message", "id: 7", *(f"data: {line}" for line in text.split("\n")), ""]

    events = [event for line in lines if (event := reader.feed(f"{line}\r\n".encode()))]

    (event,) = events
    assert event.id == "7"
    framed = one_line(event.data)
    assert framed.count(b"\n") == 1
    assert json.loads(framed) == json.loads(text)


@settings(max_examples=60, deadline=None)
@given(MESSAGES)
def test_headers_can_always_be_sent(message: dict[str, object]) -> None:
    for name, value in mcp_http_messages.message_headers(message, {}).items():
        assert (name + value).isascii()
        assert not value or value.isprintable()


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(max_size=9), SCALARS | st.lists(SCALARS, max_size=2), min_size=2, max_size=4))
def test_the_order_of_arguments_makes_no_other_call(arguments: dict[str, object]) -> None:
    turned = dict(reversed(arguments.items()))

    name = mcp.name_of("s", mcp.ToolCall("1", "t", arguments))
    assert name == mcp.name_of("s", mcp.ToolCall("2", "t", turned))
    assert name.isascii()
    assert name.isprintable()
    assert len(name) <= KEY_MAX - 8
    assert not {"'", '"', "$", "`", " "} & set(name), "it can be pasted into a shell"


def test_a_persons_eye_sees_what_a_call_was_about() -> None:
    name = mcp.name_of(
        "mail", mcp.ToolCall("1", "send", {"to": "ann@example.org", "n": 2, "more": {"a": 1}, "b": "it's"})
    )

    assert name.startswith("mcp:mail:send:b=it_s,n=2,to=ann@example.org:")


def test_a_call_cannot_hide_behind_a_method_that_stands_there_twice() -> None:
    frame = b'{"id":1,"method":"tools/call","params":{"name":"x"},"method":"ping"}\n'

    passage = gate(stale).from_agent(frame)

    assert passage.onward == b""
    assert json.loads(passage.back)["error"]["code"] == mcp.PARSE_ERROR


def test_nesting_without_end_is_refused() -> None:
    passage = gate(stale).from_agent(b"[" * 200_000 + b"\n")

    assert passage.onward == b""
    assert passage.back
