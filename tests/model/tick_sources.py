"""Made-up triggers, small enough to be obviously right."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def at(seconds: float) -> datetime:
    return EPOCH + SECOND * seconds


class Ticked(NamedTuple):
    tick_at: datetime


@dataclass
class Regular:
    """A tick at every multiple of a step, for ever; counts how often it is asked."""

    step: timedelta = SECOND
    calls: int = 0

    def count_between(self, start: datetime, end: datetime) -> int:
        self.calls += 1
        return max(0, self._at_or_after(end) - self._at_or_after(start))

    def last_before(self, at: datetime) -> Ticked:
        self.calls += 1
        return Ticked(EPOCH + self.step * (self._at_or_after(at) - 1))

    def next_after(self, at: datetime) -> Ticked:
        self.calls += 1
        return Ticked(EPOCH + self.step * ((at - EPOCH) // self.step + 1))

    def period(self, tick_at: datetime) -> tuple[datetime, datetime]:
        return self.last_before(tick_at).tick_at, tick_at

    def _at_or_after(self, at: datetime) -> int:
        return -((EPOCH - at) // self.step)


@dataclass
class Listed:
    """Just these ticks."""

    ticks: list[datetime] = field(default_factory=list)

    def count_between(self, start: datetime, end: datetime) -> int:
        return max(0, bisect_left(self.ticks, end) - bisect_left(self.ticks, start))

    def last_before(self, at: datetime) -> Ticked | None:
        place = bisect_left(self.ticks, at)
        return Ticked(self.ticks[place - 1]) if place else None

    def next_after(self, at: datetime) -> Ticked | None:
        place = bisect_right(self.ticks, at)
        return Ticked(self.ticks[place]) if place < len(self.ticks) else None

    def period(self, tick_at: datetime) -> tuple[datetime, datetime]:
        before = self.last_before(tick_at)
        return (before.tick_at if before else tick_at), tick_at
