"""What this machine remembers of a store of cells, in a folder of its own: it outlives the callers, and the store's mishaps."""

from __future__ import annotations

import fcntl
import os

from fencepost.model import fast_json as json
from fencepost.model.cell import Known, Memory, Sighting, read_record
from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple
from fencepost.model.process import Host, ProcessId

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any, Callable
    from fencepost.model.tick_claim import TickRecord

KNOWN_MAX = 16  # leases of one cell whose processes may still be about
FILE_MAX = 262_144


class Remembered(NamedTuple):
    """Everything about one cell."""

    memory: Memory = Memory()
    known: tuple[tuple[str, Known], ...] = ()  # by the lease's id
    ticks: tuple[TickRecord, ...] = ()

    def knows(self, lease_id: str) -> Known | None:
        """Return what this machine knows of a lease, if it was its own."""
        return dict(self.known).get(lease_id)

    def with_known(self, lease_id: str, known: Known) -> Remembered:
        """Remember how the processes of a lease are found."""
        others = [one for one in self.known if one[0] != lease_id]
        return self._replace(known=(*others, (lease_id, known))[-KNOWN_MAX:])

    def without(self, lease_id: str) -> Remembered:
        """Forget a lease of which nothing is left."""
        return self._replace(known=tuple(one for one in self.known if one[0] != lease_id))


class StoreMemory(NamedTuple):
    """Everything about the store itself."""

    id: str = ""
    probed_us: int = 0
    warnings: tuple[str, ...] = ()


class MemoryFolder:
    """One folder per store, one small file per cell; every change is a whole new file."""

    __slots__ = ("_folder",)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def store(self) -> StoreMemory:
        """Return what is remembered of the store."""
        fields = self._read("store")
        try:
            return StoreMemory(
                str(fields.get("id", "")), _number(fields.get("probed_us", 0)), tuple(fields.get("warnings", ()))
            )
        except (TypeError, ValueError):
            return StoreMemory()

    def keep_store(self, memory: StoreMemory) -> None:
        """Remember the store."""
        with _Turn(self._folder):
            self._write("store", memory._asdict())

    def cell(self, name: str) -> Remembered:
        """Return what is remembered of a cell."""
        try:
            return _remembered(self._read(name))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return Remembered()  # another program wrote it: as good as never seen

    def change(self, name: str, change: Callable[[Remembered], Remembered]) -> Remembered:
        """Change what is remembered of a cell, one caller after the other."""
        before = self.cell(name)
        if change(before) == before:
            return before
        with _Turn(self._folder):
            after = change(self.cell(name))
            self._write(name, _fields(after))
        return after

    def _read(self, name: str) -> dict[str, Any]:
        try:
            with open(os.path.join(self._folder, f"{name}.json"), encoding="utf-8") as file:
                fields = json.loads(file.read(FILE_MAX))
        except (OSError, ValueError):
            return {}  # never seen, or written in a power cut: as good as never seen
        return fields if isinstance(fields, dict) else {}

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        path = os.path.join(self._folder, f"{name}.json")
        draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(json.dumps(fields))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            raise _trouble(self._folder, error) from None


class _Turn:
    """One writer at a time; the file of the lock is never deleted."""

    __slots__ = ("_fd", "_folder")

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        try:
            make_private(self._folder)
            self._fd = os.open(os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _trouble(self._folder, error) from None
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def make_private(folder: str) -> None:
    """Make a folder and what is missing above it, for this user only."""
    if os.path.isdir(folder):
        return
    make_private(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # another process was quicker
        return


def _trouble(folder: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"this machine cannot remember what it sees of the store: {folder}: {error.strerror}. "
        "Make the folder writable, or name another one with XDG_STATE_HOME."
    )


def _fields(one: Remembered) -> dict[str, Any]:
    memory = one.memory
    return {
        "fence": memory.fence,
        "ttl_ms": memory.ttl_ms,
        "cursors": memory.cursors,
        "resets": memory.resets,
        "sighting": memory.sighting,
        "known": {lease_id: _known_fields(known) for lease_id, known in one.known},
        "ticks": [record._asdict() for record in one.ticks],
    }


def _known_fields(known: Known) -> dict[str, Any]:
    guard = known.guard
    return {
        "run_id": known.run_id,
        "host": known.supervisor.host,
        "pid": known.supervisor.pid,
        "started": known.supervisor.started,
        "guard": [guard.pid, guard.started] if guard else None,
        "cgroup": known.cgroup,
    }


def _remembered(fields: dict[str, Any]) -> Remembered:
    if not fields:
        return Remembered()
    sighting = _sighting(*fields["sighting"]) if fields["sighting"] else None
    cursors = tuple([(str(job), _number(cursor)) for job, cursor in fields["cursors"]])
    memory = Memory(_number(fields["fence"]), _number(fields["ttl_ms"]), cursors, _number(fields["resets"]), sighting)
    known = tuple([(lease_id, _known(one)) for lease_id, one in fields["known"].items()])
    return Remembered(memory, known, tuple([read_record(one) for one in fields["ticks"]]))


def _sighting(nonce: str, boot: str, seen_ns: int) -> Sighting:
    return Sighting(str(nonce), str(boot), _number(seen_ns))


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number that was written here")
    return value


def _known(fields: dict[str, Any]) -> Known:
    host = Host(*[str(one) for one in fields["host"]])
    guard = ProcessId(host, _number(fields["guard"][0]), str(fields["guard"][1])) if fields["guard"] else None
    process = ProcessId(host, _number(fields["pid"]), str(fields["started"]))
    return Known(str(fields["run_id"]), process, guard, str(fields["cgroup"]) if fields["cgroup"] else None)
