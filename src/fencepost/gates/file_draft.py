"""A file in the making: complete and on the disk before it has its name."""

import fcntl
import os
from contextlib import suppress

from fencepost.gates.open_beneath import sync
from fencepost.model.fast_typing import Iterable, Self

_PREFIX = "tmp-"
_NAME_LENGTH = len(_PREFIX) + 32


class Draft:
    """A file in a private folder, under a name that is never used again; it is removed unless it was published.

    Its writer holds a lock on it, so that the draft of a dead writer can be told from that of a slow or frozen one.
    """

    def __init__(self, folder: int, mode: int) -> None:
        self._folder = folder
        self._published = False
        self._name, self._file = _create(folder, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._published:
            with suppress(FileNotFoundError):  # the whole folder was cleared away; so it is gone all the same
                os.unlink(self._name, dir_fd=self._folder)
        os.close(self._file)

    def fill(self, chunks: Iterable[bytes]) -> int:
        """Write the chunks one by one, and return how many bytes that made."""
        size = 0
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                written = os.write(self._file, rest)
                size += written
                rest = rest[written:]
        return size

    def complete(self, like: os.stat_result | None = None, mask: int = 0o777) -> None:
        """Give it the owner and mode of the file that it replaces, and put it on the disk."""
        if like is not None:
            os.fchmod(self._file, self._owned_like(like) & mask)
        sync(self._file)

    def publish(self, name: str, directory: int) -> None:
        """Put it in place of the file that has that name, and return when that would survive a power cut."""
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=directory)
        self._published = True
        sync(directory)

    def _owned_like(self, like: os.stat_result) -> int:
        """Take over owner and group as far as we may, and return the mode that fits.

        Without its group, a file must not show to our group what was meant for another one.
        """
        mode = like.st_mode & 0o777
        mine = os.fstat(self._file)
        if (mine.st_uid, mine.st_gid) == (like.st_uid, like.st_gid):
            return mode
        for owner in (like.st_uid, -1):
            with suppress(PermissionError):  # only root may give files away; the group may still be one of ours
                os.fchown(self._file, owner, like.st_gid)
                return mode
        as_for_others = (mode & 0o007) << 3
        return mode & (0o707 | as_for_others)


def sweep(folder: int) -> None:
    """Remove the drafts of writers that died; a lock that we can get has lost its holder."""
    for name in os.listdir(folder):
        if not name.startswith(_PREFIX) or len(name) != _NAME_LENGTH:
            continue
        with suppress(OSError):  # published, swept by another writer, or still in use
            _remove_if_abandoned(folder, name)


def _remove_if_abandoned(folder: int, name: str) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(file)


def _create(folder: int, mode: int) -> tuple[str, int]:
    while True:
        name = _PREFIX + os.urandom(16).hex()
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            return name, file
        os.close(file)  # a sweeper came between creating and locking
