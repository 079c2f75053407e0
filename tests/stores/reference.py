"""What a store should do, in memory and in as few lines as possible."""

from dataclasses import dataclass, field

from fencepost.model.lease import Claim, key_of

Key = tuple[str, str]


@dataclass
class Grant:
    claim: Claim
    keys: frozenset[Key]
    fence: int
    gates: frozenset[str]
    until: int
    before: dict[Key, frozenset[str]] | None = None  # what was owed; None: it was granted again, and nobody knows
    started: bool = False
    lost: bool = False


@dataclass
class Reference:
    """Leases, fences and the queue, by the book. Time is in microseconds; every answer is plain values."""

    now: int
    floor: int = 0
    fences: dict[Key, int] = field(default_factory=dict)
    owed: dict[Key, frozenset[str]] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    queue: dict[str, tuple[frozenset[Key], int]] = field(default_factory=dict)
    top: int = 0  # SQLite counts for the whole store, PostgreSQL for each resource
    whole: bool = True

    def acquire(self, claim: Claim, dead: set[str], ticket: str | None) -> object:
        keys = _keys(claim)
        mine = self.grants.get(claim.id)
        if mine:
            mine.until, mine.before = mine.until if mine.lost else self._end(claim), None
            return "lost" if mine.lost else ("granted", mine.fence, mine.gates)
        holders = [grant for grant in self.grants.values() if not grant.lost and grant.keys & keys]
        busy = {grant.claim.id for grant in holders if grant.until > self.now and grant.claim.id not in dead}
        before = self._ahead(keys, dead, ticket)
        if busy or before:
            return ("refused", busy, before)
        for grant in holders:
            grant.lost = True
        fence = max(self._highest(keys) + 1, self.now)
        owed = frozenset[str]().union(*(self.owed.get(key, frozenset()) for key in keys))
        gates = owed.union(claim.gates)
        self.top = max(self.top, fence)
        self.fences |= dict.fromkeys(keys, fence)
        self.owed |= dict.fromkeys(keys, gates)
        self.grants[claim.id] = Grant(claim, keys, fence, gates, self._end(claim), dict.fromkeys(keys, owed))
        gone = dead | {name for name, (_, until) in self.queue.items() if until <= self.now} | {ticket or ""}
        self.queue = {name: place for name, place in self.queue.items() if name not in gone}
        return ("granted", fence, gates)

    def renew(self, id_: str, fence: int) -> bool:
        if grant := self._held(id_, fence):
            grant.until = self._end(grant.claim)
        return bool(grant)

    def start(self, id_: str, fence: int) -> bool:
        if grant := self._held(id_, fence):
            grant.started = True
        return bool(grant)

    def release(self, id_: str, fence: int, *, clean: bool) -> bool:
        if grant := self._held(id_, fence):
            grant.lost = True
            if clean:
                self.owed |= dict.fromkeys(grant.keys, frozenset()) if grant.started else grant.before or {}
                del self.grants[id_]
        return bool(grant)

    def bury(self, id_: str, fence: int) -> None:
        grant = self.grants.get(id_)
        if grant and grant.lost and grant.fence == fence:
            del self.grants[id_]

    def enqueue(self, claim: Claim, ticket: str) -> None:
        keys = self.queue[ticket][0] if ticket in self.queue else _keys(claim)
        self.queue[ticket] = (keys, self._end(claim))

    def _ahead(self, keys: frozenset[Key], dead: set[str], ticket: str | None) -> list[str]:
        line = [name for name, (wanted, _) in self.queue.items() if wanted & keys]
        before = line[: line.index(ticket)] if ticket in line else line
        return [name for name in before if name not in dead and self.queue[name][1] > self.now]

    def _highest(self, keys: frozenset[Key]) -> int:
        return max(self.floor, self.top if self.whole else 0, *(self.fences.get(key, 0) for key in keys))

    def _held(self, id_: str, fence: int) -> Grant | None:
        grant = self.grants.get(id_)
        return grant if grant and not grant.lost and grant.fence == fence else None

    def _end(self, claim: Claim) -> int:
        return self.now + round(claim.ttl_seconds * 1_000_000)


def _keys(claim: Claim) -> frozenset[Key]:
    return frozenset(key_of(claim.tenant, name) for name in claim.resources)
