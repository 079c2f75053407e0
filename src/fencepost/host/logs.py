"""Where an attempt's output is kept: capped, in two files that take turns, readable while it is being written."""

import os
from contextlib import suppress


def log_path(folder: str, run_id: str, fence: int) -> str:
    """Return the log of one attempt; the older half of a long one stands beside it with the ending `.1`."""
    return os.path.join(folder, f"{run_id}.{fence}.log")


class LogFile:
    """Appends to a log that never grows beyond its limit.

    When half of the limit is full, the file becomes the older half, which replaces the one before it: the
    newest output is always there, and the whole never takes more than the limit.
    """

    __slots__ = ("_fd", "_half", "_path", "_size", "dropped")

    def __init__(self, path: str, limit: int) -> None:
        _make_private(os.path.dirname(path))
        self._path = path
        self._half = max(1, limit // 2)
        self._size = 0
        self.dropped = 0
        self._fd = self._create()

    def write(self, data: bytes) -> None:
        """Append; a full disk loses output, never the run."""
        while data:
            if self._size >= self._half:
                self._turn()
            part, data = data[: self._half - self._size], data[self._half - self._size :]
            try:
                written = os.write(self._fd, part)
            except OSError:
                self.dropped += len(part)
                return
            self._size += written
            data = part[written:] + data

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def _turn(self) -> None:
        os.close(self._fd)
        os.replace(self._path, f"{self._path}.1")
        self._fd = self._create()
        self._size = 0

    def _create(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _make_private(folder: str) -> None:
    """Make a folder and those above it for their owner only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with suppress(FileExistsError):  # another attempt was faster
            os.mkdir(folder, 0o700)


def remove_log(path: str) -> None:
    """Remove both halves of a log, if they are there."""
    for name in (path, f"{path}.1"):
        with suppress(FileNotFoundError):  # removed before, or never on this disk
            os.unlink(name)


def read_log(path: str) -> bytes:
    """Return all that is left of a log, oldest first."""
    parts = []
    for name in (f"{path}.1", path):
        try:
            with open(name, "rb") as file:
                parts.append(file.read())
        except FileNotFoundError:
            continue
    return b"".join(parts)


def last_lines(path: str, *, limit: int = 4096) -> str:
    """Return the end of a log as text, from the beginning of a line."""
    tail = read_log(path)[-limit:]
    if len(tail) == limit:
        tail = tail.partition(b"\n")[2] or tail
    return tail.decode("utf-8", "replace").replace("\0", "�")
