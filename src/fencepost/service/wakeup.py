"""Hints that something may be ready: never needed, often quicker than the next look."""

from collections.abc import Callable, Sequence

from fencepost.model.fast_typing import Protocol

AGAIN_MIN_SECONDS, AGAIN_MAX_SECONDS = 0.5, 60.0  # between two tries to listen again
LOOK_SECONDS = 0.05  # twenty looks a second cost a daemon about a tenth of a per cent of a processor
QUIET_SECONDS = 3600.0


class Hint:
    """No hints at all: the worker looks by itself."""

    def fds(self) -> list[int]:
        """Return what to wait for."""
        return []

    def poll_seconds(self) -> float:
        """Return after how long to ask `heard`, whatever else happens."""
        return QUIET_SECONDS

    def heard(self, ready: Sequence[int]) -> bool:
        """Tell whether to look now."""
        del ready
        return False

    def close(self) -> None:
        """Let go of what it listens with."""


class Watch(Protocol):
    """Something that can be looked at, and looks different after every commit."""

    def version(self) -> int | None:
        """Return what it looks like now; None while it cannot be seen."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class WatchHint(Hint):
    """SQLite: look at the file's version, which costs next to nothing."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen = watch.version()

    def poll_seconds(self) -> float:
        """Return after how long to look at the file."""
        return LOOK_SECONDS

    def heard(self, ready: Sequence[int]) -> bool:
        """Tell whether another process has written since the last time."""
        del ready
        before, self._seen = self._seen, self._watch.version()
        return before != self._seen

    def close(self) -> None:
        """Let go of the file."""
        self._watch.close()


class Ear(Protocol):
    """A connection on which a server says something."""

    def fileno(self) -> int:
        """Return what to wait for."""
        ...

    def take(self) -> Sequence[str] | None:
        """Return what was said, without waiting; None if nothing can be heard any more."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Deaf(Exception):
    """Nothing can be heard at the moment; it may be worth another try later."""


class NotifyHint(Hint):
    """PostgreSQL: a connection of its own that listens, and is opened again when it was lost.

    `listen` returns None where nothing can ever be heard, behind a pooler, and raises Deaf while it cannot connect.
    """

    def __init__(self, listen: Callable[[], Ear | None], now_ns: Callable[[], int]) -> None:
        self._listen = listen
        self._now_ns = now_ns
        self._ear: Ear | None = None
        self._again_ns: int | None = 0  # when to try to listen; None: never again
        self._pause = AGAIN_MIN_SECONDS
        self._open()

    def fds(self) -> list[int]:
        """Return the connection's descriptor."""
        return [self._ear.fileno()] if self._ear else []

    def poll_seconds(self) -> float:
        """Return when to try again to listen."""
        if self._ear is not None or self._again_ns is None:
            return QUIET_SECONDS
        return max(0.0, (self._again_ns - self._now_ns()) / 1e9)

    def heard(self, ready: Sequence[int]) -> bool:
        """Take what was said. A connection that was just lost or opened again may have missed something: look."""
        if self._ear is None:
            return self.poll_seconds() == 0.0 and self._open()
        if self._ear.fileno() not in ready:
            return False
        said = self._ear.take()
        if said is None:
            self._ear = None
            self._try_later()
        return said is None or bool(said)

    def close(self) -> None:
        """Let go of the connection."""
        if self._ear is not None:
            self._ear.close()
        self._ear, self._again_ns = None, None

    def _open(self) -> bool:
        try:
            self._ear = self._listen()
        except Deaf:
            self._try_later()
            return False
        self._again_ns, self._pause = None, AGAIN_MIN_SECONDS
        return self._ear is not None

    def _try_later(self) -> None:
        self._again_ns = self._now_ns() + round(self._pause * 1e9)
        self._pause = min(2 * self._pause, AGAIN_MAX_SECONDS)
