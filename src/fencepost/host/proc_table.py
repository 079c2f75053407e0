"""The process table as Linux shows it under /proc."""

from __future__ import annotations

import os

from fencepost.host.process_table import MarkedProcesses, ProcessRow
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterable, Iterator, Mapping


class ProcTable:
    """Reads /proc, which must belong to our own pid namespace."""

    __slots__ = ()

    looks_needed = 1
    looks_max = 200

    def row(self, pid: int) -> ProcessRow | None:
        """Return the process with this pid; raise PermissionError where /proc hides other users' processes."""
        return parse(stat) if (stat := _read(f"/proc/{pid}/stat")) else None

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:
        """Return every visible process, by pid; one that ended under our eyes has no start time."""
        listed = _numbered_entries()
        kept = _kept(known, listed)
        found = ((pid, kept.get(pid) or _row(str(pid))) for pid in listed)
        return {pid: row._replace(entry=listed[pid]) if pid not in kept else row for pid, row in found if row}

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:
        """Find those that were started with this NAME=value in their environment, newest first: they may be quick."""
        return _marked(marker, ((row.pid, str(row.pid)) for row in reversed(list(among))))

    def is_older(self, row: ProcessRow, than: str) -> bool:
        """Compare clock ticks since boot."""
        return row.started != "" and int(row.started) < int(than)


class Kin(NamedTuple):
    """What /proc tells every user about a process: its parent's entry, and its pids, from the outermost namespace inwards."""

    parent: str
    pids: tuple[int, ...]


class OuterProcTable(ProcTable):
    """Reads a /proc that belongs to an outer pid namespace, as after `unshare --pid` without a mount of its own.

    There our pid 1 is listed under another number, and /proc/1 is a stranger.
    """

    __slots__ = ("_namespace",)

    def __init__(self) -> None:
        self._namespace = _namespace("self")

    def row(self, pid: int) -> ProcessRow | None:
        """Return the process with this pid, as we number it."""
        return self.rows({}).get(pid)

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:  # noqa: ARG002  # each has to be asked for its number
        """Return the processes of our own pid namespace, as we number them."""
        ours = self._entries()
        rows = {entry: row for entry in ours if (row := _row(entry))}
        return {
            ours[entry]: row._replace(pid=ours[entry], parent=ours.get(str(row.parent), 0))
            for entry, row in rows.items()
        }

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:
        """Find those that were started with this NAME=value in their environment."""
        asked = {row.pid for row in among}
        return _marked(marker, ((pid, entry) for entry, pid in self._entries().items() if pid in asked))

    def _entries(self) -> dict[str, int]:
        """Return the entries of /proc that show our namespace, with the pid that each has in it."""
        namespaces = {entry: _namespace(entry) for entry in _entries()}
        readable = {entry for entry, found in namespaces.items() if found == self._namespace}
        closed = {entry: _kin(entry) for entry, found in namespaces.items() if not found}
        found = relatives(closed, {entry: _kin(entry) for entry in readable})
        return {entry: one.pids[-1] for entry, one in found.items() if one.pids}


def proc_is_usable() -> bool:
    """Tell whether there is a /proc that shows us."""
    return os.path.exists("/proc/self/stat")


def proc_is_ours() -> bool:
    """Tell whether /proc numbers processes as we do."""
    return os.readlink("/proc/self") == str(os.getpid())


def parse(stat: bytes) -> ProcessRow:
    """Read a line of /proc/<pid>/stat, whose second field may hold blanks and brackets."""
    before, _, after = stat.rpartition(b")")
    fields = after.split()
    return ProcessRow(
        pid=int(before.split(b" ", 1)[0]),
        parent=int(fields[1]),
        started=fields[19].decode(),
        # A first thread that ended early is shown as a zombie although the other threads run on.
        gone=fields[0] in b"ZXx" and int(fields[17]) <= 1,
    )


def _entries() -> Iterator[str]:
    with os.scandir("/proc") as entries:
        yield from (entry.name for entry in entries if entry.name.isdigit())


def _numbered_entries() -> dict[int, int]:
    """Return the number of each process's folder: a new process gets a new one, also under an old pid."""
    with os.scandir("/proc") as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}


def _kept(known: Mapping[int, ProcessRow], listed: Mapping[int, int]) -> dict[int, ProcessRow]:
    """Return the known ones that are there still, below parents that are: an orphan has a new parent to be read."""
    kept = {pid: row for pid, row in known.items() if listed.get(pid) == row.entry}
    while orphans := [pid for pid, row in kept.items() if row.parent and row.parent not in kept]:
        for pid in orphans:
            del kept[pid]
    return kept


def _row(entry: str) -> ProcessRow | None:
    """Read one process, or None if it is hidden from us."""
    try:
        stat = _read(f"/proc/{entry}/stat")
    except PermissionError:
        return None
    return parse(stat) if stat else ProcessRow(int(entry), parent=0, started="", gone=True)


def _marked(marker: str, entries: Iterable[tuple[int, str]]) -> MarkedProcesses:
    found = MarkedProcesses(set(), set())
    for pid, entry in entries:
        try:
            environment = _read(f"/proc/{entry}/environ")
        except PermissionError:  # another user's
            continue
        if not environment:
            found.unclear.add(pid)
        elif b"\0%b\0" % marker.encode() in b"\0%b\0" % environment:
            found.pids.add(pid)
    return found


def relatives(closed: Mapping[str, Kin], ours: Mapping[str, Kin]) -> dict[str, Kin]:
    """Return those of the closed entries that are of our namespace: workers and guards do not tell which is theirs.

    A parent is in the namespace of its child, or in one further out, where it has fewer pids. So a process that has as many as
    we do, and is parent or child of one of us, is one of us.
    """
    found = dict(ours)
    depth = max((len(one.pids) for one in ours.values()), default=0)
    left = {entry: one for entry, one in closed.items() if len(one.pids) == depth}
    while near := {
        entry: one
        for entry, one in left.items()
        if one.parent in found or any(other.parent == entry for other in found.values())
    }:
        found |= near
        left = {entry: one for entry, one in left.items() if entry not in near}
    return found


def _kin(entry: str) -> Kin:
    parent = ""
    pids: tuple[int, ...] = ()
    for line in _read(f"/proc/{entry}/status").splitlines():
        if line.startswith(b"PPid:"):
            parent = line.split()[1].decode()
        elif line.startswith(b"NSpid:"):
            pids = tuple(map(int, line.split()[1:]))
    return Kin(parent, pids)


def _namespace(entry: str) -> int:
    try:
        return os.stat(f"/proc/{entry}/ns/pid").st_ino
    except OSError:  # ended meanwhile, or another user's
        return 0


def _read(path: str) -> bytes:
    """Read a file of /proc; a process that ended meanwhile has nothing to say."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return _whole(descriptor)
    except ProcessLookupError:
        return b""
    finally:
        os.close(descriptor)


def _whole(descriptor: int) -> bytes:
    text = os.read(descriptor, 65536)
    if len(text) < 4096:  # noqa: PLR2004 - /proc hands out pages: less than one is the end
        return text
    while more := os.read(descriptor, 65536):
        text += more
    return text
