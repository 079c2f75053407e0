"""A line between supervisor and guard: one JSON object per line over a socket pair."""

from __future__ import annotations

import errno
import os
import select

from fencepost.model import fast_json as json
from fencepost.model.fast_typing import Any

SELECTED_MAX = 1_024
LONGEST_SECONDS = 3_600.0  # poll() counts milliseconds in 32 bits; each caller looks at its clock and waits on

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


def readable(descriptors: list[int], seconds: float | None = None) -> list[int]:
    """Wait until one of these can be read or was hung up, or for so long; return those that can.

    select() knows no descriptor from 1,024 on, and poll() waits for whole milliseconds.
    """
    if max(descriptors) < SELECTED_MAX:
        return select.select(descriptors, [], [], seconds)[0]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    ready = poll.poll(None if seconds is None else min(seconds, LONGEST_SECONDS) * 1e3)
    if any(what & select.POLLNVAL for _, what in ready):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return [descriptor for descriptor, _ in ready]
