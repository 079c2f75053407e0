"""Hints that something may be ready: never needed, often quicker than the next look."""

import os
from collections.abc import Callable, Sequence
from typing import Any

AGAIN_SECONDS = 5.0
LOOK_SECONDS = 0.02


class Hint:
    """No hints at all: whoever waits looks by itself."""

    def fds(self) -> list[int]:
        """Return what to wait for."""
        return []

    def poll_seconds(self) -> float:
        """Return after how long to ask `heard`, whatever else happens."""
        return 3600.0

    def heard(self, ready: Sequence[int]) -> bool:
        """Tell whether to look now."""
        del ready
        return False


class FileHint(Hint):
    """SQLite: every commit changes the log beside the file."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._seen = self._look()

    def poll_seconds(self) -> float:
        """Return after how long to look at the file."""
        return LOOK_SECONDS

    def heard(self, ready: Sequence[int]) -> bool:
        """Tell whether somebody has written since the last time."""
        del ready
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (found.st_size, found.st_mtime_ns)


class NotifyHint(Hint):
    """PostgreSQL: a connection of its own that listens. Without it, or behind a pooler, there are no hints."""

    def __init__(self, listen: Callable[[], Any]) -> None:
        self._connection: Any = listen()

    def fds(self) -> list[int]:
        """Return the connection's descriptor."""
        return [self._connection.fileno()] if self._connection else []

    def heard(self, ready: Sequence[int]) -> bool:
        """Take what was said; a connection that died says nothing any more."""
        if self._connection is None or not set(self.fds()) & set(ready):
            return False
        try:
            return bool(list(self._connection.notifies(timeout=0)))
        except Exception:  # noqa: BLE001  # whatever ails it, looking goes on
            self._connection = None
            return True
