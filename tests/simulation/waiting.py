"""Who waits for what, beside the reference of leases: first come, first served."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Self

from fencepost.model.lease import Claim, keys_of
from tests.simulation.clocks import Moment

Key = tuple[str, str]
Answer = tuple[object, ...]
DONE = ("done",)


@dataclass(slots=True)
class Timed:
    """What is somebody's for so long after the last sign of life."""

    keys: list[Key]
    ttl_ns: int
    until: Moment

    @classmethod
    def of(cls, claim: Claim, now: Moment, **more: Any) -> Self:  # noqa: ANN401  # what a lease has beside it
        timed = cls(keys_of(claim.tenant, claim.resources), round(claim.ttl_seconds * 1000) * 1_000_000, now, **more)
        timed.refresh(now)
        return timed

    def refresh(self, now: Moment) -> Answer:
        self.until = now._replace(awake_ns=now.awake_ns + self.ttl_ns)
        return DONE

    def over(self, now: Moment) -> bool:
        return self.until.boot != now.boot or self.until.awake_ns <= now.awake_ns

    def meets(self, keys: list[Key]) -> bool:
        return not set(self.keys).isdisjoint(keys)


@dataclass(slots=True)
class Line:
    """Tickets, in the order in which they were drawn."""

    waiters: dict[str, Timed] = field(default_factory=dict)

    def enqueue(self, claim: Claim, ticket: str, now: Moment) -> Answer:
        return self.waiters.setdefault(ticket, Timed.of(claim, now)).refresh(now)

    def dequeue(self, ticket: str) -> Answer:
        self.waiters.pop(ticket, None)
        return DONE

    def ahead(self, keys: list[Key], ticket: str | None, dead: Collection[str], now: Moment) -> tuple[str, ...]:
        """Return who came before, is alive, and wants some of the same."""
        line = [name for name, waiter in self.waiters.items() if waiter.meets(keys)]
        before = line[: line.index(ticket)] if ticket in line else line
        return tuple(name for name in before if name not in dead and not self.waiters[name].over(now))

    def sweep(self, gone: Collection[str | None], now: Moment) -> None:
        """Forget those who are served, dead or silent."""
        kept = {name: one for name, one in self.waiters.items() if name not in gone and not one.over(now)}
        self.waiters = kept
