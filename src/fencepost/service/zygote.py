"""Forks guards from a clean parent: no threads, no open store, no secrets, and everything that a guard needs loaded.

A connection to SQLite must not cross a fork, and a program with threads must not fork at all. So the worker starts these
helpers before it opens anything, and asks them for each guard. What a helper has loaded, all its guards share: one is a
small program for plain commands, the other has all that a run can need.
"""

from __future__ import annotations

import gc
import os
from _socket import AF_UNIX, SOCK_STREAM, socket, socketpair

from fencepost.host.libc import name_process
from fencepost.host.spawn import close_others
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.model.own_program import own_file
from fencepost.service.guard import wake_on_child
from fencepost.service.message_pipe import MessageLine, readable
from fencepost.service.run_order import GuardPlace

if TYPE_CHECKING:
    Become = Callable[[socket, GuardPlace], None]  # turns a forked child into a guard
else:
    Become = None

BACKLOG = 16
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TZ", "XDG_RUNTIME_DIR", "FENCEPOST_CGROUP")


class Zygote:
    """The worker's view: a way to ask for guards, and news of them."""

    def __init__(self, line: MessageLine, pid: int) -> None:
        self._line = line
        self._pid = pid

    @property
    def fd(self) -> int:
        """What to wait for."""
        return self._line.fd

    @property
    def is_gone(self) -> bool:
        """Whether the helper has died."""
        return self._line.closed

    def fork(self, place: GuardPlace) -> None:
        """Ask for one more guard, which listens at its place before we hear of it."""
        self._line.send(folder=place.folder, name=place.name)

    def hear(self) -> list[dict[str, object]]:
        """Return the guards that were forked, by `name` and `pid`, or the `trouble` that kept one from it."""
        return self._line.receive()

    def close(self) -> None:
        """Let the helper go; its guards stay."""
        self._line.close()
        os.waitpid(self._pid, 0)


def plain_words() -> tuple[str, ...]:
    """Return the words that start the small helper; a descriptor is the next one."""
    return own_file(os.path.join(os.path.dirname(__file__), "plain_zygote.py"))


def open_plain_zygote() -> Zygote:
    """Start the small helper, whose guards carry out plain commands."""
    ours, theirs = (end.detach() for end in socketpair())
    environ = {name: value for name, value in os.environ.items() if _is_kept(name)}
    os.set_inheritable(theirs, True)
    words = plain_words()
    pid = os.posix_spawn(words[0], [*words, str(theirs)], environ)
    os.close(theirs)
    return Zygote(MessageLine(ours), pid)


def open_zygote(load: Callable[[], Become]) -> Zygote:
    """Fork the helper, which loads what any guard can need. Do this first: before threads, and before a store is opened."""
    ours, theirs = (end.detach() for end in socketpair())
    pid = os.fork()
    if pid == 0:
        try:
            close_others(theirs)
            Helper(MessageLine(theirs), load()).serve()
        finally:
            os._exit(0)
    os.close(theirs)
    return Zygote(MessageLine(ours), pid)


def _is_kept(name: str) -> bool:
    return name in KEPT or name.startswith("LC_")


class Helper:
    """The clean parent of guards."""

    def __init__(self, line: MessageLine, become: Become) -> None:
        self._line = line
        self._become = become

    def serve(self) -> None:
        """Fork guards for as long as the worker lives."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.chdir("/")
        name_process("fencepost-zygot")
        os.setsid()  # neither a terminal's signals nor those for the worker's group are ours
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        for name in [name for name in os.environ if not _is_kept(name)]:
            del os.environ[name]
        gc.disable()
        gc.freeze()  # a collection would touch, and so copy, every page that guards share
        wakeup = wake_on_child()
        while not self._line.closed:
            ready = readable([self._line.fd, wakeup])
            if self._line.fd in ready:
                for message in self._line.receive():
                    self._fork(GuardPlace(str(message["folder"]), str(message["name"])))
            if wakeup in ready:
                os.read(wakeup, 4096)
                _reap()

    def _fork(self, place: GuardPlace) -> None:
        """Listen, then fork: a worker that hears of a guard can reach it."""
        listener: socket | None = None
        try:
            listener = socket(AF_UNIX, SOCK_STREAM)
            listener.bind(place.socket)
            listener.listen(BACKLOG)
            pid = os.fork()
        except OSError as error:
            if listener is not None:
                listener.close()
            self._line.send(name=place.name, trouble=error.strerror)
            return
        if pid == 0:
            self._be_guard(listener, place)
        listener.close()
        self._line.send(name=place.name, pid=pid)

    def _be_guard(self, listener: socket, place: GuardPlace) -> None:
        try:
            os.setsid()
            name_process("fencepost-guard")
            signal.set_wakeup_fd(-1)
            os.close(self._line.fd)
            self._become(listener, place)
        except BaseException:  # noqa: BLE001  # the last words of a guard, where a person may look for them
            import traceback

            with open(f"{place.socket}.crash", "w", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        finally:
            os._exit(0)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
