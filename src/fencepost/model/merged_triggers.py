"""Several triggers of one schedule, as one sequence of ticks: cron expressions in one zone, and single instants.

Two that meet at one instant are one tick. Its identity is the regular slot of a cron expression, else the earliest of
the slots that a gap has shifted there, else the instant that was written down.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from heapq import merge
from itertools import groupby, pairwise
from operator import or_

from fencepost.model.cron import Cron
from fencepost.model.errors import Invalid
from fencepost.model.instants import DAY, second_at_or_after
from fencepost.model.missed import INSTANT
from fencepost.model.occurrence import Occurrence
from fencepost.model.trigger import UNBOUNDED, UTC_NAME, AtTrigger, Bounds, CronTrigger
from fencepost.model.zone import Segment, Zone, find_zone
from fencepost.model.zoned_cron import DstFold, DstGap

CRONS_MAX = 50
ATS_MAX = 1000


@dataclass(frozen=True, slots=True)
class MergedTrigger:
    """The ticks of several triggers, each instant once; all expressions have one zone, one gap policy and one window."""

    crons: tuple[CronTrigger, ...]
    ats: tuple[AtTrigger, ...]
    _alone: tuple[Occurrence, ...] = field(init=False, repr=False, compare=False)  # instants that no expression has
    _at: tuple[datetime, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.crons) > CRONS_MAX or len(self.ats) > ATS_MAX:
            raise Invalid(f"a schedule takes up to {CRONS_MAX} cron expressions and {ATS_MAX} instants; split it.")
        alone = {one.occurrence.tick_at: one.occurrence for one in reversed(self.ats)}
        kept = [one for at, one in sorted(alone.items()) if not any(cron.has(at) for cron in self.crons)]
        object.__setattr__(self, "_alone", tuple(kept))
        object.__setattr__(self, "_at", tuple(one.tick_at for one in kept))

    @property
    def zone(self) -> Zone | None:
        """The zone whose clock changes matter to it; None if it has nothing but instants."""
        if self.crons:
            return self.crons[0].zone
        walled = next((one.occurrence.zone for one in self.ats if not _fixed(one.occurrence)), None)
        return find_zone(walled) if walled else None

    @property
    def bounds(self) -> Bounds:
        """From when on, and until when, its expressions ask for anything."""
        return self.crons[0].bounds if self.crons else UNBOUNDED

    @property
    def gap(self) -> DstGap:
        """What becomes of a slot that the clock jumps over."""
        return self.crons[0].gap if self.crons else DstGap.SKIP

    def fold_of(self, occurrence: Occurrence) -> DstFold:
        """Return the fold policy of one tick: both, if one of the triggers that have this tick says both."""
        folds = [cron.fold_decided for cron in self.crons if cron.has(occurrence.tick_at)]
        return DstFold.BOTH if DstFold.BOTH in folds or not folds else folds[0]

    def is_instant(self, occurrence: Occurrence) -> bool:
        """Whether a tick is one of the instants, and of no cron expression."""
        return occurrence in self._alone

    def instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield when it fires in [start, end), oldest first."""
        return (one.tick_at for one in self.occurrences(start, end) if not one.missing)

    def occurrences(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Yield what fires in [start, end), and the skipped slots whose gap ends there, oldest first."""
        streams: list[Iterable[Occurrence]] = [cron.occurrences(start, end) for cron in self.crons]
        streams.append(self._alone[bisect_left(self._at, start) : bisect_left(self._at, end)])
        for _, group in groupby(merge(*streams, key=_order), key=_order):
            yield self._chosen(list(group))

    def skipped(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Yield only the skipped slots whose gap ends in [start, end), each once."""
        streams = [cron.skipped(start, end) for cron in self.crons]
        for _, group in groupby(merge(*streams, key=_by_slot), key=_by_slot):
            yield next(group)

    def next_after(self, at: datetime) -> Occurrence | None:
        """Return the first tick strictly later than an instant, or None if there is none in 600 years."""
        found = [one for cron in self.crons if (one := cron.next_after(at))]
        index = bisect_left(self._at, at + INSTANT)
        return self._earliest([*found, *self._alone[index : index + 1]])

    def look_after(self, at: datetime) -> datetime | None:
        """Return when there is something to decide after an instant: a tick, or the end of a gap that swallowed slots."""
        found = [one for cron in self.crons if (one := cron.look_after(at))]
        index = bisect_left(self._at, at + INSTANT)
        return min([*found, *self._at[index : index + 1]], default=None)

    def last_before(self, at: datetime) -> Occurrence | None:
        """Return the last tick strictly before an instant, or None."""
        found = [one for cron in self.crons if (one := cron.last_before(at))]
        index = bisect_left(self._at, at)
        found += self._alone[max(0, index - 1) : index]
        newest = max((one.tick_at for one in found), default=None)
        return self._earliest([one for one in found if one.tick_at == newest])

    def count_between(self, start: datetime, end: datetime) -> int:
        """Return how many ticks fire in [start, end); the cost grows with the days in between, not with the ticks."""
        return self._count_crons(start, end) + self._count_alone(start, end)

    def count_skipped(self, start: datetime, end: datetime) -> int:
        """Return how many slots are skipped in gaps that end in [start, end)."""
        return sum(1 for _ in self.skipped(start, end))

    def period(self, tick_at: datetime) -> tuple[datetime, datetime]:
        """Return what a tick covers: [the scheduled instant before it, itself), whichever trigger that was of."""
        starts = [cron.period(tick_at)[0] for cron in self.crons]
        before = bisect_left(self._at, tick_at)
        starts += self._at[max(0, before - 1) : before]
        return max((one for one in starts if one < tick_at), default=tick_at), tick_at

    def walled(self) -> "MergedTrigger":
        """Return the part that follows the wall of the zone: what was given as an instant does not."""
        return MergedTrigger(self.crons, tuple(one for one in self.ats if not _fixed(one.occurrence)))

    def fixed(self, start: datetime, end: datetime) -> Sequence[Occurrence]:
        """Return the ticks in [start, end) that were given as instants, and that no clock change can move."""
        near = self._alone[bisect_left(self._at, start) : bisect_left(self._at, end)]
        return [one for one in near if _fixed(one)]

    def _earliest(self, found: Sequence[Occurrence]) -> Occurrence | None:
        first = min((one.tick_at for one in found), default=None)
        return self._chosen([one for one in found if one.tick_at == first]) if found else None

    def _chosen(self, same: Sequence[Occurrence]) -> Occurrence:
        """Return which identity the tick of an instant has: the regular slot, else the first that was shifted there."""
        if len(same) == 1 or self.zone is None or same[0].missing:
            return same[0]
        wall = self.zone.local(same[0].tick_at).replace(tzinfo=None)
        return min(same, key=lambda one: (one.slot != wall, one.slot))

    def _count_alone(self, start: datetime, end: datetime) -> int:
        return max(0, bisect_left(self._at, end) - bisect_left(self._at, start))

    def _count_crons(self, start: datetime, end: datetime) -> int:
        if not self.crons:
            return 0
        start, end = self.crons[0].bounds.clip(start, end)
        first, last = second_at_or_after(start), second_at_or_after(end)
        zone = self.crons[0].zone
        return sum(self._count_segment(segment, first, last) for segment in zone.segments(first, last))

    def _count_segment(self, segment: Segment, start: int, end: int) -> int:
        """Count where local time runs straight; the fold policies may let expressions count in different parts of it."""
        stretches = [(cron.zoned.stretch(segment, start, end), cron.cron) for cron in self.crons]
        live = [(low, high, cron) for (low, high), cron in stretches if low < high]
        edges = sorted({edge for low, high, _ in live for edge in (low, high)})
        total = sum(
            count_union([cron for low, high, cron in live if low <= begin and finish <= high], begin, finish)
            for begin, finish in pairwise(edges)
        )
        return total + (start <= segment.begins and self._only_shifted(segment))

    def _only_shifted(self, segment: Segment) -> bool:
        """Whether a slot is shifted to where this segment begins, and no expression has a regular one there."""
        regular = any(cron.cron.matches(segment.begins + segment.offset) for cron in self.crons)
        return not regular and any(cron.zoned.only_shifted(segment) for cron in self.crons)


def count_union(crons: Sequence[Cron], start: int, end: int) -> int:
    """Return how many wall seconds in [start, end) match at least one of the expressions, without listing them."""
    if len(crons) < 2:  # noqa: PLR2004  # nothing to join
        return sum(cron.count(start, end) for cron in crons)
    first, last = start // DAY, (end - 1) // DAY
    matching: dict[int, int] = {}
    for number, cron in enumerate(crons):
        for day in cron.days(first, last):
            matching[day] = matching.get(day, 0) | 1 << number
    slots = {which: _slots_of(crons, which) for which in set(matching.values())}
    total = sum(slots[which].bit_count() * days for which, days in Counter(matching.values()).items())
    total -= (slots.get(matching.get(first, 0), 0) & (1 << start - first * DAY) - 1).bit_count()
    return total - (slots.get(matching.get(last, 0), 0) >> end - last * DAY).bit_count()


def _slots_of(crons: Sequence[Cron], which: int) -> int:
    """Return the seconds of a day, as bits, on which the chosen expressions match."""
    return reduce(or_, (cron.seconds_of_day for number, cron in enumerate(crons) if which >> number & 1))


def _fixed(one: Occurrence) -> bool:
    return one.zone == UTC_NAME


def _order(one: Occurrence) -> tuple[datetime, bool, datetime | None]:
    """Put skipped slots before what fires when their gap ends, one after the other."""
    return one.tick_at, not one.missing, one.slot if one.missing else None


def _by_slot(one: Occurrence) -> tuple[datetime, datetime]:
    return one.tick_at, one.slot
