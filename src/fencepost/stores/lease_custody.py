"""The verbs of the worker that keeps leases of runs: leave them to their guards, adopt those that others left or lost."""

import json
from collections.abc import Mapping, Sequence

from fencepost.model.lease import HELD, Held, Lease, fate_of
from fencepost.model.process import Host
from fencepost.model.run import RunState
from fencepost.ports.runs import Adoptable, RunRow
from fencepost.stores.audit_writing import audit_entry, write_entries
from fencepost.stores.earlier_attempts import session_of, sessions_of
from fencepost.stores.lease_grants import lease_again
from fencepost.stores.lease_places import beside
from fencepost.stores.lease_rows import held_of, kept, leases_of
from fencepost.stores.run_rows import run_of
from fencepost.stores.transaction import Dialect, Row, Transaction


class SqlCustody:
    """Who keeps the lease of a run: left, adopted, asked to stop."""

    _dialect: Dialect
    _store_id: str

    def leave_runs(self, leases: Sequence[Lease], *, leave_for_seconds: float) -> dict[str, str]:
        """Leave leases to their guards until another worker adopts them.

        Returns the runs that are no longer ours, each as `lost` or `moved`. The others run out after this time, never
        earlier than they would have, and then count as drained, not as lost.
        """
        leave_us = round(leave_for_seconds * 1e6)
        return self._dialect.write(lambda tx: _leave(tx, leases, leave_us), often=True) if leases else {}

    def leases_on(self, machine: str, *, besides: str = "") -> list[Held]:
        """Return the leases whose holder is or was on a machine, and those lost ones that it has not seen dead yet.

        `besides` is a keeper whose held ones are not wanted: it hears from their guards itself.
        """
        return self._dialect.read(lambda tx: leases_of(tx.rows("leases_on", machine=machine, besides=besides)))

    def adoptable(self, here: Host, *, besides: str = "") -> list[Adoptable]:
        """Return the runs that workers keep, or have kept, whose guard lives on this host, boot and pid namespace.

        `besides` is a keeper whose own are not wanted.
        """
        return self._dialect.read(lambda tx: _adoptable(tx, here, self._store_id, besides))

    def adopt(self, lease: Lease, *, keeper: str, adopt_key: str | None = None) -> Lease | None:
        """Take custody of a lease from the keeper of its epoch, and return it with the next one; None: too late.

        A new `adopt_key` replaces the one that its guard was shown last.
        """
        keys = {lease.id: adopt_key} if adopt_key is not None else {}
        return self.adopt_runs([lease], keeper=keeper, adopt_keys=keys).get(lease.id)

    def adopt_runs(
        self, leases: Sequence[Lease], *, keeper: str, adopt_keys: Mapping[str, str] | None = None
    ) -> dict[str, Lease]:
        """Take custody of leases, and return those that we have now, each with its next epoch, by its id.

        One that another transaction has locked is left out: look at it again later.
        """
        return (
            self._dialect.write(lambda tx: _adopt(tx, leases, keeper, adopt_keys or {}), often=True) if leases else {}
        )

    def stops_asked_of(self, keeper: str) -> dict[str, str]:
        """Return which of the runs that a worker keeps shall stop, and why."""
        rows = self._dialect.read(lambda tx: tx.rows("stops_asked_of", keeper=keeper))
        return {str(run_id): str(reason) for run_id, reason in rows}

    def was_left(self, run: RunRow) -> bool:
        """Tell whether the keeper of a lost run has left it on purpose: then it was drained."""
        ids = json.dumps([run.lease_id])
        return any(held.left_us is not None for held in self._dialect.read(lambda tx: leases_of(_named(tx, ids))))


def _named(tx: Transaction, ids: str) -> list[Row]:
    return tx.rows("leases_named", ids=ids)


def _entry(verb: str, lease: Lease, keeper: str | None) -> dict[str, str]:
    detail = {"fence": lease.fence, "epoch": lease.epoch, "keeper": keeper}
    return audit_entry(lease.tenant, actor="keeper", verb=verb, subject=f"run:{lease.run_id}", detail=detail)


def _leave(tx: Transaction, leases: Sequence[Lease], leave_us: int) -> dict[str, str]:
    locked = leases_of(tx.rows("lock_leases", ids=json.dumps(sorted(lease.id for lease in leases))))
    held = {one.id: one for one in locked}
    fates = {lease.id: fate_of(lease, held.get(lease.id)) for lease in leases}
    ours = [lease for lease in leases if fates[lease.id] == HELD]
    if ours:
        tx.later("leave_leases", leases=kept(ours), leave_us=leave_us)
        entries = [_entry("leave", lease, held[lease.id].keeper) for lease in ours]
        write_entries(tx, entries)
    return {lease.run_id: fates[lease.id] for lease in leases if fates[lease.id] != HELD}


def _adopt(tx: Transaction, leases: Sequence[Lease], keeper: str, adopt_keys: Mapping[str, str]) -> dict[str, Lease]:
    values = {"keeper": keeper, "adopt_keys": json.dumps(dict(adopt_keys))}
    new = {row[0] for row in tx.rows("adopt_leases", leases=kept(leases), **values)}
    entries = [_entry("adopt", one._replace(epoch=one.epoch + 1), keeper) for one in leases if one.id in new]
    if entries:
        write_entries(tx, entries)
    again = _adopted_before(tx, [one for one in leases if one.id not in new], keeper)
    return {one.id: one._replace(epoch=one.epoch + 1) for one in leases if one.id in new or one.id in again}


def _adopted_before(tx: Transaction, leases: Sequence[Lease], keeper: str) -> set[str]:
    """Return which were adopted when the answer was lost; writing a renewal makes it as durable as a new one."""
    next_ones = {one.id: one._replace(epoch=one.epoch + 1) for one in leases}
    found = leases_of(_named(tx, json.dumps(list(next_ones)))) if next_ones else []
    mine = [held for held in found if held.keeper == keeper and fate_of(next_ones[held.id], held) == HELD]
    return {row[0] for row in tx.rows("renew_leases", leases=kept(mine))} if mine else set()


def _adoptable(tx: Transaction, here: Host, store_id: str, besides: str) -> list[Adoptable]:
    place = {"machine": here.machine, "boot": here.boot, "pid_namespace": here.pid_namespace}
    found = tx.rows("adoptable", **place, besides=besides)
    if not found:
        return []
    held = [held_of(row[:-1])._replace(adopt_key=row[-1]) for row in found]
    ids = json.dumps([one.run_id for one in held])
    runs = {run.id: run for run in map(run_of, tx.rows("runs_named", ids=ids))}
    checkpoints: dict[str, str] = dict(tx.rows("checkpoints", ids=ids))
    sessions = sessions_of(tx, [one.run_id for one in held])
    mine = [one for one in held if one.run_id in runs and _is_of(runs[one.run_id], one)]
    answers = []
    for one, rows in beside(tx, mine):
        run, told = runs[one.run_id], sessions.get(one.run_id, [])
        now = next((str(row[1]) for row in told if row[0] == one.fence), None)
        earlier, so_far = session_of([row for row in told if row[0] != one.fence] if run.resume else [])
        lease = lease_again(one, rows, store_id)
        answers.append(Adoptable(run, lease, one, checkpoints.get(run.id), now or earlier, so_far))
    return answers


def _is_of(run: RunRow, held: Held) -> bool:
    """Tell whether a lease is the one under which its run is under way."""
    return (run.lease_id, run.fence, run.state) == (held.id, held.fence, RunState.RUNNING.value)
