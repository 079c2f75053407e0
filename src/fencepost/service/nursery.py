"""Forks lanes from a clean parent: no threads, no open store.

A connection to SQLite must not cross a fork, and a program with threads must not fork at all. So the worker forks
this one helper before it opens anything, and asks it for each lane.
"""

import os
import signal
from collections.abc import Callable

from fencepost.host.spawn import close_others
from fencepost.model.errors import StoreUnavailable
from fencepost.service.guard import wake_on_child
from fencepost.service.message_pipe import MessageLine, readable

WHY_MAX = 1000  # bytes
Lane = Callable[[int], int]  # a child that carries out runs until there are none


class Nursery:
    """The worker's view: how many lanes there are, and a way to ask for more."""

    def __init__(self, line: MessageLine, alive: int, pid: int) -> None:
        self._line = line
        self._alive = alive  # closed with us, which tells every lane that the worker is gone
        self._pid = pid
        self.lanes = 0
        self.why = ""  # the last lane could not begin

    @property
    def fd(self) -> int:
        """What to wait for."""
        return self._line.fd

    @property
    def is_gone(self) -> bool:
        """Whether the helper has died."""
        return self._line.closed

    def start_lane(self) -> None:
        """Ask for one more lane."""
        self.lanes += 1
        self._line.send(lane=True)

    def hear(self) -> None:
        """Take note of lanes that have ended."""
        for message in self._line.receive():
            if "ended" in message:
                self.lanes -= 1
                self.why = str(message.get("why") or "")

    def drain(self) -> None:
        """Ask every lane to hand its runs back or to finish them."""
        self._line.send(drain=True)

    def close(self) -> None:
        """Let go; lanes that still run end with us."""
        os.close(self._alive)
        self._line.close()


def open_nursery(lane: Lane) -> Nursery:
    """Fork the helper. Do this first: before threads, and before a store is opened."""
    from socket import socketpair

    ours, theirs = (end.detach() for end in socketpair())
    alive_reader, alive_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            close_others(theirs, alive_reader)
            _Helper(MessageLine(theirs), alive_reader, lane).serve()
        finally:
            os._exit(0)
    os.close(theirs)
    os.close(alive_reader)
    return Nursery(MessageLine(ours), alive_writer, pid)


class _Helper:
    """The clean parent of all lanes."""

    def __init__(self, line: MessageLine, alive: int, lane: Lane) -> None:
        self._line = line
        self._alive = alive
        self._lane = lane
        self._children: dict[int, int] = {}  # by pid: where it says why it could not begin

    def serve(self) -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        wakeup = wake_on_child()
        while not self._line.closed or self._children:
            fds = [wakeup] if self._line.closed else [self._line.fd, wakeup]
            ready = readable(fds)
            if self._line.fd in ready:
                for message in self._line.receive():
                    self._obey(message)
            if wakeup in ready:
                os.read(wakeup, 4096)
            self._reap()

    def _obey(self, message: dict[str, object]) -> None:
        if message.get("lane"):
            self._fork()
        if message.get("drain"):
            for pid in self._children:
                os.kill(pid, signal.SIGTERM)  # noqa: TID251  # our own child, not yet reaped

    def _fork(self) -> None:
        """Fork a lane; where there is no room for another process or descriptor, it has ended at once."""
        try:
            reader, writer = os.pipe()
        except OSError as error:
            self._line.send(ended=True, why=_no_room(error))
            return
        os.set_blocking(reader, False)
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reader)
            self._line.send(ended=True, why=_no_room(error))
        else:
            if pid == 0:
                os.close(reader)
                self._become_lane(writer)
            self._children[pid] = reader
        os.close(writer)

    def _become_lane(self, trouble: int) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._line.fd)
            code = self._lane(self._alive)
        except StoreUnavailable as error:
            os.write(trouble, str(error).encode()[:WHY_MAX])
        except OSError as error:
            os.write(trouble, _no_room(error).encode()[:WHY_MAX])
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while self._children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._line.send(ended=True, why=_last_words(self._children.pop(pid)))


def _last_words(reader: int) -> str:
    """Return why a lane could not begin; nothing if it did."""
    try:
        return os.read(reader, WHY_MAX).decode("utf-8", "replace")
    except BlockingIOError:
        return ""  # a process of its own has the other end still, and it said nothing
    finally:
        os.close(reader)


def _no_room(error: OSError) -> str:
    return f"this machine gives it no process, file or memory ({error.strerror}); see: fencepost doctor"
