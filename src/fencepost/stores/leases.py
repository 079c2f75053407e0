"""The lease verbs, written once for both dialects; each is one transaction.

Resources are locked first and in sorted order, leases after them, so that two verbs never wait
for each other in a circle.
"""

from __future__ import annotations

from fencepost.model import lease as rules
from fencepost.model import light_json as json
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter
from fencepost.model.light import TYPE_CHECKING, Collection
from fencepost.stores.lease_places import all_of, lock_project, project_line, wanted_by
from fencepost.stores.lease_rows import claim_values, leases_of, owed_by, waiter_of

if TYPE_CHECKING:
    from fencepost.stores.care import SqlCare
    from fencepost.stores.ledger import SqlLedger
    from fencepost.stores.transaction import Dialect, Row, Transaction


class SqlLeases:
    """LeaseStore's verbs over named statements."""

    def __init__(self, dialect: Dialect, store_id: str) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect
        self._store_id = store_id

    @property
    def dialect(self) -> Dialect:
        """How this store carries out transactions, for verbs that are kept elsewhere."""
        return self._dialect

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        """Grant all resources with one new fence, or none."""
        return self._dialect.write(lambda tx: self._acquire(tx, claim, dead=dead, ticket=ticket))

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now, writing nothing."""

        def look(tx: Transaction) -> Refused | None:
            keys = wanted_by(tx, claim)
            holders = leases_of(tx.rows("holders", keys=json.dumps(keys)))
            if _own(holders, claim):
                return None
            answer = _answer(tx, claim, keys=keys, holders=holders, dead=dead, ticket=ticket)
            return answer if isinstance(answer, Refused) else None

        return self._dialect.read(look)

    def start(self, lease: Lease) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""
        self._dialect.write(lambda tx: _still_ours(tx.rows("start", id=lease.id, fence=lease.fence), lease))

    def renew(self, lease: Lease) -> None:
        """Extend the lease by its time to live, or raise LeaseLost."""
        self._dialect.write(lambda tx: _still_ours(tx.rows("renew", id=lease.id, fence=lease.fence), lease))

    def release(self, lease: Lease, *, clean: bool, answered: bool = True) -> None:
        """End the lease, or raise LeaseLost."""
        self._dialect.write(lambda tx: give_back(tx, lease, clean=clean, answered=answered))

    def count_refused(self, tenant: str) -> None:
        """Count a write that was refused."""
        from fencepost.model.gate import WRITES_REFUSED

        counts = json.dumps([["", "", WRITES_REFUSED, 1]])
        self._dialect.write(lambda tx: tx.rows("add_meters", tenant=tenant, counts=counts))

    def enqueue(self, claim: Claim, ticket: str) -> None:
        """Join the queue for the claim's resources; joining again refreshes the place."""
        self._dialect.write(lambda tx: tx.rows("enqueue", **{**claim_values(claim), "id": ticket}))

    def dequeue(self, ticket: str) -> None:
        """Leave the queue."""
        self._dialect.write(lambda tx: tx.rows("dequeue", id=ticket))

    def leases(self) -> list[Held]:
        """Return every lease, and those lost ones whose processes nobody has seen dead yet."""
        return self._dialect.read(lambda tx: leases_of(tx.rows("all_leases")))

    def waiters(self) -> list[Waiter]:
        """Return the queue, oldest first."""
        return self._dialect.read(lambda tx: [waiter_of(row) for row in tx.rows("all_waiters")])

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder by hand; False if it has changed hands since it was looked at."""
        return self._dialect.write(lambda tx: take_away(tx, held, why=why))

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""
        self._dialect.write(lambda tx: tx.rows("forget_lost", id=lost.id, fence=lost.fence))

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        """No longer owe a gate that is gone for good its fence; False if it was not owed."""

        def forget(tx: Transaction) -> bool:
            keys = rules.keys_of(tenant, all_of(tx, resource))
            owing = [row for row in tx.rows("lock_resources", keys=json.dumps(keys)) if gate in owed_by([row])]
            for row in owing:
                kept = [one for one in owed_by([row]) if one != gate]
                tx.rows("owe", keys=json.dumps(_named([row])), owed_gates=json.dumps(kept))
            return bool(owing)

        return self._dialect.write(forget)

    def bump(self, floor: int) -> int:
        """Lift the fence floor so that every later fence is above it; return the floor now in force."""
        return self._dialect.write(lambda tx: lift(tx, floor))

    def care(self) -> SqlCare:
        """Return the verbs of the store's keeper."""
        from fencepost.stores.care import SqlCare

        return SqlCare(self._dialect)

    def ledger(self) -> SqlLedger:
        """Return the verbs of the ledger."""
        from fencepost.stores.ledger import SqlLedger

        return SqlLedger(self._dialect)

    def _acquire(
        self, tx: Transaction, claim: Claim, *, dead: Collection[str], ticket: str | None
    ) -> Granted | Refused:
        lock_project(tx, claim)
        keys = wanted_by(tx, claim)
        tx.rows("ensure_resources", keys=json.dumps(keys))
        locked = tx.rows("lock_resources", keys=json.dumps(keys))
        assert len(locked) == len(keys), "every resource has a row before it is locked"
        holders = leases_of(tx.rows("lock_holders", keys=json.dumps(keys)))
        lost = leases_of(tx.rows("lost_on", keys=json.dumps(keys)))
        mine = _own(holders, claim)
        if mine:
            return Granted(self._again(tx, mine, locked), tuple(lost))
        _check_new(claim, lost)
        answer = _answer(tx, claim, keys=keys, holders=holders, dead=dead, ticket=ticket)
        if isinstance(answer, Refused):
            return answer
        chosen = rules.keys_of(answer.tenant, answer.resources)
        idle = _owing(locked, {*chosen, *(key for held in holders for key in _keys(held))})
        if chosen != keys:  # one of several places: who is in the others is none of its business
            keys, locked = chosen, _rows_of(locked, chosen)
            holders, lost = _touching(holders, chosen), _touching(lost, [*chosen, *_named(idle)])
        for held in holders:
            tx.rows("lose", id=held.id, fence=held.fence, why="expired" if held.expired else "holder dead")
        starts = claim.starts and not (holders or lost)
        lease = self._grant(tx, answer._replace(starts=starts), keys=keys, locked=locked, idle=idle)
        tx.rows("sweep_waiters", ticket=ticket or "", dead=json.dumps(sorted(dead)))
        return Granted(lease, (*lost, *(held._replace(lost=True) for held in holders)))

    def _grant(
        self, tx: Transaction, claim: Claim, *, keys: list[tuple[str, str]], locked: list[Row], idle: list[Row]
    ) -> Lease:
        ((floor, clock_us, store_id),) = tx.rows("fence_facts")
        if store_id != self._store_id:
            raise StoreUnavailable(f"the store was restored as {store_id} while it was in use; start again.")
        fence = rules.next_fence(max(row[2] for row in (*locked, *idle)), floor, clock_us)
        tx.remember(fence)
        owed = owed_by([*locked, *idle])
        gates = tuple(dict.fromkeys((*claim.gates, *owed)))
        starts = claim.starts and not gates
        tx.rows("insert_lease", **claim_values(claim), fence=fence, starts=starts)
        taken = tx.rows("take_resources", keys=json.dumps(keys), id=claim.id, fence=fence, owed_gates=json.dumps(gates))
        assert len(taken) == len(keys), "all resources are granted, or none"
        if idle:
            tx.rows("lift_places", keys=json.dumps(_named(idle)), fence=fence)
        return Lease(
            id=claim.id,
            tenant=claim.tenant,
            resources=tuple(name for _, name in keys),
            fence=fence,
            run_id=claim.run_id,
            store=self._store_id,
            ttl_seconds=claim.ttl_seconds,
            gates=gates,
            started=starts,
            fenced=tuple(name for _, name in _named(idle)),
            owed=owed,
        )

    def _again(self, tx: Transaction, held: Held, locked: list[Row]) -> Lease:
        """Repeat the grant whose answer was lost on the way, with its full time to live.

        Writing also makes the answer as durable as a new grant's: the first one may have reached fewer disks.
        """
        tx.rows("renew", id=held.id, fence=held.fence)
        rows = [row for row in locked if row[2] == held.fence]  # its own, and those that it fences off
        return Lease(
            id=held.id,
            tenant=held.tenant,
            resources=held.resources,
            fence=held.fence,
            run_id=held.run_id,
            store=self._store_id,
            ttl_seconds=held.ttl_seconds,
            gates=owed_by(rows),
            started=held.started_us is not None,
            fenced=tuple(name for _, name in _named(rows) if name not in held.resources),
        )


