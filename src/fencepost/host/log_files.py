"""Where an attempt's output is kept: capped, in two files that take turns, readable while it is being written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fencepost.model.errors import Misconfigured


def log_path(folder: str, run_id: str, fence: int) -> str:
    """Return the log of one attempt; the older half of a long one stands beside it with the ending `.1`."""
    return os.path.join(folder, f"{run_id}.{fence}.log")


class LogFile:
    """Appends to a log that never grows beyond its limit.

    When half of the limit is full, the file becomes the older half, which replaces the one before it: the
    newest output is always there, and the whole never takes more than the limit.
    """

    __slots__ = ("_fd", "_half", "_path", "_size", "_unsaid", "dropped", "why")

    def __init__(self, path: str, limit: int, *, begins: bool = True) -> None:
        """Begin a log, or wait with it until there is something to keep; what cannot be begun keeps nothing until it can."""
        self._path = path
        self._half = max(1, limit // 2)
        self._fd, self._size = -1, 0
        self._unsaid = 0
        self.dropped = 0  # bytes that could not be kept
        self.why = ""
        if begins:
            self._turn()

    def write(self, data: bytes) -> None:
        """Append; a full disk loses output, never the run. The log says where something is missing."""
        if self._unsaid and not self._say():
            self._drop(len(data))
            return
        self._append(data)

    def close(self) -> None:
        """Let go of the file; what it still has to say about a loss is tried once more."""
        if self._unsaid:
            self._say()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _say(self) -> bool:
        missing, self._unsaid = self._unsaid, 0
        self._append(f"\n[fencepost: {missing} bytes of output could not be kept here: {self.why}]\n".encode())
        if not self._unsaid:
            return True
        self.dropped -= self._unsaid  # the sentence itself is no output
        self._unsaid = missing
        return False

    def _append(self, data: bytes) -> None:
        while data:
            if (self._fd < 0 or self._size >= self._half) and not self._turn():
                self._drop(len(data))
                return
            part, data = data[: self._half - self._size], data[self._half - self._size :]
            try:
                written = os.write(self._fd, part)
            except OSError as error:
                self.why = error.strerror or str(error)
                self._drop(len(part) + len(data))
                return
            self._size += written
            data = part[written:] + data

    def _drop(self, number: int) -> None:
        self.dropped += number
        self._unsaid += number

    def _turn(self) -> bool:
        """Begin a new half; if that cannot be, leave the old one open and full."""
        try:
            _make_private(os.path.dirname(self._path))
            if self._fd >= 0:
                with suppress(FileNotFoundError):  # the last turn got half-way
                    os.replace(self._path, f"{self._path}.1")
            fd = self._create()
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size = fd, 0
        return True

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


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Say which log cannot be read, and why; that it is not there is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Misconfigured(f"the log {path} cannot be read: {error.strerror or error}.") from error


def read_log(path: str, *, most: int | None = None) -> bytes:
    """Return all that is left of a log, oldest first; or no more than so many bytes of its end."""
    data = b""
    for name in (path, f"{path}.1"):
        with suppress(FileNotFoundError), reading(name), open(name, "rb") as file:
            left = -1 if most is None else most - len(data)
            if left >= 0:
                file.seek(max(0, os.fstat(file.fileno()).st_size - left))
            data = file.read(left) + data
    return data


def last_lines(path: str, *, limit: int = 4096) -> str:
    """Return the end of a log as text, from the beginning of a line; a log that cannot be read never fails its run."""
    try:
        tail = read_log(path, most=limit)
    except Misconfigured as error:
        return unreadable(error)
    if len(tail) == limit:
        tail = tail.partition(b"\n")[2] or tail
    return tail.decode("utf-8", "replace").replace("\0", "�")


def unreadable(error: Misconfigured) -> str:
    """Return the line that stands in place of a log that cannot be read."""
    return f"[fencepost: {error}]\n"
