"""Starts the guard of one command, and is the supervisor's end of the line to it."""

from __future__ import annotations

import os
import select
from _socket import socketpair  # the module `socket` would cost more than all the rest

from fencepost.host.libc import become_subreaper
from fencepost.host.unreadable_process import become_unreadable
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.service.message_pipe import MessageLine

if TYPE_CHECKING:
    from fencepost.model.process import ProcessId
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Processes

LEAVE_TRIES, LEAVE_SECONDS = 11, 0.0003  # each pause is twice the one before: 0.6 s in all


class GuardHandle:
    """The supervisor's view of its guard."""

    __slots__ = ("has_reported", "line", "process")

    def __init__(self, line: MessageLine, process: ProcessId) -> None:
        self.line = line
        self.process = process
        self.has_reported = False  # the tree is gone and said to be

    def kill(self) -> None:
        """Kill the guard itself; its orphans come to us."""
        try:
            os.kill(self.process.pid, signal.SIGKILL)  # noqa: TID251  # our own child, not yet reaped
        except ProcessLookupError:
            return

    def dismiss(self) -> None:
        """Hang up, and see a guard off that has not done its work: one that is frozen does not wake up to leave."""
        self.line.close()
        if not self.has_reported and not self._has_left():
            self.kill()
            self._has_left()

    def _has_left(self) -> bool:
        for attempt in range(LEAVE_TRIES):
            try:
                if os.waitpid(self.process.pid, os.WNOHANG)[0]:
                    return True
            except ChildProcessError:
                return True
            select.select([], [], [], LEAVE_SECONDS * 2**attempt)
        return False


def post_guard(clock: Clock, processes: Processes) -> GuardHandle:
    """Fork the guard. Do this first: before threads, and before anything is open that it should not share."""
    become_subreaper()  # if the guard is killed, its orphans come to us
    become_unreadable()
    ours, theirs = (end.detach() for end in socketpair())
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            from fencepost.service.guard import Guard  # while the supervisor opens the store

            Guard(MessageLine(theirs), clock, processes).serve()
        finally:
            os._exit(0)
    os.close(theirs)
    process = processes.identify(pid)
    assert process is not None, "our own child is in the process table"
    return GuardHandle(MessageLine(ours), process)
