"""How an attempt ended, in a form that outlives its guard: written down before it is told, settled by any worker."""

import json
import os
from _socket import AF_UNIX, SOCK_STREAM, socket
from contextlib import suppress
from typing import Any, NamedTuple, Self

from fencepost.model.lease import Held
from fencepost.model.outcome import Outcome, outcome_from_json, outcome_to_json
from fencepost.model.run import Reason
from fencepost.service.run_order import GuardPlace, RunOrder

VERSION = 1
END = ".end.json"
YOUNG_SECONDS = 60.0  # a socket of this age may not be listened at yet
KEPT_SECONDS = 30 * 86400.0  # the last words of a guard whose store was not opened since


class Told(NamedTuple):
    """What an attempt leaves behind besides its log."""

    summary: str | None = None
    cost_micro: int | None = None
    turns: int | None = None
    usage: str | None = None
    session: str | None = None
    refused: Reason | None = None  # what it asked for last was refused, by the ledger or by a gate

    def fields(self) -> dict[str, Any]:
        """Return what is written down with the attempt."""
        return {name: value for name, value in self._asdict().items() if name != "refused"}


class EndRecord(NamedTuple):
    """The end of one attempt."""

    store: str
    tenant: str
    run_id: str
    lease_id: str
    fence: int
    outcome: Outcome
    started: bool
    exit_code: int | None
    told: Told
    gone: bool  # its whole tree
    log: str
    began_us: int
    dropped: int = 0  # bytes of its output that could not be kept
    why_dropped: str = ""

    @classmethod
    def of(cls, order: RunOrder, store: str, outcome: Outcome, **facts: Any) -> Self:  # noqa: ANN401  # our fields
        """Return the record of an order's end."""
        lease = order.lease
        return cls(store, lease.tenant, lease.run_id, lease.id, lease.fence, outcome, log=order.log, **facts)

    def to_json(self) -> dict[str, Any]:
        """Spell it; newer programs read it, too."""
        values = {**self._asdict(), "outcome": outcome_to_json(self.outcome), "told": self.told._asdict()}
        return {"version": VERSION, **values}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read it; what a newer program adds is passed over."""
        known = {name: values[name] for name in cls._fields if name in values}
        told = Told(**{name: values["told"].get(name) for name in Told._fields})
        told = told._replace(refused=Reason(told.refused) if told.refused else None)
        return cls(**{**known, "outcome": outcome_from_json(values["outcome"]), "told": told})

    def write(self, path: str) -> None:
        """Put it where a crash of this process or this machine leaves it; a full disk loses only this second way."""
        draft = f"{path}.new"
        with suppress(OSError):
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(self.to_json(), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def remove(self, path: str) -> None:
        """Forget it: the store has it."""
        with suppress(FileNotFoundError):
            os.unlink(path)


def record_at(path: str) -> EndRecord | None:
    """Return the end that was written down there; None if none was, or not to its end."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        return EndRecord.from_json(json.load(file))
    return None


class EndRecords:
    """The ends that were written down in a folder and not settled yet. Each is read once: it never changes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[str, EndRecord | None] = {}

    def of(self, store_id: str) -> dict[str, tuple[str, EndRecord]]:
        """Return those of a store by their leases, each with its path; other stores of this user have theirs here too."""
        names = [name for name in listed(self._folder) if name.endswith(END)]
        paths = {name: os.path.join(self._folder, name) for name in names}
        self._read = {name: self._read.get(name) or record_at(path) for name, path in paths.items()}
        known = ((paths[name], record) for name, record in self._read.items() if record and record.store == store_id)
        return {record.lease_id: (path, record) for path, record in known}


def clear_away_the_dead(folder: str, *, now_us: int) -> None:
    """Remove what guards that were killed have left: sockets at which no process listens, and in the end their last words."""
    for name in listed(folder):
        path = os.path.join(folder, name)
        with suppress(OSError):  # another worker clears up, too
            age_seconds = now_us / 1e6 - os.stat(path).st_mtime
            kept_seconds = YOUNG_SECONDS if name.endswith(".sock") else KEPT_SECONDS
            if age_seconds > kept_seconds and not (name.endswith(".sock") and is_heard(path)):
                os.unlink(path)


def is_heard(path: str) -> bool:
    """Tell whether a process listens at a socket."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.connect(path)
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
    return True


def listed(folder: str) -> list[str]:
    """Return the names in a folder, none if there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def has_known_end(held: Held) -> bool:
    """Tell whether the guard of a lease has written down on this machine how its attempt ended."""
    if held.keeper_socket is None:
        return False
    record = record_at(GuardPlace.of(held.keeper_socket).end)
    return record is not None and record.fence == held.fence
