"""Who holds locks on a file, as the kernel tells it; nothing is opened, which could cost a process its own locks."""

import os

_READ_MARKS = range(123, 128)  # the bytes of SQLite's -shm file that readers lock, one of them for as long as they read


def readers_of(path: str) -> set[int] | None:
    """Return the processes that are in the middle of reading an SQLite file, by its -shm file; None: cannot be told."""
    try:
        inode = os.stat(path).st_ino
        with open("/proc/locks", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    return {pid for line in lines if (pid := _reader(line.split(), inode))}


def _reader(fields: list[str], inode: int) -> int | None:
    """Read `1: POSIX ADVISORY READ 4711 fd:01:123 124 124`; a line of one who waits has an arrow in it."""
    if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "READ" or not fields[5].endswith(f":{inode}"):  # noqa: PLR2004  # columns of /proc/locks
        return None
    pid, first = int(fields[4]), int(fields[6])
    return pid if pid > 0 and first in _READ_MARKS else None
