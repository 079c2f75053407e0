"""Rules that ask for runs at times: cron, every and at.

Nothing here looks at a clock. `cron` and `at` know their ticks beforehand; `every` only knows the one
after a given end, so it can neither stop nor spin.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, TypeVar

from fencepost.model.cron import Cron, parse_cron
from fencepost.model.errors import Invalid
from fencepost.model.instants import (
    DAY,
    from_wall,
    parse_instant,
    parse_wall,
    second_after,
    second_at_or_after,
    shown,
    to_instant,
    to_instants,
    to_wall,
)
from fencepost.model.nearest_name import nearest
from fencepost.model.occurrence import Occurrence, every_key
from fencepost.model.zone import Zone, find_zone
from fencepost.model.zoned_cron import DstFold, DstGap, Slot, ZonedCron

UTC_NAME = "UTC"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Policy = TypeVar("Policy", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Bounds:
    """From when on, and until when, a trigger asks for anything: [start_at, end_at)."""

    start_at: datetime | None = None
    end_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.start_at and self.end_at and self.end_at <= self.start_at:
            raise Invalid(
                f"end ({self.end_at.isoformat()}) is not after start ({self.start_at.isoformat()}); swap them."
            )

    def clip(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """Return the part of a window that lies within."""
        return max(start, self.start_at or start), min(end, self.end_at or end)

    def hold(self, at: datetime) -> bool:
        """Whether an instant lies within."""
        return self.clip(at, at) == (at, at) and at != self.end_at


UNBOUNDED = Bounds()


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """A cron expression in a time zone."""

    cron: Cron
    zone: Zone
    gap: DstGap = DstGap.SKIP
    fold: DstFold = DstFold.AUTO
    bounds: Bounds = UNBOUNDED
    _zoned: ZonedCron = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zoned", ZonedCron(self.cron, self.zone, self.gap, self.fold))

    @property
    def zoned(self) -> ZonedCron:
        """The expression in its zone, without the bounds."""
        return self._zoned

    def has(self, at: datetime) -> bool:
        """Whether it fires at an instant."""
        found = self.next_after(at - timedelta.resolution)
        return found is not None and found.tick_at == at

    @property
    def fold_decided(self) -> DstFold:
        """What the fold policy comes to for this expression: first, last or both, never auto."""
        return self._zoned.fold

    def fold_of(self, _: Occurrence) -> DstFold:
        """Return the fold policy of one tick."""
        return self.fold_decided

    def instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield when it fires in [start, end), oldest first."""
        return to_instants(self._zoned.instants(*self._seconds(start, end)))

    def occurrences(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Yield what fires in [start, end), and the skipped slots whose gap ends there, oldest first."""
        for slot in self._zoned.slots(*self._seconds(start, end)):
            yield Occurrence.of(self.zone.name, slot)

    def skipped(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Yield only the skipped slots whose gap ends in [start, end)."""
        for slot in self._zoned.skipped(*self._seconds(start, end)):
            yield Occurrence.of(self.zone.name, slot)

    def next_after(self, at: datetime) -> Occurrence | None:
        """Return the first tick strictly later than an instant, or None if there is none in 600 years."""
        start_at = self.bounds.start_at
        first = second_at_or_after(start_at) if start_at and start_at > at else second_after(at)
        return self._within(self._zoned.next(first))

    def look_after(self, at: datetime) -> datetime | None:
        """Return when there is something to decide after an instant: a tick, or the end of a gap that swallowed slots.

        Slots that were skipped are owed a record as well, at once and not with the next tick.
        """
        following = self.next_after(at)
        tick_at = following.tick_at if following else None
        until = tick_at or self.bounds.end_at or at
        gap = next(self.skipped(at + timedelta.resolution, until), None) if at < until else None
        return gap.tick_at if gap else tick_at

    def last_before(self, at: datetime) -> Occurrence | None:
        """Return the last tick strictly before an instant, or None."""
        return self._within(self._zoned.last(second_at_or_after(min(at, self.bounds.end_at or at))))

    def count_between(self, start: datetime, end: datetime) -> int:
        """Return how many ticks fire in [start, end); the cost grows with the months in between, not with the ticks."""
        return self._zoned.count(*self._seconds(start, end))

    def count_skipped(self, start: datetime, end: datetime) -> int:
        """Return how many slots are skipped in gaps that end in [start, end)."""
        return self._zoned.count_skipped(*self._seconds(start, end))

    def period(self, tick_at: datetime) -> tuple[datetime, datetime]:
        """Return what a tick covers: [the scheduled instant before it, itself).

        Bounds do not count: the first tick after `start` covers a whole period too.
        """
        slot = self._zoned.last(second_at_or_after(tick_at))
        return (to_instant(slot.at) if slot else tick_at), tick_at

    def _within(self, slot: Slot | None) -> Occurrence | None:
        if slot is None:
            return None
        found = Occurrence.of(self.zone.name, slot)
        return found if self.bounds is UNBOUNDED or self.bounds.hold(found.tick_at) else None

    def _seconds(self, start: datetime, end: datetime) -> tuple[int, int]:
        start, end = self.bounds.clip(start, end)
        return second_at_or_after(start), second_at_or_after(end)


@dataclass(frozen=True, slots=True)
class AtTrigger:
    """One instant, once."""

    occurrence: Occurrence

    def occurrences(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Yield the instant if it lies in [start, end)."""
        if start <= self.occurrence.tick_at < end:
            yield self.occurrence

    def next_after(self, at: datetime) -> Occurrence | None:
        """Return the instant if it is still to come."""
        return self.occurrence if self.occurrence.tick_at > at else None

    def look_after(self, at: datetime) -> datetime | None:
        """Return the instant if it is still to come."""
        return self.occurrence.tick_at if self.occurrence.tick_at > at else None

    def last_before(self, at: datetime) -> Occurrence | None:
        """Return the instant if it has passed."""
        return self.occurrence if self.occurrence.tick_at < at else None

    def count_between(self, start: datetime, end: datetime) -> int:
        """Return 1 if the instant lies in [start, end)."""
        return int(start <= self.occurrence.tick_at < end)

    def period(self, tick_at: datetime) -> tuple[datetime, datetime]:
        """Return an empty period: nothing was scheduled before."""
        return tick_at, tick_at


class EndedRun(NamedTuple):
    """A run that is over, well or not."""

    run_id: str
    ended_at: datetime


class EveryTick(NamedTuple):
    """The one tick that an `every` trigger waits for."""

    key: str
    tick_at: datetime


class Align(StrEnum):
    """What an `every` keeps its distance from: the end of the last run, or its own start, a fixed rhythm."""

    END = "end"
    START = "start"


@dataclass(frozen=True, slots=True)
class EveryTrigger:
    """Once more, so long after the last end; or in a fixed rhythm, in which what a run outlasts is left out."""

    every_after: timedelta
    anchor_at: datetime | None = None
    bounds: Bounds = UNBOUNDED
    align: Align = Align.END

    def __post_init__(self) -> None:
        if self.every_after <= timedelta(0):
            raise Invalid("every takes a duration above zero, such as 15m.")

    def due(self, previous: EndedRun | None, *, applied_at: datetime) -> EveryTick | None:
        """Return the tick after a run's end, the first one at the anchor or at apply; None once the bounds are over."""
        if self.align is Align.START:
            due_at = self.beat(previous.ended_at + timedelta.resolution if previous else applied_at)
        else:
            due_at = previous.ended_at + self.every_after if previous else self.anchor_at or applied_at
            due_at = max(due_at, self.bounds.start_at or due_at)
        tick = EveryTick(every_key(previous.run_id if previous else None), due_at)
        return tick if self.bounds.hold(due_at) else None

    def beat(self, at: datetime) -> datetime:
        """Return the first instant of its fixed rhythm at or after one.

        It counts from the anchor, else from `start`, else from the beginning of 1970: the same after every apply.
        """
        begin = self.anchor_at or self.bounds.start_at or EPOCH
        at = max(at, self.anchor_at or at, self.bounds.start_at or at)
        return begin - (begin - at) // self.every_after * self.every_after

    def beats(self, at: datetime) -> Iterator[datetime]:
        """Yield the instants of its fixed rhythm at or after one, while its bounds hold."""
        with suppress(OverflowError):  # the calendar ends
            at = self.beat(at)
            while self.bounds.hold(at):
                yield at
                at += self.every_after


def cron_trigger(
    expression: str, timezone: str, *, dst_gap: str = "skip", dst_fold: str = "auto", bounds: Bounds = UNBOUNDED
) -> CronTrigger:
    """Build a cron trigger from what a user wrote."""
    gap = parse_policy(DstGap, "dst_gap", dst_gap)
    fold = parse_policy(DstFold, "dst_fold", dst_fold)
    return CronTrigger(parse_cron(expression), find_zone(timezone), gap, fold, bounds)


def at_trigger(text: str, timezone: str | None = None, *, dst_gap: str = "skip", dst_fold: str = "auto") -> AtTrigger:
    """Build a one-shot trigger from an RFC 3339 instant, or from a wall time and its zone."""
    try:
        tick_at = parse_instant(text)
    except Invalid:
        if timezone is None:
            raise
        return AtTrigger(_wall_occurrence(text, find_zone(timezone), dst_gap, dst_fold))
    return AtTrigger(Occurrence(UTC_NAME, tick_at.replace(tzinfo=None), 0, tick_at))


def _wall_occurrence(text: str, zone: Zone, dst_gap: str, dst_fold: str) -> Occurrence:
    slot = parse_wall(text).replace(microsecond=0)
    gap, fold = parse_policy(DstGap, "dst_gap", dst_gap), parse_policy(DstFold, "dst_fold", dst_fold)
    instants = zone.instants_of(from_wall(slot))
    if not instants:
        gap_end = _gap_end(zone, from_wall(slot))
        if gap is DstGap.SKIP:
            better = to_wall(gap_end + zone.segment_at(gap_end).offset).isoformat()
            raise Invalid(
                f"{shown(text)} does not exist in {zone.name}: clocks jump to {better}. Write that, or another time."
            )
        return Occurrence(zone.name, slot, 0, to_instant(gap_end))
    which = len(instants) - 1 if fold is DstFold.LAST else 0
    return Occurrence(zone.name, slot, which, to_instant(instants[which]), twice=len(instants) > 1)


def _gap_end(zone: Zone, wall: int) -> int:
    near = zone.segments(wall - 2 * DAY, wall + 2 * DAY)
    return next(segment.begins for segment in near if segment.gap[0] <= wall < segment.gap[1])


def parse_policy(kind: type[Policy], name: str, text: str) -> Policy:
    """Read one of a policy's words."""
    words = [member.value for member in kind]
    if text in words:
        return kind(text)
    near = nearest(text.lower(), words)
    hint = f" Did you mean {near}?" if near else ""
    raise Invalid(f"{name} {shown(text)} is none of {', '.join(words)}.{hint}")


def jitter_offset(jitter: timedelta, *, tenant: str, schedule: str) -> timedelta:
    """Return by how much a schedule's runs are held back: always the same, somewhere in [0, jitter).

    Only `ready_at` moves by it; ticks, keys and cursors do not.
    """
    digest = sha256(f"{len(tenant)}:{tenant}{schedule}".encode(errors="surrogatepass")).digest()
    microseconds = jitter // timedelta(microseconds=1)
    return timedelta(microseconds=int.from_bytes(digest[:8], "big") * microseconds >> 64)
