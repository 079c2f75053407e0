"""A line between supervisor and guard: one JSON object per line over a socket pair."""

from __future__ import annotations

import os
import select

from fencepost.model import fast_json as json
from fencepost.model.fast_typing import Any

Message = dict[str, Any]


class MessageLine:
    """One end of the line."""

    __slots__ = ("_rest", "closed", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False
        self._rest = b""

    def send(self, **message: object) -> None:
        """Send one message; a peer that is gone is noticed when receiving."""
        self.post(json.dumps(message))

    def post(self, text: str) -> None:
        """Send a message that is spelled already, by those who send so much that json is worth its import."""
        data = memoryview(text.encode() + b"\n")
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def receive(self) -> list[Message]:
        """Read what has come, waiting for something; an empty list with `closed` set means the peer is gone."""
        try:
            data = os.read(self.fd, 65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def hung_up(self) -> bool:
        """Tell whether the peer is gone, also if it has said something that we have not read yet."""
        poll = select.poll()
        poll.register(self.fd, 0)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        os.close(self.fd)
