"""The lease verbs, written once for both dialects; each is one transaction.

Resources are locked first and in sorted order, leases after them, so that two verbs never wait
for each other in a circle.
"""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model import lease as rules
from fencepost.model.errors import LeaseLost
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Sequence
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter
from fencepost.ports.store import RENEWED_AT_ONCE
from fencepost.stores.guarded_commands import note_command, note_end, note_lost, note_refusal
from fencepost.stores.lease_grants import Ground, answer_to, lease_again, lift, write_grants
from fencepost.stores.lease_places import all_of, lock_project, project_line, wanted_by
from fencepost.stores.lease_rows import claim_values, freed, kept, leases_of, owed_by, still_ours, waiter_of

if TYPE_CHECKING:
    from fencepost.model.tick_claim import Leave
    from fencepost.stores.ledger import SqlLedger
    from fencepost.stores.maintenance import SqlCare
    from fencepost.stores.transaction import Dialect, Transaction

LEFT_BEHIND = "ended with processes left"


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
        """Grant all resources with one new fence, or none; a tick that is not to be run is TickOver."""
        answer = self._dialect.write(lambda tx: self._acquire(tx, claim, dead=dead, ticket=ticket))
        if isinstance(answer, (Granted, Refused)):
            return answer
        from fencepost.model.tick_claim import over

        raise over(answer)  # after what there was to record has been committed

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now, writing nothing."""

        def look(tx: Transaction) -> Refused | None:
            keys = json.dumps(wanted_by(tx, claim))
            holders = leases_of(tx.rows("holders", keys=keys))
            if any(held.id == claim.id for held in holders):
                return None
            waiters = [waiter_of(row) for row in tx.rows("waiters_on", keys=keys)]
            line = [*waiters, *project_line(tx, rules.project_in(claim.resources))]
            answer = answer_to(claim, holders, line, dead=dead, ticket=ticket)
            return answer if isinstance(answer, Refused) else None

        return self._dialect.read(look)

    def start(self, lease: Lease) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""

        def start(tx: Transaction) -> None:
            still_ours(tx, tx.rows("start_leases", leases=kept([lease])), lease)
            if lease.tick is not None:
                from fencepost.stores.guarded_ticks import note_start

                note_start(tx, lease)

        self._dialect.write(start)

    def renew(self, lease: Lease) -> None:
        """Extend the lease by its time to live, or raise LeaseLost."""
        self._dialect.write(lambda tx: _renew(tx, lease))

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        """Extend leases, and return what became of each by its id; nothing is waited for."""
        assert len(leases) <= RENEWED_AT_ONCE, "one statement is to be short"
        return self._dialect.write(lambda tx: _renew_all(tx, leases), often=True)

    def release(self, lease: Lease, *, clean: bool, answered: bool = True, code: int | None = None) -> None:
        """End the lease, or raise LeaseLost."""

        def release(tx: Transaction) -> None:
            give_back(tx, lease, clean=clean, answered=answered)
            if lease.is_command:
                note_end(tx, lease, code)

        self._dialect.write(release)

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
        """Return every lease, and those lost ones whose processes were not seen dead yet."""
        return self._dialect.read(lambda tx: leases_of(tx.rows("all_leases")))

    def waiters(self) -> list[Waiter]:
        """Return the queue, oldest first."""
        return self._dialect.read(lambda tx: [waiter_of(row) for row in tx.rows("all_waiters")])

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder by hand; False if it has changed hands since it was looked at."""
        return self._dialect.write(lambda tx: take_away(tx, held, why=why))

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""

        def bury(tx: Transaction) -> None:
            tx.rows("forget_lost", id=lost.id, fence=lost.fence)
            note_lost(tx, lost.tenant, [lost])

        self._dialect.write(bury)

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        """No longer owe a gate that is gone for good its fence; False if it was not owed."""

        def forget(tx: Transaction) -> bool:
            keys = rules.keys_of(tenant, all_of(tx, resource))
            owing = [row for row in tx.rows("lock_resources", keys=json.dumps(keys)) if gate in owed_by([row])]
            for row in owing:
                left = [one for one in owed_by([row]) if one != gate]
                tx.rows("owe", keys=json.dumps([(row[0], row[1])]), owed_gates=json.dumps(left))
            return bool(owing)

        return self._dialect.write(forget)

    def forget_tick(self, tenant: str, resource: str, job: str) -> bool:
        """Throw away the record of a job's ticks; False if there is none."""
        values = {"tenant": tenant, "resource": resource, "job": job}
        return bool(self._dialect.write(lambda tx: tx.rows("drop_tick_record", **values)))

    def bump(self, floor: int) -> int:
        """Lift the fence floor so that every later fence is above it; return the floor now in force."""
        return self._dialect.write(lambda tx: lift(tx, floor))

    def care(self) -> SqlCare:
        """Return the verbs of the store's keeper."""
        from fencepost.stores.maintenance import SqlCare

        return SqlCare(self._dialect)

    def ledger(self) -> SqlLedger:
        """Return the verbs of the ledger."""
        from fencepost.stores.ledger import SqlLedger

        return SqlLedger(self._dialect)

    def _acquire(
        self, tx: Transaction, claim: Claim, *, dead: Collection[str], ticket: str | None
    ) -> Granted | Refused | Leave:
        lock_project(tx, claim)
        keys = wanted_by(tx, claim)
        tx.rows("ensure_resources", keys=json.dumps(keys))
        locked = tx.rows("lock_resources", keys=json.dumps(keys))
        assert len(locked) == len(keys), "every resource has a row before it is locked"
        ground = Ground(tx, locked, leases_of(tx.rows("lock_holders", keys=json.dumps(keys))))
        mine = ground.holders.get(claim.id)
        if mine:
            # Writing makes the answer as durable as a new grant's: the first one may have reached fewer disks.
            tx.rows("renew_leases", leases=kept([mine]))
            lease = lease_again(mine, locked, self._store_id)._replace(is_command=claim.is_command)
            return Granted(_with_tick(tx, lease, claim), _untold(ground.lost))
        _check_new(claim, ground.lost)
        ground.look_up(self._store_id)
        take = None
        if claim.tick is not None:
            from fencepost.model.tick_claim import Leave
            from fencepost.stores.guarded_ticks import decide_tick, over_here

            holders = list(ground.holders.values())
            dead = {*dead, *over_here(claim.tick, holders)}
            decided = decide_tick(tx, claim, rules.blockers(holders, dead))
            if isinstance(decided, Leave):
                return decided
            take = decided
        answer = ground.judge(claim, keys, dead=dead, ticket=ticket)
        if isinstance(answer, Refused):
            if claim.is_command and not claim.waits:
                note_refusal(tx, claim, answer.holders)
            return answer
        write_grants(tx, [answer])
        lease = answer.lease(self._store_id)
        if claim.is_command:
            note_command(tx, lease, answer.predecessors)
        if take is not None:
            from fencepost.stores.guarded_ticks import note_claim

            lease = note_claim(tx, lease, claim, take)
        tx.rows("sweep_waiters", ticket=ticket or "", dead=json.dumps(sorted(dead)))
        return Granted(lease, answer.predecessors)


