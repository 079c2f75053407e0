"""Forks the processes of attempts from a clean parent: no threads, no open store.

A connection to SQLite must not cross a fork, and a program with threads must not fork at all. So the worker forks
this one helper before it opens anything, and asks it for each attempt.
"""

import os
import select
import signal
from collections.abc import Callable

from fencepost.service.line import Line

Child = Callable[[int, Callable[[bool], None]], int]
Lane = Callable[[int], int]  # a child that carries out runs until there are none


class Nursery:
    """The worker's view: how many attempts there are, and a way to ask for more."""

    def __init__(self, line: Line, alive: int, pid: int) -> None:
        self._line = line
        self._alive = alive  # closed with us, which tells every attempt that the worker is gone
        self._pid = pid
        self.starting = 0  # have not said yet whether they found a run
        self.running = 0
        self.lanes = 0
        self.came_in_vain = 0  # found nothing that they could lease
        self.trouble = ""  # why none could be started the last time, until somebody has told it

    @property
    def fd(self) -> int:
        """What to wait for."""
        return self._line.fd

    @property
    def is_gone(self) -> bool:
        """Whether the helper has died."""
        return self._line.closed

    def start(self) -> None:
        """Ask for one more attempt."""
        self.starting += 1
        self._line.send(start=True)

    def start_lane(self) -> None:
        """Ask for one more lane."""
        self.lanes += 1
        self._line.send(lane=True)

    def hear(self) -> None:
        """Take note of what attempts report."""
        for message in self._line.receive():
            if message.get("leased") is True:
                self.starting, self.running = self.starting - 1, self.running + 1
            elif message.get("leased") is False:
                self.starting -= 1
                self.came_in_vain += 1
                self.trouble = str(message.get("trouble", ""))
            elif message.get("ended") == "running":
                self.running -= 1
            elif message.get("ended") == "starting":
                self.starting -= 1
            elif message.get("ended") == "lane":
                self.lanes -= 1

    def drain(self) -> None:
        """Ask every attempt to hand its run back or to finish it."""
        self._line.send(drain=True)

    def close(self) -> None:
        """Let go; attempts that still run end with us."""
        os.close(self._alive)
        self._line.close()


def open_nursery(child: Child, lane: Lane) -> Nursery:
    """Fork the helper. Do this first: before threads, and before a store is opened."""
    from socket import socketpair

    ours, theirs = (end.detach() for end in socketpair())
    alive_reader, alive_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            os.close(alive_writer)
            _Helper(Line(theirs), alive_reader, child, lane).serve()
        finally:
            os._exit(0)
    os.close(theirs)
    os.close(alive_reader)
    return Nursery(Line(ours), alive_writer, pid)


class _Helper:
    """The clean parent of all attempts."""

    def __init__(self, line: Line, alive: int, child: Child, lane: Lane) -> None:
        self._line = line
        self._alive = alive
        self._child = child
        self._lane = lane
        self._children: dict[int, str] = {}
        self._reports: dict[int, int] = {}  # pipe -> child

    def serve(self) -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        wakeup = _wake_on_child()
        while not self._line.closed or self._children:
            fds = [wakeup, *self._reports] if self._line.closed else [self._line.fd, wakeup, *self._reports]
            ready, _, _ = select.select(fds, [], [], None)
            if self._line.fd in ready:
                for message in self._line.receive():
                    self._obey(message)
            for descriptor in [one for one in ready if one in self._reports]:
                self._hear(descriptor)
            if wakeup in ready:
                os.read(wakeup, 4096)
            self._reap()

    def _obey(self, message: dict[str, object]) -> None:
        if message.get("start"):
            self._fork()
        if message.get("lane"):
            self._fork(lane=True)
        if message.get("drain"):
            for pid in self._children:
                os.kill(pid, signal.SIGTERM)  # noqa: TID251  # our own child, not yet reaped

    def _fork(self, *, lane: bool = False) -> None:
        """Fork a child; where there is no room for another process, it counts as one that came in vain."""
        reader = writer = -1
        try:
            reader, writer = os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in (reader, writer):
                if descriptor >= 0:
                    os.close(descriptor)
            if lane:
                self._line.send(ended="lane")
            else:
                self._line.send(leased=False, trouble=error.strerror)
            return
        if pid == 0:
            self._become_attempt(reader, writer, lane=lane)
        os.close(writer)
        self._children[pid] = "lane" if lane else "starting"
        self._reports[reader] = pid

    def _become_attempt(self, reader: int, writer: int, *, lane: bool) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.close(reader)
            os.close(self._line.fd)
            for descriptor in self._reports:
                os.close(descriptor)
            code = (
                self._lane(self._alive)
                if lane
                else self._child(self._alive, lambda found: _report(writer, found=found))
            )
        finally:
            os._exit(code)

    def _hear(self, descriptor: int) -> None:
        word = os.read(descriptor, 1)
        pid = self._reports.pop(descriptor)
        os.close(descriptor)
        if word and pid in self._children:
            self._children[pid] = "running" if word == b"1" else "idle"
            self._line.send(leased=word == b"1")

    def _reap(self) -> None:
        while self._children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            for descriptor in [one for one, child in self._reports.items() if child == pid]:
                self._hear(descriptor)
            state = self._children.pop(pid, "idle")
            if state != "idle":
                self._line.send(ended=state)


def _report(writer: int, *, found: bool) -> None:
    os.write(writer, b"1" if found else b"0")
    os.close(writer)


def _wake_on_child() -> int:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader
