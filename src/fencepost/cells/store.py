"""The lease verbs over cells: the same ones as in every store, on one resource at a time."""

from __future__ import annotations

import os

from fencepost.cells.compare_and_swap import Exchange
from fencepost.model import cell as rules
from fencepost.model import tick_claim
from fencepost.model.cell import ROOT, Cell, CellLease, Known, Observed, Root, patience
from fencepost.model.errors import FenceRegress, Invalid, LeaseLost, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Collection, NamedTuple, Sequence
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter, key_of
from fencepost.model.tick_claim import ClaimFacts, Leave, Take
from fencepost.ports.store import StoreFacts

if TYPE_CHECKING:
    from fencepost.cells.local_memory import MemoryFolder, Remembered
    from fencepost.model.process import Host
    from fencepost.ports.cells import Cells, Read
    from fencepost.ports.clock import Clock
    from fencepost.ports.ledger import LedgerStore

TRIES = 8  # each time another caller was quicker, and what it did is judged anew
NEEDS_RUNTIME = "needs a runtime store: sqlite:/path on one machine, postgresql://… for several."


class Here(NamedTuple):
    """Who looks: the machine, its clock, and what it remembers."""

    host: Host
    clock: Clock
    memory: MemoryFolder


class Seen(NamedTuple):
    """A cell as it was read, judged by what this machine remembers."""

    observed: Observed
    read: Read
    remembered: Remembered

    @property
    def cell(self) -> Cell:
        """The document."""
        return self.observed.cell


