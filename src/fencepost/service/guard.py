"""The guard: a small process between supervisor and agent that outlives neither its deadline nor the supervisor.

It is the agent's parent and adopts the processes that the agent detaches, so it can end the whole tree. It does so
when the supervisor says so, when the supervisor is gone, and on silence alone when the deadline passes.
It knows nothing of the store: a supervisor that cannot renew simply stops moving the deadline.
"""

from __future__ import annotations

import os

from fencepost.host import cgroup as cgroups
from fencepost.host import spawn
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.service.agent_tree import AgentTree
from fencepost.service.message_pipe import readable
from fencepost.service.run_folder import RunFolder

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Processes
    from fencepost.service.message_pipe import Message, MessageLine

LOOK_SECONDS = 1.0  # how late a deadline that counts sleep may be noticed after the host woke up


class Guard:
    """One guarded command, seen from the guard's own process."""

    def __init__(self, line: MessageLine, clock: Clock, processes: Processes) -> None:
        self._line = line
        self._clock = clock
        self._tree = AgentTree(clock, processes)
        self._why = "exit"
        self._grace = 0.0
        self._deadline_ns = 0
        self._counts_sleep = False
        self._folder: RunFolder | None = None

    def serve(self) -> None:
        """Wait for the start, watch until the agent's tree is gone, report, and leave."""
        os.setpgid(0, 0)  # so that a terminal's signals reach the agent and not us
        for number in spawn.TERMINAL_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        wakeup = wake_on_child()
        while self._tree.pid is None and not self._line.closed:
            for message in self._line.receive():
                self._obey(message)
        if self._tree.pid is not None:
            self._let_go_of_terminal()
            self._watch(wakeup)
            self._sweep()
        self._clear_away()

    def _watch(self, wakeup: int) -> None:
        while not self._agent_ended():
            ready = readable([self._line.fd, wakeup], self._patience())
            if wakeup in ready:
                os.read(wakeup, 4096)
            if self._line.fd in ready:
                for message in self._line.receive():
                    self._obey(message)
            if self._line.closed:
                self._end("supervisor gone", self._grace)
            elif self._now_ns() >= self._deadline_ns:
                self._end("deadline", self._grace)
            elif self._tree.settle_in_seconds() == 0:
                self._tree.settle_in()

    def _agent_ended(self) -> bool:
        stopped = self._tree.reap()
        if stopped is not None:
            self._line.send(stopped=stopped)
        return self._tree.status is not None

    def _sweep(self) -> None:
        """End what the agent left behind, then report; only now is the run over."""
        gone = self._tree.is_gone() or self._tree.end(self._grace)
        self._line.send(ended=self._tree.status or 0, gone=gone, why=self._why)
        while not self._line.closed:
            self._line.receive()  # the supervisor hangs up when it has heard us

    def _clear_away(self) -> None:
        """Remove what a supervisor that was killed could not."""
        if self._tree.traces.cgroup:
            cgroups.remove(self._tree.traces.cgroup)
        if self._folder:
            self._folder.remove()

    def _obey(self, message: Message) -> None:
        if "place" in message:
            self._tree.place(message["place"], message["cgroup"])
            self._folder = RunFolder(message["folder"])
        elif "start" in message:
            self._start(message["start"])
        elif "deadline_ns" in message:
            self._deadline_ns = message["deadline_ns"]
        elif "signal" in message:
            self._tree.signal(message["signal"], group=message["group"])
        elif "end" in message:
            self._end(message["end"], message["grace_seconds"])

    def _start(self, order: Message) -> None:
        self._deadline_ns = order["deadline_ns"]
        self._counts_sleep = order["counts_sleep"]
        self._grace = order["grace_seconds"]
        # We may have been frozen between grant and start: another process may have the lease by now.
        if self._line.hung_up() or self._now_ns() >= self._deadline_ns:
            self._line.send(late=True)
            return
        try:
            agent = self._tree.start(order["argv"], order["env"], terminal=order["terminal"])
        except OSError as error:
            self._line.send(failed=error.errno)
        else:
            self._line.send(spawned=agent)

    def _end(self, why: str, grace_seconds: float) -> None:
        self._why = why
        self._tree.end(grace_seconds)

    def _patience(self) -> float:
        left = max(0.0, (self._deadline_ns - self._now_ns()) / 1e9)
        settle = self._tree.settle_in_seconds()
        if settle is not None:
            left = min(left, settle)
        return min(left, LOOK_SECONDS) if self._counts_sleep else left

    def _now_ns(self) -> int:
        return self._clock.boot_ns() if self._counts_sleep else self._clock.awake_ns()

    def _let_go_of_terminal(self) -> None:
        """Keep none of the agent's descriptors open: who reads its output must see the end when it ends."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)


def wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child changes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader
