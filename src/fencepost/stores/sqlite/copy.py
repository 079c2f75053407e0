"""A copy of the newest fence beside the database file, to notice that the file went back in time.

The copy is on disk *before* the grant commits, so a crash between the two leaves it ahead by one
grant. It therefore keeps two numbers: the fence that the database had committed, and the one about
to be. A database behind the committed one was restored, rolled back or deleted.

Its file serves as the line of those who wait for the database, too: it is there, and SQLite has no lock of its own on it.
"""

from __future__ import annotations

import os

from fencepost.model.fast_typing import NamedTuple

CRC_PARTS = (  # the CRC-32 of each half byte
    *(0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C),
    *(0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C),
)


class Copied(NamedTuple):
    """What the copy says."""

    store: str
    committed: int
    pending: int


class FenceCopy:
    """The small file `<database>.fence`."""

    __slots__ = ("_fd", "_path", "_throwaway")

    def __init__(self, database: str, *, throwaway: bool = False) -> None:
        self._path = f"{database}.fence"
        self._fd = -1
        self._throwaway = throwaway  # it need not survive a power cut

    def read(self) -> Copied | None:
        """Return what was written last, or None if there is nothing whole."""
        try:
            text = os.pread(self._open(), 256, 0).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        line, _, checksum = text.partition("\n")[0].rpartition(" ")
        if not line.startswith("v1 ") or checksum != _checksum(line):
            return None
        _, store, committed, pending = line.split(" ")
        return Copied(store, int(committed), int(pending))

    def write(self, copied: Copied) -> None:
        """Put the numbers on disk; when this returns they survive a power cut."""
        line = f"v1 {copied.store} {copied.committed} {copied.pending}"
        record = f"{line} {_checksum(line)}\n".ljust(255) + "\n"
        fd = self._open(create=True)
        os.pwrite(fd, record.encode(), 0)
        if not self._throwaway:
            os.fsync(fd)

    def stand_in_line(self) -> bool:
        """Show who writes all the time that we wait; that ends with `leave_line`, or with our death."""
        return self._flock("LOCK_SH")

    def leave_line(self) -> None:
        """Wait no more."""
        self._flock("LOCK_UN")

    def is_line_empty(self) -> bool:
        """Tell whether no other writer waits."""
        return self._flock("LOCK_EX") and self._flock("LOCK_UN")

    def _flock(self, how: str) -> bool:
        import fcntl

        try:
            fcntl.flock(self._open(), getattr(fcntl, how) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return how != "LOCK_SH"  # no grant has made the file yet, so that none can stand in line
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, *, create: bool = False) -> int:
        if self._fd >= 0 and not os.fstat(self._fd).st_nlink:
            self.close()  # the copy was deleted: no reader would see what goes on in it
        if self._fd < 0:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                self._fd = os.open(self._path, flags)
            except FileNotFoundError:
                if not create:
                    raise
                self._fd = os.open(self._path, flags | os.O_CREAT, 0o600)
                sync_folder(self._path)
        return self._fd


def sync_folder(path: str) -> None:
    """Make a new name durable."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _checksum(line: str) -> str:
    """Return the CRC-32 of a line: it is so short that loading zlib would take longer."""
    value = 0xFFFFFFFF
    for byte in line.encode():
        value ^= byte
        value = value >> 4 ^ CRC_PARTS[value & 15]
        value = value >> 4 ^ CRC_PARTS[value & 15]
    return f"{value ^ 0xFFFFFFFF:08x}"
