"""Waiting for descriptors, whatever their numbers are: select() knows none from 1,024 on."""

from __future__ import annotations

import errno
import os
import select

LONGEST_SECONDS = 3_600.0  # poll() counts milliseconds in 32 bits; each caller looks at its clock and waits on


def readable(descriptors: list[int], seconds: float | None = None) -> list[int]:
    """Wait until one of these can be read or was hung up, or for so long; return those that can."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    ready = poll.poll(None if seconds is None else max(0.0, min(seconds, LONGEST_SECONDS)) * 1e3)
    if any(what & select.POLLNVAL for _, what in ready):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return [descriptor for descriptor, _ in ready]