def _with_tick(tx: Transaction, lease: Lease, claim: Claim) -> Lease:
    """Return a lease that was granted before, with the tick that was claimed with it."""
    if claim.tick is None:
        return lease
    from fencepost.stores.guarded_ticks import found_claim

    return found_claim(tx, lease, claim.tick)


def _untold(lost: Sequence[Held]) -> tuple[Held, ...]:
    """Return lost leases as if no grant had met them: the first answer of this one may never have been heard."""
    return tuple(held._replace(met=False) for held in lost)


def give_back(tx: Transaction, lease: Lease, *, clean: bool, answered: bool) -> None:
    """End a lease, or raise LeaseLost; clean means that nothing of its tree is left.

    Only the clean end of an agent that was started settles what earlier grants owe to their gates: one that
    never started may not have raised them, and leaves what was owed before. And what was sent to another machine
    must have been answered.
    """
    _lock(tx, lease, lease.fenced)
    if lease.tick is not None:
        from fencepost.stores.guarded_ticks import note_end as note_tick_end

        note_tick_end(tx, lease, well=answered)
    if clean:
        rows = tx.rows("forget_leases", leases=kept([lease]))
        still_ours(tx, rows, lease)
        settled = rows[0][1] is not None
    else:
        rows = tx.rows("lose_leases", leases=kept([lease]), why=LEFT_BEHIND)
        still_ours(tx, rows, lease)
        settled = False
    free(tx, lease, rules.owed_after(lease, settled=settled, clean=clean, answered=answered))
    if settled and lease.fenced:
        fenced = rules.keys_of(lease.tenant, lease.fenced)
        tx.rows("settle_places", keys=json.dumps(fenced), fence=lease.fence)


def take_away(tx: Transaction, held: Held, *, why: str) -> bool:
    """Take a lease from its holder; False if it is in other hands by now."""
    _lock(tx, held)
    lost = tx.rows("lose_leases", leases=kept([held]), why=why)
    if lost:
        free(tx, held, None)
    return bool(lost)


def free(tx: Transaction, lease: Lease | Held, owed: Collection[str] | None) -> None:
    """Let go of what a lease is on; None: what is owed to gates stays as it is."""
    tx.later("free_resources", freed=json.dumps(freed(lease, owed)))


def _renew(tx: Transaction, lease: Lease) -> None:
    """Renew one lease, and wait for a transaction that is busy with it: one holder's renewal holds up no other."""
    rows = tx.rows("renew_leases", leases=kept([lease]))
    if not rows:
        tx.rows("lock_leases", ids=json.dumps([lease.id]))
        rows = tx.rows("renew_leases", leases=kept([lease]))
    still_ours(tx, rows, lease)


def _renew_all(tx: Transaction, leases: Sequence[Lease]) -> dict[str, str]:
    renewed = {str(row[0]) for row in tx.rows("renew_leases", leases=kept(leases))}
    others = [lease.id for lease in leases if lease.id not in renewed]
    found = {held.id: held for held in leases_of(tx.rows("leases_named", ids=json.dumps(others)))} if others else {}
    fates = {lease.id: rules.fate_of(lease, found.get(lease.id)) for lease in leases if lease.id not in renewed}
    busy = {lease_id: rules.BUSY if fate == rules.HELD else fate for lease_id, fate in fates.items()}
    return {lease.id: busy.get(lease.id, rules.RENEWED) for lease in leases}


def _lock(tx: Transaction, lease: Lease | Held, fenced: tuple[str, ...] = ()) -> None:
    """Lock the resources of a lease, like every verb that locks both, before the lease itself."""
    tx.rows("lock_resources", keys=json.dumps(rules.keys_of(lease.tenant, (*lease.resources, *fenced))))


def _check_new(claim: Claim, lost: list[Held]) -> None:
    """Refuse to revive a lease: this id was granted, and taken away since."""
    if any(held.id == claim.id for held in lost):
        raise LeaseLost(f"the lease on {' '.join(claim.resources)} was granted and lost; ask as a new claim.")
