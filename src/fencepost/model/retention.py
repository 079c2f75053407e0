"""How long records are kept, and what is kept longer because something still rests on it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.instants import MICROSECOND

RETENTION_MIN = timedelta(days=1)
# Budgets count a month, and a run that waited in the queue is judged by the month in which it was asked for.
SPENDING_KEPT_FOR = timedelta(days=64)
# What has ended for so long is looked at by no budget of a day or an hour, and seldom by a person.
MOVED_AFTER = timedelta(days=2)
# A new tzdata looks at the slots of the last two days before the cursor again, and must find what it knows of them.
BESIDE_CURSOR = timedelta(days=3)


def check_retention(kept_for: timedelta) -> timedelta:
    """Refuse to keep records for too short a time to be looked at."""
    if kept_for < RETENTION_MIN:
        raise Invalid("retention is at least 1d: a person must have the time to look at what ended badly.")
    return kept_for


class PastBounds(NamedTuple):
    """Which runs are past: those that ended, and were counted for the budgets, up to these instants."""

    ended_us: int
    spending_us: int  # only of those that cost something


def past_bounds(now_us: int) -> PastBounds:
    """Return which runs no policy looks at any more."""
    return PastBounds(now_us - MOVED_AFTER // MICROSECOND, now_us - SPENDING_KEPT_FOR // MICROSECOND)


@dataclass(frozen=True, slots=True)
class Horizon:
    """Which records of a tenant may go now: what is older than `horizon_us` and needed by nothing."""

    tenant: str
    now_us: int
    kept_for: timedelta

    @property
    def horizon_us(self) -> int:
        """What ended, and what was decided, up to this instant is old."""
        return self.now_us - self.kept_for_us

    @property
    def kept_for_us(self) -> int:
        """The retention as the store keeps it."""
        return self.kept_for // MICROSECOND

    @property
    def spending_us(self) -> int:
        """What was spent after this instant may still count against a budget."""
        return self.now_us - SPENDING_KEPT_FOR // MICROSECOND

    @property
    def leases_us(self) -> int:
        """What was lost up to this instant is forgotten; until then a worker on its machine may end what is left."""
        return self.now_us - max(self.kept_for, RETENTION_MIN) // MICROSECOND

    def ticks_until_us(self, cursor_us: int) -> int:
        """Return up to where a schedule's ticks may go: those beside its cursor stay, however old they are."""
        return min(self.horizon_us, cursor_us - BESIDE_CURSOR // MICROSECOND)
