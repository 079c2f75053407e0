"""How an attempt ended, in a form that outlives its guard: written down before anybody is told, settled by any worker."""

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple, Self

from fencepost.model.lease import Held
from fencepost.model.outcome import Outcome, outcome_from_json, outcome_to_json
from fencepost.model.run import Reason
from fencepost.service.listening import Told
from fencepost.service.run_order import GuardPlace, RunOrder

VERSION = 1


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
        run, lease = order.run, order.lease
        return cls(store, run.tenant, run.id, lease.id, lease.fence, outcome, log=order.log, **facts)

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


def records_in(folder: str) -> list[tuple[str, EndRecord]]:
    """Return the ends that were written down in a folder and not settled, with their paths."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".end.json"))
    except FileNotFoundError:
        return []
    found = [(path, record_at(path)) for path in (os.path.join(folder, name) for name in names)]
    return [(path, record) for path, record in found if record is not None]


def has_known_end(held: Held) -> bool:
    """Tell whether the guard of a lease has written down on this machine how its attempt ended."""
    if held.keeper_socket is None:
        return False
    record = record_at(GuardPlace.of(held.keeper_socket).end)
    return record is not None and record.fence == held.fence
