"""Reads one line between an agent and an MCP server, and writes it anew.

The other side gets what was read here, in one spelling: ASCII, one line, every name once. A call that another parser would find in
the same bytes (behind a raw carriage return, a name that stands there twice, `Method` beside `method`) has no way through.
"""

import json
import math
import unicodedata
from typing import Any, NamedTuple, NoReturn

from fencepost.model.mcp import CALL, Message, id_of

ID_MAX = 2**53 - 1  # a greater number is another one in JavaScript
MEMBERS = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))
CALL_PARAMS = frozenset(("name", "arguments"))


class Unreadable(ValueError):
    """A frame that we and the server might read in two ways, or not at all."""


class Frame(NamedTuple):
    """The messages of one line, and the line that says the same to every reader."""

    messages: list[Message]
    line: bytes
    is_batch: bool = False

    def without(self, kept: list[Message]) -> bytes:
        """Write those messages that are kept; a batch stays one."""
        if len(kept) == len(self.messages):
            return self.line
        return write_line(kept if self.is_batch else kept[0]) if kept else b""


def read_frame(line: bytes) -> Frame:
    """Read what an agent says; raise Unreadable for what two parsers may read in two ways."""
    try:
        text = line.decode().removesuffix("\n").removesuffix("\r")
        if "\r" in text:
            raise Unreadable("a raw carriage return stands in it, behind which some servers read another message")
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number, parse_float=_finite)
        frame = _frame(value)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    if not frame.messages:
        raise Unreadable("a batch has messages")
    for message in frame.messages:
        _check_message(message)
    return frame


def read_answers(line: bytes) -> Frame | None:
    """Read what a server says, the last of two equal names; return None for what is no message, such as a line for people.

    A name that is like one of ours in another case is left out, so that the agent reads the same answer that is recorded.
    """
    try:
        value = json.loads(line.decode())
        messages = value if isinstance(value, list) else [value]
        if not messages or not all(isinstance(one, dict) for one in messages):
            return None
        clear = [{name: one[name] for name in one if not is_variant(name, MEMBERS)} for one in messages]
        return _frame(clear if isinstance(value, list) else clear[0])
    except (ValueError, RecursionError):
        return None


def asked_in(line: bytes) -> list[str]:
    """Return the ids of the requests in a frame that is refused, so that they are answered and no agent waits."""
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return []
    messages = value if isinstance(value, list) else [value]
    return [number for one in messages if isinstance(one, dict) and (number := id_of(one))]


def write_line(value: object) -> bytes:
    """Write JSON on one line that no reader cuts in two: in ASCII there is no other line end."""
    return json.dumps(value).encode("ascii") + b"\n"


def one_line(text: bytes) -> bytes:
    """Put a text on one line, whatever its readers take for the end of one."""
    return text.replace(b"\r", b" ").replace(b"\n", b" ").strip() + b"\n"


def is_variant(name: str, of: frozenset[str]) -> bool:
    """Tell whether a reader that is lax about case, marks or forms of letters may take a name for one of these."""
    return name not in of and _plain(name) in {_plain(one) for one in of}


def _plain(name: str) -> str:
    """Return the letters and digits of a name without case; a dotless i is one to some readers, a long s to others."""
    folded = unicodedata.normalize("NFKD", name).casefold().replace("\u0131", "i")
    return "".join(one for one in folded if one.isalnum())


def _frame(value: Any) -> Frame:  # noqa: ANN401  # as JSON has it
    is_batch = isinstance(value, list)
    return Frame(value if is_batch else [value], write_line(value), is_batch)


def _check_message(message: object) -> None:
    if not isinstance(message, dict):
        raise Unreadable("a message is an object")
    _check_names(message, MEMBERS)
    method = message.get("method", "")
    if not isinstance(method, str) or (method != CALL and _plain(method) == _plain(CALL)):
        raise Unreadable(f"method is a text, and {CALL} is written in one way only")
    _check_id(message.get("id"))
    if method == CALL:
        params = message.get("params")
        if not isinstance(params, dict) or not isinstance(params.get("name"), str):
            raise Unreadable(f"{CALL} has params with the name of a tool")
        _check_names(params, CALL_PARAMS)
    for text in (method, message.get("id")):
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
            raise Unreadable("half of a character stands in a method or id")


def _check_names(value: Message, known: frozenset[str]) -> None:
    for name in value:
        if is_variant(name, known):
            raise Unreadable(f"{name!a} is read by some servers as another name")


def _check_id(value: object) -> None:
    if value is None or isinstance(value, str):
        return
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > ID_MAX:
        raise Unreadable("an id is a text or a whole number of at most 53 bits")


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"{twice!a} stands there twice")
    return made


def _no_number(text: str) -> NoReturn:
    raise Unreadable(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable("a number is too large")
    return value