class CellStore:
    """Leases in cells."""

    def __init__(self, cells: Cells, root: Root, here: Here, *, notices: tuple[str, ...] = ()) -> None:
        facts = cells.facts
        self._cells = cells
        self._root = root
        self._here = here
        self._exchange = Exchange(cells, here.clock)
        self._machine = _digest(f"fencepost-machine-1:{root.id}:{here.host.machine}")[:16]
        self._kept: dict[str, Read] = {}  # what we wrote last: a renewal need not read it again
        self._facts = StoreFacts(
            id=root.id,
            url=facts.url,
            kind=facts.kind,
            schema=rules.VERSION,
            counts_sleep=True,
            notices=notices,
            poll_seconds=facts.poll_seconds,
            ttl_seconds=facts.ttl_seconds,
            watches=True,
        )

    @property
    def root(self) -> Root:
        """The cell that says which store this is."""
        return self._root

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return self._facts

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        """Grant the resource with a new fence, or say who holds it; a tick that is not to be run is TickOver."""
        del ticket  # there is no queue
        rules.check_claim(claim)
        for _ in range(TRIES):
            seen = self._observe(claim.tenant, claim.resources[0], claim.ttl_seconds)
            answer = self._judge(seen, claim, dead)
            if answer is not None:
                return answer
        raise StoreUnavailable(f"{self._facts.url}: {claim.resources[0]} changes all the time; try again later.")

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now, writing nothing."""
        del ticket
        rules.check_claim(claim)
        seen = self._observe(claim.tenant, claim.resources[0], claim.ttl_seconds)
        lease = seen.cell.lease
        if lease is None or lease.id == claim.id or not rules.is_in_force(seen.observed, dead):
            return None
        return rules.refused(self._held(seen, lease))

    def start(self, lease: Lease) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""

        def change(cell: Cell, nonce: str) -> Cell:
            begun = rules.start(cell, lease, wall_us=self._here.clock.wall_us(), nonce=nonce)
            return _ticked(begun, lease, tick_claim.started)

        self._change(lease, change)

    def renew(self, lease: Lease) -> None:
        """Raise the beat, or raise LeaseLost."""
        self._change(lease, lambda cell, nonce: rules.renew(cell, lease, nonce=nonce))

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        """Raise the beat of each, and return what became of it; cells are changed one at a time."""
        answers = {}
        for lease in leases:
            try:
                self.renew(lease)
                answers[lease.id] = "renewed"
            except LeaseLost:
                answers[lease.id] = "lost"
        return answers

    def release(self, lease: Lease, *, clean: bool, answered: bool = True, code: int | None = None) -> None:  # noqa: ARG002  # cells keep no row
        """End the lease, or raise LeaseLost; the cell stays."""

        def change(cell: Cell, nonce: str) -> Cell:
            free = rules.release(cell, lease, clean=clean, answered=answered, machine=self._machine, nonce=nonce)
            return _ticked(free, lease, lambda record: tick_claim.ended(record, well=answered))

        self._change(lease, change)
        if clean:
            self._here.memory.change(self._name_of(lease), lambda known: known.without(lease.id))

    def count_refused(self, tenant: str) -> None:
        """Count nothing: there are no figures in cells."""

    def enqueue(self, claim: Claim, ticket: str) -> None:
        """Wait without a place: there is no queue in cells, and no promise of an order."""

    def dequeue(self, ticket: str) -> None:
        """Leave no queue."""

    def leases(self) -> list[Held]:
        """Return every lease, and the lost ones whose processes were not seen dead yet."""
        ttl = self._facts.ttl_seconds
        names = [name for name in self._exchange.names(ttl=ttl) if name != ROOT and not name.startswith(rules.PROBES)]
        found = self._exchange.read_all(names, ttl=ttl) if names else {}
        held = []
        for name, read in sorted(found.items()):
            if read.document is not None:
                try:
                    cell = self._decoded(name, read.document)
                    seen = self._judged(name, (cell.tenant, cell.resource), read)
                except (StoreUnavailable, FenceRegress) as error:
                    self._notice(str(error))
                    continue
                held += [self._held(seen, one) for one in (*cell.lost, *([cell.lease] if cell.lease else []))]
        return sorted(held, key=lambda one: one.granted_us)

    def _notice(self, words: str) -> None:
        """Say of the store that one of its cells is of no use; the others are."""
        if words not in self._facts.notices:
            self._facts = self._facts._replace(notices=(*self._facts.notices, words))

    def waiters(self) -> list[Waiter]:
        """Return nothing: who waits here, waits by looking."""
        return []

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder by hand; False if it has changed hands since it was looked at."""
        del why  # a cell has no room for notes that grow
        return self._alter(
            held.tenant, held.resources[0], lambda cell, nonce: rules.take_away(cell, held.id, held.fence, nonce=nonce)
        )

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""
        self._alter(
            lost.tenant, lost.resources[0], lambda cell, nonce: rules.bury(cell, lost.id, lost.fence, nonce=nonce)
        )
        name = cell_name(*key_of(lost.tenant, lost.resources[0]))
        self._here.memory.change(name, lambda known: known.without(lost.id))

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        """No longer owe a gate that is gone for good its fence; False if it was not owed."""
        return self._alter(tenant, resource, lambda cell, nonce: rules.forget_gate(cell, gate, nonce=nonce))

    def forget_tick(self, tenant: str, resource: str, job: str) -> bool:
        """Throw away the record of a job's ticks; False if there is none."""
        return self._alter(tenant, resource, lambda cell, nonce: rules.forget_tick(cell, job, nonce=nonce), check=False)

    def bump(self, floor: int) -> int:
        """Lift every cell's fence, and the floor that new ones begin above; return the floor now in force."""
        from fencepost.cells.root import lift_floor

        self._root = lift_floor(self._exchange, self._root, floor, ttl=self._facts.ttl_seconds)
        for name in self._exchange.names(ttl=self._facts.ttl_seconds):
            if name != ROOT and not name.startswith(rules.PROBES):
                try:
                    self._lift(name, self._root.floor)
                except StoreUnavailable as error:
                    self._notice(str(error))
        return self._root.floor

    def ledger(self) -> LedgerStore:
        """Refuse: effects that happen once are kept in a runtime store."""
        raise Invalid(f"the ledger {NEEDS_RUNTIME}")

    def close(self) -> None:
        """Let go of the store."""
        self._cells.close()

    def _judge(self, seen: Seen, claim: Claim, dead: Collection[str]) -> Granted | Refused | None:
        """Return the answer to a claim; None: another caller was quicker, look again."""
        cell = seen.cell
        if cell.lease is not None and cell.lease.id == claim.id:
            return self._again(seen, claim)
        if any(one.id == claim.id for one in cell.lost):
            raise LeaseLost(f"the lease on {cell.resource} was granted and lost; ask as a new claim.")
        over = cell.lease is not None and tick_claim.has_ended(claim.tick, cell.lease.fence)
        blocked = rules.is_in_force(seen.observed, dead) and not over
        tick = self._tick(seen, claim, blocked=blocked)
        if isinstance(tick, Leave):
            self._leave(seen, tick, blocked=blocked, ttl=claim.ttl_seconds)
            return None
        if blocked:
            assert cell.lease is not None, "it is in force"
            return rules.refused(self._held(seen, cell.lease))
        return self._grant(seen, claim, tick)

    def _tick(self, seen: Seen, claim: Claim, *, blocked: bool) -> Take | Leave | None:
        """Decide about the claim's tick; None: there is none, or only the end of the lease in force will tell."""
        if claim.tick is None:
            return None
        fence = seen.cell.lease.fence if blocked and seen.cell.lease else None
        standing = ClaimFacts(seen.cell.tick(claim.tick.job), claim.tick.wall_us(), fence, seen.read.store_us)
        decided = tick_claim.decide(claim.tick, standing)
        if blocked and isinstance(decided, Leave) and tick_claim.is_waited_for(claim.tick, decided):
            return None
        return decided

    def _leave(self, seen: Seen, leave: Leave, *, blocked: bool, ttl: float) -> None:
        """Raise TickOver, after writing down what there is to write; return if another caller was quicker."""
        if leave.record is not None and not blocked:
            before = seen.cell
            freed = (
                before
                if before.lease is None
                else rules.take_away(before, before.lease.id, before.lease.fence, nonce="")
            )
            assert freed is not None, "it is the very lease that is there"
            after = rules.with_tick(freed, leave.record)._replace(nonce=_nonce())
            if not self._put(seen, after, ttl):
                return
        raise tick_claim.over(leave)

    def _grant(self, seen: Seen, claim: Claim, tick: Take | None) -> Granted | None:
        lost = rules.predecessors(seen.cell, self._machine) if not seen.observed.absent else ()
        owes = any(one.machine in ("", self._machine) for one in seen.cell.owed)
        starts = claim.starts and not (lost or owes or claim.gates)
        granted, owed = rules.grant(
            seen.observed,
            claim,
            floor=self._root.floor,
            wall_us=self._here.clock.wall_us(),
            machine=self._machine,
            nonce=_nonce(),
            starts=starts,
        )
        if tick is not None:
            record = tick.record._replace(run=claim.run_id, host=claim.supervisor.host.name, fence=granted.fence)
            granted = rules.with_tick(granted, tick_claim.started(record) if starts else record)
        known = Known(claim.run_id, claim.supervisor, claim.guard, claim.cgroup)
        name = cell_name(granted.tenant, granted.resource)
        self._here.memory.change(name, lambda one: one.with_known(claim.id, known))
        if not self._put(seen, granted, claim.ttl_seconds):
            return None
        lease = rules.lease_of(granted, claim, store=self._root.id, machine=self._machine, owed=owed)
        before = tuple(self._held(seen, one)._replace(lost=True) for one in lost)
        return Granted(lease._replace(tick=tick.granted if tick else None), before)

    def _again(self, seen: Seen, claim: Claim) -> Granted | None:
        """Repeat the grant whose answer was lost on the way, with its full time to live."""
        renewed = seen.cell._replace(nonce=_nonce(), beat=seen.cell.beat + 1)
        if not self._put(seen, renewed, claim.ttl_seconds):
            return None
        lease = rules.lease_of(renewed, claim, store=self._root.id, machine=self._machine, owed=None)
        record = renewed.tick(claim.tick.job) if claim.tick else None
        if claim.tick is not None and record is not None and record.fence == lease.fence:
            lease = lease._replace(tick=tick_claim.granted_again(claim.tick, record))
        lost = rules.predecessors(renewed._replace(lease=None), self._machine)
        return Granted(lease, tuple(self._held(seen, one) for one in lost))

    def _put(self, seen: Seen, cell: Cell, ttl: float) -> bool:
        """Swap a cell; False if another document came first."""
        name = cell_name(cell.tenant, cell.resource)
        written = self._exchange.write(name, seen.read, rules.encode(cell), cell.nonce, ttl=ttl)
        if written.ours:
            self._kept[name] = written.now
            self._here.memory.change(name, lambda one: _remember(one, cell))
        return written.ours

    def _change(self, lease: Lease, change: Callable[[Cell, str], Cell]) -> None:
        """Change the cell of a lease that is ours, or raise LeaseLost.

        A conflict is a loss only if another lease, none, or no cell is found there.
        """
        name = self._name_of(lease)
        read = self._kept.pop(name, None) or self._exchange.read(name, ttl=lease.ttl_seconds)
        for _ in range(TRIES):
            if read.document is None:
                raise LeaseLost(f"the cell of {lease.resources[0]} is gone, and the lease with it.")
            nonce = _nonce()
            cell = change(self._decoded(name, read.document), nonce)
            written = self._exchange.write(name, read, rules.encode(cell), nonce, ttl=lease.ttl_seconds)
            if written.ours:
                self._kept[name] = written.now
                self._here.memory.change(name, lambda one: _remember(one, cell))  # noqa: B023  # called at once
                return
            read = written.now
        raise StoreUnavailable(f"{self._facts.url}: {lease.resources[0]} changes all the time; try again later.")

    def _alter(
        self, tenant: str, resource: str, change: Callable[[Cell, str], Cell | None], *, check: bool = True
    ) -> bool:
        """Change a cell, held or not; False if there is nothing to change."""
        ttl = self._facts.ttl_seconds
        for _ in range(TRIES):
            seen = self._observe(tenant, resource, ttl, check=check)
            cell = None if seen.observed.absent else change(seen.cell, _nonce())
            if cell is None:
                return False
            if self._put(seen, cell, ttl):
                return True
        raise StoreUnavailable(f"{self._facts.url}: {resource} changes all the time; try again later.")

    def _lift(self, name: str, floor: int) -> None:
        ttl = self._facts.ttl_seconds
        for _ in range(TRIES):
            read = self._exchange.read(name, ttl=ttl)
            cell = self._decoded(name, read.document) if read.document is not None else None
            if cell is None or cell.fence >= floor:
                return
            lifted = cell._replace(fence=floor, nonce=_nonce())
            if self._exchange.write(name, read, rules.encode(lifted), lifted.nonce, ttl=ttl).ours:
                return

    def _observe(self, tenant: str, resource: str, ttl: float, *, check: bool = True) -> Seen:
        key = key_of(tenant, resource)
        name = cell_name(*key)
        return self._judged(name, key, self._exchange.read(name, ttl=ttl), check=check)

    def _judged(self, name: str, key: tuple[str, str], read: Read, *, check: bool = True) -> Seen:
        """Judge what was read by what is remembered, and note when this document was first seen: after the answer came."""
        now_ns = self._here.clock.boot_ns()
        remembered = self._here.memory.cell(name)
        memory = remembered.memory
        if read.document is not None:
            cell = self._decoded(name, read.document)
            if check:
                rules.check_memory(cell, memory, where=self._facts.url)
            absent = False
        else:
            cell = rules.vanished(key, memory, remembered.ticks) if memory.fence else Cell(*key, "")
            absent = True
        sighting = rules.sighted(memory.sighting, cell.nonce, boot=self._here.host.boot, now_ns=now_ns)
        remembered = self._here.memory.change(
            name, lambda one: _sight(_remember(one, cell), sighting, needed=cell.lease is not None)
        )
        return Seen(Observed(cell, rules.stood(sighting, now_ns), absent), read, remembered)

    def _held(self, seen: Seen, lease: CellLease) -> Held:
        left = max(0.0, patience(lease.ttl_seconds) - seen.observed.stood_seconds)
        known = seen.remembered.knows(lease.id) if lease.machine == self._machine else None
        return rules.held_of(seen.cell, lease, left_seconds=left, wall_us=self._here.clock.wall_us(), known=known)

    def _name_of(self, lease: Lease) -> str:
        return cell_name(*key_of(lease.tenant, lease.resources[0]))

    def _decoded(self, name: str, document: bytes) -> Cell:
        """Read a cell, and refuse one that belongs under another name: changing it would change that other one."""
        cell = rules.decode(document, where=self._where(name))
        if cell_name(cell.tenant, cell.resource) != name:
            raise StoreUnavailable(
                f"{self._where(name)} is the cell of {cell.resource} (tenant {cell.tenant}), which belongs under another name. "
                "Another program has put it there; put back what was there before."
            )
        return cell

    def _where(self, name: str) -> str:
        return f"cell {name} in {self._facts.url}"


def _ticked(cell: Cell, lease: Lease, change: Callable[[tick_claim.TickRecord], tick_claim.TickRecord]) -> Cell:
    """Change the record of the tick that came with a lease, if it is still the one of this lease."""
    record = cell.tick(lease.tick.job) if lease.tick else None
    if record is None or record.fence != lease.fence:
        return cell
    return rules.with_tick(cell, change(record))


def _remember(one: Remembered, cell: Cell) -> Remembered:
    thrown_away = cell.resets != one.memory.resets  # by a person, here or on another machine
    ticks = cell.ticks if cell.ticks or thrown_away else one.ticks
    return one._replace(memory=rules.remembered(cell, one.memory), ticks=ticks)


def _sight(one: Remembered, sighting: rules.Sighting, *, needed: bool) -> Remembered:
    return one._replace(memory=one.memory._replace(sighting=sighting if needed else None))


def _nonce() -> str:
    return os.urandom(16).hex()


def cell_name(tenant: str, resource: str) -> str:
    """Return under which name the cell of a resource is kept."""
    return _digest(f"{tenant} {resource}")[:40]


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()
