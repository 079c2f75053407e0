"""The lease verbs, written once for both dialects; each is one transaction.

Resources are locked first and in sorted order, leases after them, so that two verbs never wait
for each other in a circle.
"""

import json
from collections.abc import Collection

from fencepost.model import lease as rules
from fencepost.model.errors import LeaseLost
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter
from fencepost.model.process import Host, ProcessId
from fencepost.stores.transaction import Dialect, Row, Transaction


class SqlLeases:
    """LeaseStore's verbs over named statements."""

    def __init__(self, dialect: Dialect, store_id: str) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect
        self._store_id = store_id

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        """Grant all resources with one new fence, or none."""
        keys = rules.keys_of(claim.tenant, claim.resources)
        with self._dialect.writing() as tx:
            tx.rows("ensure_resources", keys=json.dumps(keys))
            locked = tx.rows("lock_resources", keys=json.dumps(keys))
            assert len(locked) == len(keys), "every resource has a row before it is locked"
            holders = _leases(tx.rows("holders", keys=json.dumps(keys)))
            mine = _own(holders, claim)
            if mine:
                return Granted(self._lease(mine, gates=_owed(locked)), _lost(tx, keys))
            refused = _refusal(tx, keys=keys, holders=holders, dead=dead, ticket=ticket)
            if refused:
                return refused
            for held in holders:
                tx.rows("lose", id=held.id, fence=held.fence, why="expired" if held.expired else "holder dead")
            held_lease = self._grant(tx, claim, keys=keys, locked=locked)
            tx.rows("sweep_waiters", ticket=ticket or "", dead=json.dumps(sorted(dead)))
            tx.rows("dequeue", id=ticket or "")
            return Granted(held_lease, _lost(tx, keys))

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now, writing nothing."""
        keys = rules.keys_of(claim.tenant, claim.resources)
        with self._dialect.reading() as tx:
            holders = _leases(tx.rows("holders", keys=json.dumps(keys)))
            if _own(holders, claim):
                return None
            return _refusal(tx, keys=keys, holders=holders, dead=dead, ticket=ticket)

    def start(self, lease: Lease) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""
        with self._dialect.writing() as tx:
            _still_ours(tx.rows("start", id=lease.id, fence=lease.fence), lease)

    def renew(self, lease: Lease) -> None:
        """Extend the lease by its time to live, or raise LeaseLost."""
        with self._dialect.writing() as tx:
            _still_ours(tx.rows("renew", id=lease.id, fence=lease.fence), lease)

    def release(self, lease: Lease, *, clean: bool) -> None:
        """End the lease, or raise LeaseLost."""
        with self._dialect.writing() as tx:
            tx.rows("lock_lease", id=lease.id)
            if clean:
                _still_ours(tx.rows("forget_held", id=lease.id, fence=lease.fence), lease)
            else:
                why = "ended with processes left"
                _still_ours(tx.rows("lose", id=lease.id, fence=lease.fence, why=why), lease)
            tx.rows("free_resources", id=lease.id, fence=lease.fence, clean=clean)

    def enqueue(self, claim: Claim, ticket: str) -> None:
        """Join the queue for the claim's resources; joining again refreshes the place."""
        with self._dialect.writing() as tx:
            tx.rows("enqueue", **{**_values(claim), "id": ticket})

    def dequeue(self, ticket: str) -> None:
        """Leave the queue."""
        with self._dialect.writing() as tx:
            tx.rows("dequeue", id=ticket)

    def leases(self) -> list[Held]:
        """Return every lease, and those lost ones whose processes nobody has seen dead yet."""
        with self._dialect.reading() as tx:
            return _leases(tx.rows("all_leases"))

    def waiters(self) -> list[Waiter]:
        """Return the queue, oldest first."""
        with self._dialect.reading() as tx:
            return [_waiter(row) for row in tx.rows("all_waiters")]

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder by hand; False if it has changed hands since it was looked at."""
        with self._dialect.writing() as tx:
            tx.rows("lock_lease", id=held.id)
            broken = tx.rows("lose", id=held.id, fence=held.fence, why=why)
            tx.rows("free_resources", id=held.id, fence=held.fence, clean=False)
            return bool(broken)

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""
        with self._dialect.writing() as tx:
            tx.rows("forget_lost", id=lost.id, fence=lost.fence)

    def bump(self, floor: int) -> int:
        """Lift the fence floor so that every later fence is above it; return the floor now in force."""
        with self._dialect.writing() as tx:
            tx.remember(floor)
            tx.rows("lift_floor", fence=str(floor))
            ((in_force,),) = tx.rows("meta", key="fence_high")
            return int(in_force)

    def _grant(self, tx: Transaction, claim: Claim, *, keys: list[tuple[str, str]], locked: list[Row]) -> Lease:
        ((stored, floor, clock_us),) = tx.rows("fence_facts", keys=json.dumps(keys))
        fence = rules.next_fence(stored, floor, clock_us)
        assert all(fence > row[2] for row in locked), "a fence only rises"
        tx.remember(fence)
        gates = tuple(dict.fromkeys((*claim.gates, *_owed(locked))))
        tx.rows("insert_lease", **_values(claim), fence=fence)
        taken = tx.rows("take_resources", keys=json.dumps(keys), id=claim.id, fence=fence, owed_gates=json.dumps(gates))
        assert len(taken) == len(keys), "all resources are granted, or none"
        return Lease(
            id=claim.id,
            tenant=claim.tenant,
            resources=tuple(name for _, name in keys),
            fence=fence,
            run_id=claim.run_id,
            store=self._store_id,
            ttl_seconds=claim.ttl_seconds,
            gates=gates,
        )

    def _lease(self, held: Held, *, gates: tuple[str, ...]) -> Lease:
        """Rebuild the grant whose answer was lost on the way."""
        return Lease(
            id=held.id,
            tenant=held.tenant,
            resources=held.resources,
            fence=held.fence,
            run_id=held.run_id,
            store=self._store_id,
            ttl_seconds=held.ttl_seconds,
            gates=gates,
        )


def _still_ours(rows: list[Row], lease: Lease) -> None:
    if not rows:
        raise LeaseLost(f"the lease on {' '.join(lease.resources)} with fence {lease.fence} is no longer held.")


def _own(holders: list[Held], claim: Claim) -> Held | None:
    return next((held for held in holders if held.id == claim.id), None)


def _refusal(
    tx: Transaction,
    *,
    keys: list[tuple[str, str]],
    holders: list[Held],
    dead: Collection[str],
    ticket: str | None,
) -> Refused | None:
    blocking = rules.blockers(holders, dead)
    waiters = [_waiter(row) for row in tx.rows("waiters_on", keys=json.dumps(keys))]
    before = rules.ahead(waiters, ticket, dead)
    return Refused(blocking, before) if blocking or before else None


def _lost(tx: Transaction, keys: list[tuple[str, str]]) -> tuple[Held, ...]:
    return tuple(_leases(tx.rows("lost_on", keys=json.dumps(keys))))


def _owed(locked: list[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gate for row in locked for gate in json.loads(row[3])))


def _values(claim: Claim) -> dict[str, object]:
    """Spell a claim as the columns of its row."""
    process = claim.supervisor
    return {
        "id": claim.id,
        "tenant": claim.tenant,
        "resources": json.dumps(rules.keys_of(claim.tenant, claim.resources)),
        "run_id": claim.run_id,
        "holder": claim.holder,
        "label": claim.label,
        "host": process.host.name,
        "machine": process.host.machine,
        "boot": process.host.boot,
        "pid_namespace": process.host.pid_namespace,
        "pid": process.pid,
        "pid_started": process.started,
        "guard_pid": claim.guard.pid if claim.guard else None,
        "guard_started": claim.guard.started if claim.guard else None,
        "cgroup": claim.cgroup,
        "ttl_ms": round(claim.ttl_seconds * 1000),
    }


def _leases(rows: list[Row]) -> list[Held]:
    return [_held(row) for row in rows]


def _held(row: Row) -> Held:
    """Read a row of the view lease_fact."""
    (id_, tenant, resources, fence, run_id, holder, label, *where, guard_pid, guard_started, cgroup) = row[:16]
    ttl_ms, renewals, granted_us, started_us, expires_us, remaining_ns, lost = row[16:]
    process = _process(where)
    return Held(
        id=id_,
        tenant=tenant,
        resources=_names(resources),
        fence=fence,
        run_id=run_id,
        holder=holder,
        label=label,
        supervisor=process,
        guard=ProcessId(process.host, guard_pid, guard_started) if guard_pid else None,
        cgroup=cgroup,
        ttl_seconds=ttl_ms / 1000,
        renewals=renewals,
        granted_us=granted_us,
        started_us=started_us,
        expires_us=expires_us,
        remaining_seconds=remaining_ns / 1e9,
        lost=bool(lost),
    )


def _waiter(row: Row) -> Waiter:
    """Read a row of the view waiter_fact."""
    (_, id_, tenant, resources, run_id, label, *where, since_us, stale) = row
    return Waiter(
        id=id_,
        tenant=tenant,
        resources=_names(resources),
        run_id=run_id,
        label=label,
        process=_process(where),
        since_us=since_us,
        stale=bool(stale),
    )


def _process(where: list[object]) -> ProcessId:
    host, machine, boot, pid_namespace, pid, started = where
    return ProcessId(Host(str(host), str(machine), str(boot), str(pid_namespace)), int(str(pid)), str(started))


def _names(resources: str) -> tuple[str, ...]:
    return tuple(name for _, name in json.loads(resources))