def lift(tx: Transaction, floor: int) -> int:
    """Lift the fence floor while nothing is being granted; return the floor now in force."""
    tx.rows("stand_still")
    tx.remember(floor)
    tx.rows("lift_floor", fence=str(floor))
    ((in_force,),) = tx.rows("meta", key="fence_high")
    return int(in_force)


def give_back(tx: Transaction, lease: Lease, *, clean: bool, answered: bool) -> None:
    """End a lease, or raise LeaseLost; clean means that nothing of its tree is left.

    Only the clean end of an agent that was started settles what earlier grants owe to their gates: one that
    never started may not have raised them, and leaves what was owed before. And what was sent to another machine
    must have been answered.
    """
    keys = _lock(tx, lease, lease.fenced)
    if clean:
        rows = tx.rows("forget_held", id=lease.id, fence=lease.fence)
        _still_ours(rows, lease)
        settled = rows[0][1] is not None
    else:
        _still_ours(tx.rows("lose", id=lease.id, fence=lease.fence, why="ended with processes left"), lease)
        settled = False
    owed = rules.still_owed(lease.gates, answered=answered) if settled else lease.owed if clean else None
    values = {"id": lease.id, "fence": lease.fence, "owed_gates": None if owed is None else json.dumps(owed)}
    tx.rows("free_resources", keys=keys, **values)
    if settled and lease.fenced:
        fenced = rules.keys_of(lease.tenant, lease.fenced)
        tx.rows("settle_places", keys=json.dumps(fenced), fence=lease.fence)


