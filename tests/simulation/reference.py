"""What leases and fences should do, one step after the other in memory: every answer of the store must agree with it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from fencepost.model.lease import Claim, Held, Lease, keys_of
from tests.simulation.clocks import Moment
from tests.simulation.waiting import DONE, Answer, Key, Line, Timed

LOST, UNCHANGED = ("lost",), ("unchanged",)
NEAR = ("file:", "dir:")


@dataclass(slots=True)
class Entry(Timed):
    """A lease: held, or lost and not yet buried."""

    fence: int = 0
    lost: bool = False
    started: bool = False


@dataclass(slots=True)
class Reference:
    """A store that cannot crash: of each resource its fence and the gates that are owed it, and who has it or lost it."""

    floor: int = 0
    fences: dict[Key, int] = field(default_factory=dict)
    owed: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    leases: dict[str, Entry] = field(default_factory=dict)
    line: Line = field(default_factory=Line)

    def acquire(self, claim: Claim, dead: Collection[str], ticket: str | None, now: Moment) -> Answer:
        keys, mine = keys_of(claim.tenant, claim.resources), self.leases.get(claim.id)
        owed, lost = _unique(gate for key in keys for gate in self.owed.get(key, ())), self._on(keys, lost=True)
        if mine is not None and mine.lost:
            return LOST
        if mine is not None:  # asked before, and the answer did not arrive
            mine.refresh(now)
            return ("granted", mine.fence, owed, lost)
        refusal = self.look(claim, dead, ticket, now)
        if refusal != DONE:
            return refusal
        robbed, gates = self._on(keys, lost=False), _unique((*claim.gates, *owed))
        for name in robbed:
            self.leases[name].lost = True
        self.floor = fence = max(now.wall_us, self.floor + 1, *(self.fences.get(key, 0) + 1 for key in keys))
        self.fences.update(dict.fromkeys(keys, fence))
        self.owed.update(dict.fromkeys(keys, gates))
        self.leases[claim.id] = Entry.of(claim, now, fence=fence)
        self.line.sweep({ticket, *dead}, now)
        return ("granted", fence, gates, (*lost, *robbed))

    def look(self, claim: Claim, dead: Collection[str], ticket: str | None, now: Moment) -> Answer:
        keys = keys_of(claim.tenant, claim.resources)
        holders = self._on(keys, lost=False)
        if claim.id in holders:
            return DONE
        blocking = tuple(one for one in holders if one not in dead and not self.leases[one].over(now))
        ahead = self.line.ahead(keys, ticket, dead, now)
        return ("refused", blocking, ahead) if blocking or ahead else DONE

    def start(self, lease: Lease) -> Answer:
        if not self._is_held(lease):
            return LOST
        self.leases[lease.id].started = True
        return DONE

    def renew(self, lease: Lease, now: Moment) -> Answer:
        return self.leases[lease.id].refresh(now) if self._is_held(lease) else LOST

    def release(self, lease: Lease | Held, *, clean: bool, answered: bool = True) -> Answer:
        if not self._is_held(lease):
            return LOST
        entry = self.leases[lease.id]
        entry.lost = True
        if clean:
            del self.leases[lease.id]
        if clean and not entry.started and isinstance(lease, Lease) and lease.owed is not None:
            self.owed.update(dict.fromkeys(entry.keys, lease.owed))  # nothing of it can have written anywhere
        if clean and entry.started:
            for key in entry.keys:  # what was sent to another machine, and not answered, may still be on its way
                self.owed[key] = tuple(gate for gate in self.owed[key] if not answered and not gate.startswith(NEAR))
        return DONE

    def take_away(self, held: Held) -> Answer:
        return DONE if self.release(held, clean=False) == DONE else UNCHANGED

    def bury(self, lost: Held | Lease) -> Answer:
        entry = self.leases.get(lost.id)
        if entry and entry.lost and entry.fence == lost.fence:
            del self.leases[lost.id]
        return DONE

    def _is_held(self, lease: Lease | Held) -> bool:
        entry = self.leases.get(lease.id)
        return entry is not None and entry.fence == lease.fence and not entry.lost

    def _on(self, keys: list[Key], *, lost: bool) -> tuple[str, ...]:
        """Return who has or had one of these, oldest first."""
        found = [name for name, one in self.leases.items() if one.lost == lost and one.meets(keys)]
        return tuple(sorted(found, key=lambda name: (self.leases[name].fence, name)))


def _unique(gates: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gates))
