"""A cron expression in a time zone: what becomes of slots that do not exist, or exist twice.

All in whole seconds since 1970: UTC instants, and wall seconds, which are UTC plus the segment's offset.
Each fold policy is one stretch of wall time per segment, so nothing here walks a clock.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from fencepost.model.cron import Cron
from fencepost.model.zone import DUSK, YEAR_SECONDS, Segment, Zone

# Calendar and zone rules repeat after 400 years; listed jumps (Casablanca's) end well before the year 2100.
SEARCH_SECONDS = 600 * YEAR_SECONDS


class DstGap(StrEnum):
    """What becomes of a slot that the clock jumps over."""

    SKIP = "skip"
    SHIFT = "shift"


class DstFold(StrEnum):
    """Which of two equal slots count when the clock goes back."""

    AUTO = "auto"
    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class Slot(NamedTuple):
    """A wall second with its instant; in a gap, the instant at which the gap ends."""

    wall: int
    fold: int
    at: int
    missing: bool
    twice: bool


class ZonedCron:
    """The instants of a cron expression in a zone, under the two policies."""

    __slots__ = ("_first_only", "_last_only", "_shifts", "cron", "fold", "zone")

    def __init__(self, cron: Cron, zone: Zone, gap: DstGap = DstGap.SKIP, fold: DstFold = DstFold.AUTO) -> None:
        self.cron, self.zone = cron, zone
        if fold is DstFold.AUTO:
            fold = DstFold.BOTH if cron.hour_star else DstFold.FIRST
        self.fold = fold
        self._shifts = gap is DstGap.SHIFT
        self._first_only = fold is DstFold.FIRST
        self._last_only = fold is DstFold.LAST

    def instants(self, start: int, end: int) -> Iterator[int]:
        """Yield the instants in [start, end), oldest first."""
        found: int | None = None
        for segment in self.zone.segments(start, end):
            if self._shifts and start <= segment.begins and self.only_shifted(segment):
                yield segment.begins
            low, high = self.stretch(segment, start, end)
            if found is None or not segment.begins + segment.before <= low <= found:
                found = self.cron.next_slot(low)
            if found is None:
                return
            if found < high:
                yield from self.cron.slots(found, high, segment.offset)
                found = None

    def skipped(self, start: int, end: int) -> Iterator[Slot]:
        """Yield the missing slots whose gap ends in [start, end); none if they are shifted."""
        for segment in self._gaps(start, end):
            for wall in self.cron.slots(*segment.gap):
                yield Slot(wall, 0, segment.begins, missing=True, twice=False)

    def slots(self, start: int, end: int) -> Iterator[Slot]:
        """Yield slots that fire in [start, end) and missing ones whose gap ends there, oldest first."""
        for segment in self.zone.segments(start, end):
            first, last = max(start, segment.begins), min(end, segment.ends)
            if first == segment.begins:
                yield from self.skipped(first, first + 1)
            for at in self.instants(first, last):
                yield self._slot(segment, at)

    def next(self, start: int) -> Slot | None:
        """Return the first slot that fires at or after an instant."""
        found: int | None = None
        for segment in self.zone.segments(start, start + SEARCH_SECONDS):
            if self._shifts and start <= segment.begins and self.only_shifted(segment):
                return self._slot(segment, segment.begins)
            low, high = self.stretch(segment, start, DUSK)
            if found is None or not segment.begins + segment.before <= low <= found:
                found = self.cron.next_slot(low)
            if found is None:
                return None
            if found < high:
                return self._slot(segment, found - segment.offset)
        return None

    def last(self, end: int) -> Slot | None:
        """Return the last slot that fires before an instant."""
        for segment in self.zone.segments_back(end):
            low, high = self.stretch(segment, segment.begins, end)
            found = self.cron.last_slot(high) if low < high else None
            if found is not None and found >= low:
                return self._slot(segment, found - segment.offset)
            if self.only_shifted(segment):
                return self._slot(segment, segment.begins)
            if segment.begins < end - SEARCH_SECONDS:
                return None
        return None

    def count(self, start: int, end: int) -> int:
        """Return how many instants there are in [start, end), without listing them."""
        total = 0
        for segment in self.zone.segments(start, end):
            total += self.cron.count(*self.stretch(segment, start, end))
            total += start <= segment.begins and self.only_shifted(segment)
        return total

    def count_skipped(self, start: int, end: int) -> int:
        """Return how many missing slots there are whose gap ends in [start, end)."""
        return sum(self.cron.count(*segment.gap) for segment in self._gaps(start, end))

    def _gaps(self, start: int, end: int) -> Iterator[Segment]:
        if not self._shifts:
            for segment in self.zone.segments(start, end):
                if start <= segment.begins and segment.before < segment.offset:
                    yield segment

    def stretch(self, segment: Segment, start: int, end: int) -> tuple[int, int]:
        """Return the wall seconds of a segment that count, cut to [start, end) of UTC."""
        begins, ends, offset, _, _, repeated_until, repeated_from = segment
        low = max(start, begins) + offset
        high = min(end, ends) + offset
        if self._first_only and low < repeated_until:
            low = repeated_until
        elif self._last_only and high > repeated_from:
            high = repeated_from
        return low, high

    def only_shifted(self, segment: Segment) -> bool:
        """Whether a shifted slot fires where this segment begins, and no regular one with it."""
        if not self._shifts or segment.before >= segment.offset:
            return False
        first, end = segment.gap
        missing = self.cron.next_slot(first)
        return missing is not None and missing < end and not self.cron.matches(end)

    def _slot(self, segment: Segment, at: int) -> Slot:
        wall = at + segment.offset
        if at == segment.begins and self.only_shifted(segment):
            # The first missing slot is the tick's identity: if a later tzdata takes the gap away, it is no second tick.
            return Slot(self.cron.next_slot(segment.gap[0]) or wall, 0, at, missing=False, twice=False)
        again, to_come = wall < segment.repeated_until, wall >= segment.repeated_from
        return Slot(wall, int(again), at, missing=False, twice=again or to_come)
