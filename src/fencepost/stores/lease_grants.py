"""Who gets what: a claim is judged by what stands around it, and what was granted is written down together.

One claim or a hundred go the same way. Their resources are locked by then, so that no other transaction can grant them.
"""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model import lease as rules
from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Iterable, NamedTuple, Sequence
from fencepost.model.lease import Claim, Held, Lease, Refused, Waiter
from fencepost.stores.lease_places import project_line
from fencepost.stores.lease_rows import claim_values, kept, leases_of, owed_by, waiter_of

if TYPE_CHECKING:
    from fencepost.stores.transaction import Row, Transaction

Key = tuple[str, str]


class Grant(NamedTuple):
    """A claim that was granted, and whose processes may still be about."""

    claim: Claim  # with the place that it got in its project, and whether it starts at once
    fence: int
    gates: tuple[str, ...]
    owed: tuple[str, ...]
    idle: tuple[Key, ...]  # free places of its project whose last holder did not end well
    replaced: tuple[Held, ...]  # who held its resources, and has no time left or is dead
    lost: tuple[Held, ...]

    @property
    def keys(self) -> list[Key]:
        """The keys of what was granted, in the order in which they are locked."""
        return rules.keys_of(self.claim.tenant, self.claim.resources)

    @property
    def predecessors(self) -> tuple[Held, ...]:
        """All holders whose processes have to be gone before this one starts."""
        return (*self.lost, *(held._replace(lost=True) for held in self.replaced))

    def lease(self, store_id: str) -> Lease:
        """Return what the holder gets."""
        return Lease(
            id=self.claim.id,
            tenant=self.claim.tenant,
            resources=tuple(name for _, name in self.keys),
            fence=self.fence,
            run_id=self.claim.run_id,
            store=store_id,
            ttl_seconds=self.claim.ttl_seconds,
            gates=self.gates,
            started=self.claim.starts,
            fenced=tuple(name for _, name in self.idle),
            owed=self.owed,
            is_command=self.claim.is_command,
        )


class Ground:
    """What stands around claims: their resources, and who holds, held or waits for them."""

    __slots__ = ("_lines", "_tx", "_waiters", "clock_us", "fence", "floor", "holders", "lost", "rows")

    def __init__(self, tx: Transaction, locked: Iterable[Row], holders: Sequence[Held]) -> None:
        """Look around claims whose resources are locked, and whose holders can change no more."""
        self._tx = tx
        self.rows: dict[Key, Row] = {(row[0], row[1]): row for row in locked}
        self.holders = {held.id: held for held in holders}
        keys = json.dumps(list(self.rows))
        self.lost = leases_of(tx.rows("lost_on", keys=keys))
        self._waiters = [waiter_of(row) for row in tx.rows("waiters_on", keys=keys)]
        self._lines: dict[str, list[Waiter]] = {}
        self.fence = self.floor = self.clock_us = 0

    def look_up(self, store_id: str) -> None:
        """Read what a fence must be above; a transaction that halts all grants is heeded by now."""
        ((self.floor, self.clock_us, found),) = self._tx.rows("fence_facts")
        if found != store_id:
            raise StoreUnavailable(f"the store was restored as {found} while it was in use; start again.")

    def judge(
        self,
        claim: Claim,
        keys: list[Key],
        *,
        dead: Collection[str] = (),
        ticket: str | None = None,
        above: int = 0,
    ) -> Grant | Refused:
        """Say what a claim gets, or who is in its way; `keys` are all that it looks at, one of several places included."""
        holders = self.holding(keys)
        lost = touching(self.lost, keys)
        waiters = [one for one in self._waiters if set(rules.keys_of(one.tenant, one.resources)).intersection(keys)]
        line = [*waiters, *self._line(rules.project_in(claim.resources))]
        answer = answer_to(claim, holders, line, dead=dead, ticket=ticket)
        if isinstance(answer, Refused):
            return answer
        chosen = rules.keys_of(answer.tenant, answer.resources)
        taken = {*chosen, *(key for held in holders for key in rules.keys_of(held.tenant, held.resources))}
        idle = [key for key in keys if key not in taken and owed_by([self.rows[key]])]
        if chosen != keys:  # one of several places: who is in the others is none of its business
            holders, lost = self.holding(chosen), touching(lost, [*chosen, *idle])
        rows = [self.rows[key] for key in (*chosen, *idle)]
        owed = owed_by(rows)
        gates = tuple(dict.fromkeys((*claim.gates, *owed)))
        starts = claim.starts and not (holders or lost or gates)
        stored = max(above, self.fence, *(row[2] for row in rows))
        return Grant(
            answer._replace(starts=starts),
            rules.next_fence(stored, self.floor, self.clock_us),
            gates,
            owed,
            tuple(idle),
            tuple(holders),
            tuple(lost),
        )

    def take(self, grant: Grant) -> None:
        """Count a grant among the holders, so that the next claim finds it in its way."""
        self.fence = grant.fence  # the next one's is above it, so that no two of a batch are equal
        held = _as_held(grant)
        self.holders[held.id] = held
        for key in grant.keys:
            tenant, name, _, owed, _ = self.rows[key]
            self.rows[key] = (tenant, name, grant.fence, owed, held.id)
        self.pass_by(grant.claim.run_id)

    def pass_by(self, run_id: str) -> None:
        """Take a run out of the lines: it has what it waited for, or wants it no more."""
        self._lines = {name: [one for one in line if one.run_id != run_id] for name, line in self._lines.items()}

    def holding(self, keys: Iterable[Key]) -> list[Held]:
        """Return who holds any of these."""
        ids = {self.rows[key][4] for key in keys}
        return sorted(
            (held for held in self.holders.values() if held.id in ids), key=lambda held: (held.fence, held.id)
        )

    def _line(self, project: str | None) -> list[Waiter]:
        if project is None:
            return []
        if project not in self._lines:
            self._lines[project] = project_line(self._tx, project)
        return self._lines[project]


