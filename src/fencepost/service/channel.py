"""A connection that never waits: one JSON object per line, what cannot be sent now is sent later.

A guard may be frozen, a worker too. Neither must hold up the other.
"""

from __future__ import annotations

import select
from _thread import allocate_lock

from fencepost.model import fast_json as json
from fencepost.model.fast_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _socket import socket

Message = dict[str, Any]
RECEIVE_MAX = 262_144
HANG_UP = getattr(select, "POLLRDHUP", 0)  # elsewhere POLLHUP, which is always told
UNSENT_MAX = 64_000_000  # a peer that reads nothing is given up


class Channel:
    """One end of the connection; sending is safe from any thread."""

    __slots__ = ("_lock", "_rest", "_socket", "_unsent", "closed", "fd")

    def __init__(self, connected: socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._rest: list[bytes] = []
        self._unsent = bytearray()
        self._lock = allocate_lock()
        self.fd = connected.fileno()
        self.closed = False

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed its end, also where what it said before was not heard yet."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self.fd, HANG_UP)
        return bool(poll.poll(0))

    def send(self, **message: object) -> None:
        """Send a message, or keep it until the peer reads again."""
        self.post(json.dumps(message))

    def post(self, text: str) -> None:
        """Send a message that is spelled already."""
        with self._lock:
            if self.closed:
                return
            self._unsent += text.encode() + b"\n"
            self._flush()

    @property
    def has_unsent(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent)

    def flush(self) -> bool:
        """Go on sending; return whether something is still to be sent."""
        with self._lock:
            if self._unsent and not self.closed:
                self._flush()
            return bool(self._unsent) and not self.closed

    def receive(self) -> list[Message]:
        """Return what has come, without waiting; `closed` is set when the peer is gone."""
        try:
            data = self._socket.recv(RECEIVE_MAX)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        self._rest.append(data)
        if b"\n" not in data:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest] if rest else []
        return [message for line in lines if isinstance(message := _read(line), dict)]

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self.closed = True
            self._socket.close()

    def _flush(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            pass  # it is read later, or the peer is given up
        except OSError:
            self.closed = True
        if len(self._unsent) > UNSENT_MAX:
            self.closed = True


def _read(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a stranger's; the peer that we know speaks JSON
