"""Which workers can reach which projects, and whose turn it is in each."""

import json
from collections.abc import Collection, Sequence

from fencepost.model import lease as rules
from fencepost.model.process import ProcessId
from fencepost.model.project import Working, Workplace
from fencepost.stores.lease_places import places_in, project_line
from fencepost.stores.lease_rows import held_of, process_of, waiter_of
from fencepost.stores.transaction import Dialect, Transaction


class SqlWorkplaces:
    """Which workers can work in which projects."""

    _dialect: Dialect

    def keep_workplaces(
        self, worker: str, process: ProcessId, places: Sequence[Workplace], *, ttl_seconds: float
    ) -> None:
        """Say which projects a worker can reach, for as long as its word is good; what it no longer names is gone."""
        host = process.host
        spelt = json.dumps([place._asdict() for place in places])

        def work(tx: Transaction) -> None:
            tx.rows("drop_workplaces", id=worker, places=spelt)
            tx.rows(
                "keep_workplaces",
                id=worker,
                places=spelt,
                host=host.name,
                machine=host.machine,
                boot=host.boot,
                pid_namespace=host.pid_namespace,
                pid=process.pid,
                pid_started=process.started,
                ttl_ms=round(ttl_seconds * 1000),
            )

        self._dialect.write(work)

    def leave_workplaces(self, worker: str) -> None:
        """Take back what a worker said."""
        self._dialect.write(lambda tx: tx.rows("drop_workplaces", id=worker, places="[]"))

    def workplaces(self) -> list[Working]:
        """Return what the workers said that were heard of lately."""
        return self._dialect.read(lambda tx: [_working(row) for row in tx.rows("workplaces")])

    def parties(self, resource: str, slots: int) -> tuple[list[rules.Held], list[rules.Waiter]]:
        """Return who holds a project, and who waits for it from a terminal."""
        return self._dialect.read(lambda tx: _parties(tx, resource, slots))


def turns(tx: Transaction, places: Collection[Workplace], passed: Collection[str]) -> list[str]:
    """Return the runs whose turn it is in these projects: no more than there is room, and no waiter is before them."""
    room = {place.resource: place.slots for place in places}
    return [run_id for resource, slots in room.items() for run_id in _turns_in(tx, resource, slots, passed)]


def _turns_in(tx: Transaction, resource: str, slots: int, passed: Collection[str]) -> list[str]:
    holders, waiters = _parties(tx, resource, slots)
    free = slots - len(rules.blockers(holders, ()))
    if free <= 0:
        return []
    runs = [one for one in project_line(tx, resource) if one.run_id not in passed]
    line = dict.fromkeys(one.run_id for one in rules.ahead([*waiters, *runs], None, ()))
    queued = {one.run_id for one in runs}
    return [run_id for run_id in list(line)[:free] if run_id in queued]


def _parties(tx: Transaction, resource: str, slots: int) -> tuple[list[rules.Held], list[rules.Waiter]]:
    keys = json.dumps(rules.keys_of("", places_in(tx, resource, slots)))
    holders = [held_of(row) for row in tx.rows("holders", keys=keys)]
    return holders, [waiter_of(row) for row in tx.rows("waiters_on", keys=keys)]


def _working(row: Sequence[object]) -> Working:
    id_, tenant, project, resource, path, slots, isolated, *where, stale = row
    place = Workplace(str(tenant), str(project), str(resource), str(path), int(str(slots)), bool(isolated))
    return Working(place, str(id_), process_of(where), bool(stale))