def take_away(tx: Transaction, held: Held, *, why: str) -> bool:
    """Take a lease from its holder; False if it is in other hands by now."""
    keys = _lock(tx, held)
    lost = tx.rows("lose", id=held.id, fence=held.fence, why=why)
    tx.rows("free_resources", keys=keys, id=held.id, fence=held.fence, owed_gates=None)
    return bool(lost)


def _lock(tx: Transaction, lease: Lease | Held, fenced: tuple[str, ...] = ()) -> str:
    """Lock the resources of a lease, like every verb that locks both, before the lease itself; return its own."""
    tx.rows("lock_resources", keys=json.dumps(rules.keys_of(lease.tenant, (*lease.resources, *fenced))))
    return json.dumps(_keys(lease))


def _still_ours(rows: list[Row], lease: Lease) -> None:
    if not rows:
        raise LeaseLost(f"the lease on {' '.join(lease.resources)} with fence {lease.fence} is no longer held.")


def _own(holders: list[Held], claim: Claim) -> Held | None:
    return next((held for held in holders if held.id == claim.id), None)


def _check_new(claim: Claim, lost: list[Held]) -> None:
    """Refuse to revive a lease: this id was granted, and taken away since."""
    if any(held.id == claim.id for held in lost):
        raise LeaseLost(f"the lease on {' '.join(claim.resources)} was granted and lost; ask as a new claim.")


def _keys(lease: Lease | Held) -> list[tuple[str, str]]:
    return rules.keys_of(lease.tenant, lease.resources)


def _named(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in rows]


def _rows_of(locked: list[Row], keys: list[tuple[str, str]]) -> list[Row]:
    return [row for row in locked if (row[0], row[1]) in keys]


def _owing(locked: list[Row], taken: set[tuple[str, str]]) -> list[Row]:
    """Return the places that nobody is in and whose last holder left a gate behind that it may still write to."""
    return [row for row in locked if (row[0], row[1]) not in taken and owed_by([row])]


def _touching(leases: list[Held], keys: list[tuple[str, str]]) -> list[Held]:
    return [held for held in leases if set(_keys(held)).intersection(keys)]


def _answer(
    tx: Transaction,
    claim: Claim,
    *,
    keys: list[tuple[str, str]],
    holders: list[Held],
    dead: Collection[str],
    ticket: str | None,
) -> Claim | Refused:
    """Say who is in the way of a claim, or what it gets."""
    waiters = [waiter_of(row) for row in tx.rows("waiters_on", keys=json.dumps(keys))]
    line = [*waiters, *project_line(tx, rules.project_in(claim.resources))]
    before = rules.ahead(line, claim.turn or rules.turn_of(waiters, ticket), dead)
    if claim.slots == 1:
        blocking = rules.blockers(holders, dead)
        return Refused(blocking, before) if blocking or before else claim
    chosen = rules.choose(claim, holders, before, dead)
    if isinstance(chosen, Refused):
        return chosen
    project = rules.project_in(claim.resources)
    return claim._replace(resources=tuple(chosen if name == project else name for name in claim.resources))
