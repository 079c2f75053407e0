"""The caller's terminal and standard descriptors, and how the agent gets the use of them."""

from __future__ import annotations

import os

from fencepost.host import spawn
from fencepost.model import fast_signal as signal

STOPPED_FOR_ASKING = (signal.SIGTTIN, signal.SIGTTOU)  # what the kernel sends to the background of a terminal


def open_standard() -> None:
    """Fill the places of closed standard descriptors, or the next file that we open would become the agent's output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor, "the lowest free descriptor is the one that was closed"
            os.set_inheritable(opened, True)


class Terminal:
    """The terminal whose foreground we are, if we are.

    The agent has a process group of its own. It gets the foreground at once when the terminal is ours alone.
    In a pipeline the others, a pager perhaps, need the keyboard too: there the agent gets it when it asks.
    """

    __slots__ = ("_fd", "_given")

    def __init__(self) -> None:
        self._fd = _foreground()
        self._given = False
        if self._fd is not None:
            # Once the agent has the foreground, a terminal set to `tostop` would stop us for a word on stderr.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def offer(self) -> int | None:
        """Return the standard descriptor of the terminal that the agent takes over at its start, if it shall."""
        self._given = self._fd in (0, 1, 2) and os.isatty(0) and os.isatty(1)
        return self._fd if self._given else None

    def wants(self, number: int) -> bool:
        """Tell whether an agent stopped by this signal only waits to be given the terminal."""
        return self._fd is not None and not self._given and number in STOPPED_FOR_ASKING and _is_ours(self._fd)

    def give(self, group: int) -> None:
        """Make the agent's group the foreground."""
        if self._fd is not None:
            self._given = True
            spawn.take_terminal(self._fd, group)

    def take_back(self) -> None:
        """Make our own group the foreground again, if the agent had it."""
        if self._fd is not None and self._given:
            self._given = False
            spawn.take_terminal(self._fd, os.getpgrp())

    @property
    def is_given(self) -> bool:
        """Whether the agent is the foreground now."""
        return self._given


def _foreground() -> int | None:
    """Return a descriptor of the terminal that we are the foreground of."""
    for descriptor in (0, 1, 2):
        if _is_ours(descriptor):
            return descriptor
    try:
        opened = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    if _is_ours(opened):
        return opened
    os.close(opened)
    return None


def _is_ours(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
