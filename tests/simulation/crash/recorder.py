"""Writes down what a store does to its files: every write, cut and sync, in their order, while it really does them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from fencepost.stores.sqlite import copy as fence_copy

NAME = "recording"
USUAL = apsw.vfs_names()[0]
SHARED_MEMORY = "-shm"  # is not kept over a crash: SQLite makes it anew


class Step(NamedTuple):
    """One thing that was done to a file."""

    file: str
    kind: str  # write, cut, sync, delete
    at: int = 0
    data: bytes = b""


class Tape:
    """All of it, in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def note(self, path: str, kind: str, at: int = 0, data: bytes = b"") -> None:
        name = os.path.basename(path)
        if not name.endswith(SHARED_MEMORY):
            self.steps.append(Step(name, kind, at, data))


class RecordingFile(apsw.VFSFile):
    """A file of the system's own, with a note of what is done to it."""

    def __init__(self, tape: Tape, filename: Any, flags: list[int]) -> None:  # noqa: ANN401  # SQLite's own
        self._tape = tape
        self._path = filename.filename() if isinstance(filename, apsw.URIFilename) else str(filename)
        super().__init__(USUAL, filename, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        super().xWrite(data, offset)
        self._tape.note(self._path, "write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._tape.note(self._path, "cut", newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._tape.note(self._path, "sync")


class RecordingVFS(apsw.VFS):
    """Opens such files."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        super().__init__(NAME, USUAL)

    def xOpen(self, name: Any, flags: list[int]) -> RecordingFile:  # noqa: N802, ANN401
        return RecordingFile(self._tape, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        super().xDelete(filename, syncdir)
        self._tape.note(filename, "delete")


class _Os(ModuleType):
    """The operating system as the copy of the fence sees it, with the same notes."""

    def __init__(self, tape: Tape) -> None:
        super().__init__("os")
        self._tape = tape
        self._paths: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever else it has
        return getattr(os, name)

    def open(self, path: str, *arguments: Any) -> int:  # noqa: ANN401  # handed on
        fd = os.open(path, *arguments)
        self._paths[fd] = path
        return fd

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        written = os.pwrite(fd, data, at)
        self._tape.note(self._paths[fd], "write", at, data)
        return written

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        if self._paths.get(fd, "").endswith(".fence"):
            self._tape.note(self._paths[fd], "sync")


@contextmanager
def recording() -> Iterator[Tape]:
    """Record every store that is opened meanwhile."""
    tape = Tape()
    vfs = RecordingVFS(tape)
    apsw.set_default_vfs(NAME)
    try:
        with patch.object(fence_copy, "os", _Os(tape)):
            yield tape
    finally:
        apsw.set_default_vfs(USUAL)
        vfs.unregister()
