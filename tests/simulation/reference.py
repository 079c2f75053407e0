"""What leases and fences should do, in Python instead of SQL: every answer of the store must agree with it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.model.lease import Claim, Held, Lease, keys_of

Key = tuple[str, str]
Answer = tuple[object, ...]
LOST: Answer = ("lost",)
DONE: Answer = ("done",)


class Moment(NamedTuple):
    """The store's clock at the time of a verb."""

    boot: str
    awake_ns: int
    wall_us: int


@dataclass(slots=True)
class Resource:
    """The last fence, who has it, and which gates are owed a raise."""

    fence: int = 0
    holder: str | None = None
    owed: tuple[str, ...] = ()


@dataclass(slots=True)
class Entry:
    """A lease, or a place in the queue."""

    id: str
    keys: list[Key]
    ttl_ns: int
    fence: int = 0
    lost: bool = False
    started: bool = False
    boot: str = ""
    until_ns: int = 0

    def refresh(self, now: Moment) -> None:
        self.boot, self.until_ns = now.boot, now.awake_ns + self.ttl_ns

    def over(self, now: Moment) -> bool:
        return self.boot != now.boot or self.until_ns <= now.awake_ns


@dataclass(slots=True)
class Reference:
    """A store that cannot crash."""

    floor: int = 0
    resources: dict[Key, Resource] = field(default_factory=dict)
    leases: dict[str, Entry] = field(default_factory=dict)
    queue: list[Entry] = field(default_factory=list)

    def acquire(self, claim: Claim, dead: Collection[str], ticket: str | None, now: Moment) -> Answer:
        keys = keys_of(claim.tenant, claim.resources)
        rows = [self.resources.setdefault(key, Resource()) for key in keys]
        owed = tuple(gate for row in rows for gate in row.owed)
        lost = self._ids(entry for entry in self.leases.values() if entry.lost and _meet(entry.keys, keys))
        mine = self.leases.get(claim.id)
        if mine and not mine.lost and any(row.holder == claim.id for row in rows):
            mine.refresh(now)
            return ("granted", mine.fence, _unique(owed), lost)
        if mine and mine.lost and claim.id in lost:
            return LOST
        refusal = self.look(claim, dead, ticket, now)
        if refusal != DONE:
            return refusal
        holders = self._holders(keys)
        for held in holders:
            self.leases[held].lost = True
        fence = max(now.wall_us, self.floor + 1, *(row.fence + 1 for row in rows))
        gates = _unique((*claim.gates, *owed))
        self.floor = fence
        self.leases[claim.id] = entry = _entry(claim.id, claim, fence)
        entry.refresh(now)
        for row in rows:
            row.fence, row.holder, row.owed = fence, claim.id, gates
        gone = {ticket, *dead}
        self.queue = [waiter for waiter in self.queue if waiter.id not in gone and not waiter.over(now)]
        return ("granted", fence, gates, (*lost, *holders))

    def look(self, claim: Claim, dead: Collection[str], ticket: str | None, now: Moment) -> Answer:
        keys = keys_of(claim.tenant, claim.resources)
        holders = self._holders(keys)
        if claim.id in holders:
            return DONE
        blocking = tuple(held for held in holders if held not in dead and not self.leases[held].over(now))
        queue = [waiter for waiter in self.queue if _meet(waiter.keys, keys)]
        place = next((index for index, waiter in enumerate(queue) if waiter.id == ticket), len(queue))
        before = tuple(waiter.id for waiter in queue[:place] if not waiter.over(now) and waiter.id not in dead)
        return ("refused", blocking, before) if blocking or before else DONE

    def renew(self, lease: Lease, now: Moment) -> Answer:
        entry = self._held(lease)
        if entry is None:
            return LOST
        entry.refresh(now)
        return DONE

    def start(self, lease: Lease) -> Answer:
        entry = self._held(lease)
        if entry is None:
            return LOST
        entry.started = True
        return DONE

    def release(self, lease: Lease, *, clean: bool, answered: bool) -> Answer:
        if not self._lose(lease):
            return LOST
        settled = clean and self.leases[lease.id].started
        if clean:
            del self.leases[lease.id]
        far = tuple(gate for gate in lease.gates if not gate.startswith(("file:", "dir:")))
        self._free(lease, owed=() if answered else far) if settled else self._free(lease)
        return DONE

    def take_away(self, held: Held) -> bool:
        was_held = self._lose(held)
        self._free(held)
        return was_held

    def bury(self, lost: Held | Lease) -> Answer:
        entry = self.leases.get(lost.id)
        if entry and entry.lost and entry.fence == lost.fence:
            del self.leases[lost.id]
        return DONE

    def enqueue(self, claim: Claim, ticket: str, now: Moment) -> Answer:
        known = next((waiter for waiter in self.queue if waiter.id == ticket), None)
        if known is None:
            self.queue.append(known := _entry(ticket, claim, 0))
        known.refresh(now)
        return DONE

    def dequeue(self, ticket: str) -> Answer:
        self.queue = [waiter for waiter in self.queue if waiter.id != ticket]
        return DONE

    def _held(self, lease: Lease | Held) -> Entry | None:
        entry = self.leases.get(lease.id)
        return entry if entry and entry.fence == lease.fence and not entry.lost else None

    def _lose(self, lease: Lease | Held) -> bool:
        entry = self._held(lease)
        if entry is not None:
            entry.lost = True
        return entry is not None

    def _free(self, lease: Lease | Held, *, owed: tuple[str, ...] | None = None) -> None:
        for key in keys_of(lease.tenant, lease.resources):
            row = self.resources[key]
            if row.holder == lease.id and row.fence == lease.fence:
                row.holder = None
                row.owed = row.owed if owed is None else owed

    def _holders(self, keys: list[Key]) -> tuple[str, ...]:
        found = {self.resources[key].holder for key in keys if key in self.resources}
        return self._ids(entry for entry in self.leases.values() if entry.id in found and not entry.lost)

    def _ids(self, entries: Iterable[Entry]) -> tuple[str, ...]:
        return tuple(entry.id for entry in sorted(entries, key=lambda entry: (entry.fence, entry.id)))


def _entry(name: str, claim: Claim, fence: int) -> Entry:
    keys = keys_of(claim.tenant, claim.resources)
    return Entry(name, keys, round(claim.ttl_seconds * 1000) * 1_000_000, fence)


def _meet(some: list[Key], others: list[Key]) -> bool:
    return not set(some).isdisjoint(others)


def _unique(gates: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gates))
