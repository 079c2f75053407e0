"""Reads a log while it is being written, from its end or from where an earlier reader stopped, through its turns."""

import errno
import os
from contextlib import suppress
from typing import NamedTuple

from fencepost.host.log_files import reading


class Spot(NamedTuple):
    """How far a reader has come: which file, by its inode, and how many bytes of it."""

    inode: int
    offset: int


class LogReader:
    """One reader of one attempt's log; the older half of a long log stands beside it with the ending `.1`."""

    def __init__(self, path: str, spot: Spot | None, *, tail_bytes: int) -> None:
        self._path = path
        self._fd: int | None = None
        self._offset = 0
        self.skipped = False  # something before this was left out
        self._begin(spot, tail_bytes)

    @property
    def spot(self) -> Spot | None:
        """Where the next reading begins; None as long as there is no file."""
        return None if self._fd is None else Spot(os.fstat(self._fd).st_ino, self._offset)

    def read(self, limit: int) -> bytes:
        """Return what has come since, up to a limit; nothing if nothing has."""
        if self._fd is None and not self._open_first():
            return b""
        data = self._some(limit)
        if data or not self._turned():
            return data
        data = self._some(limit)  # appended before the file had its turn, and after we looked
        if data:
            return data
        self._take(self._following())
        return self._some(limit)

    def behind(self) -> int:
        """Return how many bytes are still to be read."""
        return max(0, sum(_size(name) for name in (f"{self._path}.1", self._path)) - self._before())

    def skip(self, tail_bytes: int) -> None:
        """Leave out everything but the end."""
        self.close()
        self._begin(None, tail_bytes)
        self.skipped = True

    def back(self, count: int) -> None:
        """Give back bytes that were read and not used."""
        self._offset -= count

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _begin(self, spot: Spot | None, tail_bytes: int) -> None:
        if spot is not None and self._resume(spot):
            return
        self.skipped = spot is not None
        older, newer = _size(f"{self._path}.1"), _size(self._path)
        start = max(0, older + newer - tail_bytes)
        self.skipped = self.skipped or start > 0
        if older and start < older:
            self._take(_open(f"{self._path}.1"), start)
        else:
            self._take(_open(self._path), max(0, start - older))

    def _resume(self, spot: Spot) -> bool:
        for name in (self._path, f"{self._path}.1"):
            found = _open(name)
            if found is None:
                continue
            if os.fstat(found).st_ino == spot.inode and 0 <= spot.offset <= os.fstat(found).st_size:
                self._take(found, spot.offset)
                return True
            os.close(found)
        return False

    def _open_first(self) -> bool:
        self._take(_open(f"{self._path}.1") or _open(self._path))
        return self._fd is not None

    def _some(self, limit: int) -> bytes:
        if self._fd is None:
            return b""
        with reading(self._path):
            data = os.pread(self._fd, limit, self._offset)
        self._offset += len(data)
        return data

    def _turned(self) -> bool:
        assert self._fd is not None
        return _inode(self._path) not in (None, os.fstat(self._fd).st_ino)

    def _following(self) -> int | None:
        """Open the file after ours: the newest if ours is the older half now, else the older half."""
        assert self._fd is not None
        older = _inode(f"{self._path}.1")
        if older in (None, os.fstat(self._fd).st_ino):
            return _open(self._path)
        self.skipped = True
        return _open(f"{self._path}.1")

    def _before(self) -> int:
        if self._fd is None:
            return 0
        ours = os.fstat(self._fd).st_ino
        return self._offset if ours != _inode(self._path) else _size(f"{self._path}.1") + self._offset

    def _take(self, fd: int | None, offset: int = 0) -> None:
        self.close()
        self._fd, self._offset = fd, offset


def _open(path: str) -> int | None:
    with suppress(FileNotFoundError), reading(path):  # not there yet, or no longer
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link is no log: it is not followed
                raise
    return None


def _size(path: str) -> int:
    found = _stat(path)
    return 0 if found is None else found.st_size


def _inode(path: str) -> int | None:
    found = _stat(path)
    return None if found is None else found.st_ino


def _stat(path: str) -> os.stat_result | None:
    with suppress(FileNotFoundError), reading(path):
        return os.lstat(path)
    return None
