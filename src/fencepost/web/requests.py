"""A request as it came in: its headers, each at most once, and its body, read within limits and in time."""

import asyncio
from collections import Counter
from typing import NamedTuple, Self
from urllib.parse import parse_qs

from starlette.types import Message, Receive, Scope

BODY_MAX = 1_048_576
READ_SECONDS = 10.0
FIELDS_MAX = 100
HEADERS_READ = "fencepost.headers"  # where they are kept in a scope


class RequestRefused(Exception):
    """The request cannot be taken; what to say."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class BodyRoom(NamedTuple):
    """How many bytes of bodies are held at once: of all senders together, and of one."""

    all_max: int
    one_max: int


KNOWN = BodyRoom(16 * BODY_MAX, 8 * BODY_MAX)  # of requests with a key, by tenant
STRANGERS = BodyRoom(8 * BODY_MAX, 4 * BODY_MAX)  # of requests without one, by address


class Load:
    """How many bytes of bodies this process holds: many large ones at once must not use up its memory.

    Callers with a key share no room with strangers, and no one sender fills a room: bodies that strangers send
    slowly keep no caller with a key waiting, and one tenant's no other tenant.
    """

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self._bytes: Counter[str] = Counter()

    def take(self, sender: str, size: int) -> None:
        """Hold some more of a sender's, or refuse it."""
        if self._bytes[sender] + size > self._room.one_max or self._bytes.total() + size > self._room.all_max:
            raise RequestRefused(503, "busy", "too many large requests at once; try again later.")
        self._bytes[sender] += size

    def give_back(self, sender: str, size: int) -> None:
        """Let go of what was held."""
        self._bytes[sender] -= size
        if not self._bytes[sender]:
            del self._bytes[sender]


class Carried:
    """What one request holds of it, in a `with` block."""

    def __init__(self, load: Load, sender: str) -> None:
        self._load = load
        self._sender = sender
        self._bytes = 0

    def charge(self, load: Load, sender: str) -> None:
        """Hold from now on what is taken in another room, or as another sender's."""
        assert not self._bytes
        self._load, self._sender = load, sender

    def take(self, size: int) -> None:
        """Hold some more, or refuse it."""
        self._load.take(self._sender, size)
        self._bytes += size

    def __enter__(self) -> Self:
        """Begin with nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all of it."""
        if self._bytes:
            self._load.give_back(self._sender, self._bytes)


def headers_of(scope: Scope) -> dict[str, str | None]:
    """Return the headers by their names in lower case; None for what came twice, of which it is not known which was meant."""
    found: dict[str, str | None] | None = scope.get(HEADERS_READ)
    if found is None:
        found = scope[HEADERS_READ] = {}
        for key, value in scope["headers"]:
            name = key.decode("latin-1")
            found[name] = None if name in found else value.decode("latin-1")
    return found


def header(scope: Scope, name: str) -> str | None:
    """Return a header, or None; one that came twice is refused."""
    found = headers_of(scope)
    value = found.get(name)
    if value is None and name in found:
        raise RequestRefused(400, "bad_request", f"the header {name} came more than once.")
    return value


def form_field(body: bytes, name: str) -> str:
    """Return what a form says in one field; one with too many fields says nothing."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX).get(name, [""])[0]
    except ValueError:
        return ""


async def read_body(scope: Scope, receive: Receive, carried: Carried, *, limit: int = BODY_MAX) -> bytes:
    """Read the whole body: its length is checked before, and counted while it comes."""
    said = header(scope, "content-length")
    if said is not None and (not said.isdigit() or int(said[:12]) > limit):
        raise RequestRefused(413, "too_large", f"a body has at most {limit} bytes here.")
    if (header(scope, "content-encoding") or "identity").strip().lower() != "identity":
        raise RequestRefused(415, "unsupported", "send the body as it is, without Content-Encoding.")
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await _read(receive, carried, limit)
    except TimeoutError:
        raise RequestRefused(408, "too_slow", f"the body did not come within {READ_SECONDS:g} seconds.") from None


async def _read(receive: Receive, carried: Carried, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestRefused(400, "bad_request", "the connection ended before the body did.")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise RequestRefused(413, "too_large", f"a body has at most {limit} bytes here.")
        carried.take(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Hand a body that was read on to its next reader."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