def answer_to(
    claim: Claim, holders: Sequence[Held], line: Sequence[Waiter], *, dead: Collection[str], ticket: str | None
) -> Claim | Refused:
    """Return the claim with the place that it gets, or who is in its way."""
    before = rules.ahead(line, claim.turn or rules.turn_of(line, ticket), dead)
    if claim.slots == 1:
        blocking = rules.blockers(holders, dead)
        return Refused(blocking, before) if blocking or before else claim
    chosen = rules.choose(claim, holders, before, dead)
    if isinstance(chosen, Refused):
        return chosen
    project = rules.project_in(claim.resources)
    return claim._replace(resources=tuple(chosen if name == project else name for name in claim.resources))


def write_grants(tx: Transaction, grants: Sequence[Grant]) -> None:
    """Write down leases and what they are on, and end those that stood there before."""
    replaced = {held.id: held for grant in grants for held in grant.replaced}
    for held in replaced.values():
        tx.later("lose_leases", leases=kept([held]), why="expired" if held.expired else "holder dead")
    tx.remember(max(grant.fence for grant in grants))
    leases = [{**claim_values(one.claim), "fence": one.fence, "starts": one.claim.starts} for one in grants]
    tx.later("insert_leases", leases=json.dumps(leases))
    wanted = [
        {
            "tenant": tenant,
            "name": name,
            "id": grant.claim.id,
            "fence": grant.fence,
            "owed_gates": json.dumps(grant.gates),
        }
        for grant in grants
        for tenant, name in grant.keys
    ]
    taken = tx.later("take_resources", taken=json.dumps(wanted))
    for grant in grants:
        if grant.idle:
            tx.later("lift_places", keys=json.dumps(grant.idle), fence=grant.fence)
    assert len(taken()) == len(wanted), "all resources are granted, or none"


def lease_again(held: Held, rows: Iterable[Row], store_id: str) -> Lease:
    """Spell a lease that was granted before, by its row and those of its resources."""
    mine = [row for row in rows if row[2] == held.fence]  # its own, and those that it fences off
    return Lease(
        id=held.id,
        tenant=held.tenant,
        resources=held.resources,
        fence=held.fence,
        run_id=held.run_id,
        store=store_id,
        ttl_seconds=held.ttl_seconds,
        gates=owed_by(mine),
        started=held.started_us is not None,
        fenced=tuple(row[1] for row in mine if row[1] not in held.resources),
        epoch=held.epoch,
    )


def touching(leases: Iterable[Held], keys: Iterable[Key]) -> list[Held]:
    """Return those leases that are on any of these."""
    wanted = set(keys)
    return [held for held in leases if wanted.intersection(rules.keys_of(held.tenant, held.resources))]


def _as_held(grant: Grant) -> Held:
    claim = grant.claim
    return Held(
        id=claim.id,
        tenant=claim.tenant,
        resources=tuple(name for _, name in grant.keys),
        fence=grant.fence,
        run_id=claim.run_id,
        holder=claim.holder,
        label=claim.label,
        supervisor=claim.supervisor,
        guard=claim.guard,
        cgroup=claim.cgroup,
        ttl_seconds=claim.ttl_seconds,
        renewals=0,
        granted_us=0,
        started_us=None,
        expires_us=0,
        remaining_seconds=claim.ttl_seconds,
        lost=False,
    )


def lift(tx: Transaction, floor: int) -> int:
    """Lift the fence floor while nothing is being granted; return the floor now in force."""
    tx.rows("stand_still")
    tx.remember(floor)
    tx.rows("lift_floor", fence=str(floor))
    ((in_force,),) = tx.rows("meta", key="fence_high")
    return int(in_force)
