"""What a cron expression or a schedule will do in a time zone, with the days on which clocks change in words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from fencepost.model.definition import ScheduleDefinition, calendar_of, trigger_of
from fencepost.model.errors import Invalid
from fencepost.model.instants import (
    from_wall,
    parse_instant,
    parse_wall,
    second_at_or_after,
    shown,
    to_instant,
)
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.occurrence import Occurrence
from fencepost.model.trigger import AtTrigger, CronTrigger, EveryTrigger, cron_trigger
from fencepost.model.zone import Zone
from fencepost.model.zoned_cron import DstFold, DstGap, Slot, ZonedCron

LISTED_MAX = 10_000_000
MISSING_APART_MAX = 3  # so many missing slots of one gap are shown one by one; more are shown as a range
HORIZON = timedelta(days=146_097)  # 400 years, after which the calendar repeats


@dataclass(frozen=True, slots=True)
class PreviewedTick:
    """A tick to come, or missing slots, and a word on what the clock change does to it."""

    occurrence: Occurrence
    until: Occurrence  # the last of a range of missing slots; else the occurrence itself
    count: int
    note: str
    closed: bool = False  # the calendar leaves it out

    @property
    def disposition(self) -> str:
        """What becomes of it."""
        return "dst_gap" if self.occurrence.missing else "calendar" if self.closed else "fired"


class PreviewWindow(NamedTuple):
    """Everything in [start, end): instants in UTC seconds, and missing slots."""

    fired: Iterator[int]
    skipped: Iterator[Slot]


def preview(
    trigger: CronTrigger | MergedTrigger, start: datetime, end: datetime | None = None
) -> Iterator[PreviewedTick]:
    """Yield what happens from `start` on, oldest first; lazily, so take as many as you like."""
    end = end or start + min(HORIZON, datetime.max.replace(tzinfo=start.tzinfo) - start)
    for gap_end, group in groupby(trigger.occurrences(start, end), _gap_end):
        occurrences = iter(group)
        if gap_end is None:
            yield from (PreviewedTick(each, each, 1, _note(trigger, each)) for each in occurrences)
        else:
            yield from _missing(list(occurrences))


def preview_schedule(
    schedule: ScheduleDefinition, trigger: CronTrigger | MergedTrigger, start: datetime, end: datetime | None = None
) -> Iterator[PreviewedTick]:
    """Yield what a schedule's triggers and its calendar come to, from `start` on, oldest first.

    One that runs once has no ticks after its first that can start something.
    """
    calendar = calendar_of(schedule)
    for line in preview(trigger, start, end):
        entry = calendar.covering(line.occurrence.tick_at) if calendar and not line.occurrence.missing else None
        found = replace(line, note=f"calendar, {entry}", closed=True) if entry else line
        if schedule.once and found.disposition == "fired":
            yield replace(found, note=", ".join(part for part in (found.note, "once") if part))
            return
        yield found


def known_ahead(schedule: ScheduleDefinition) -> CronTrigger | MergedTrigger | None:
    """Return what a schedule's ticks come from; None under `every`, whose next tick hangs on the end of a run."""
    trigger = trigger_of(schedule)
    if isinstance(trigger, EveryTrigger):
        return None
    return MergedTrigger((), (trigger,)) if isinstance(trigger, AtTrigger) else trigger


def window(
    expr: str, zone: str, start: str, end: str, *, dst_gap: str = "skip", dst_fold: str = "auto"
) -> PreviewWindow:
    """Return the ticks and the missing slots of a window; whatever is wrong is said before anything is listed."""
    trigger = cron_trigger(expr, zone, dst_gap=dst_gap, dst_fold=dst_fold)
    first, last = parse_instant(start), parse_instant(end)
    if last < first:
        raise Invalid(f"end {end!r} is before start {start!r}; swap them.")
    owed = trigger.count_between(first, last) + trigger.count_skipped(first, last)
    if owed > LISTED_MAX:
        raise Invalid(f"the window holds {owed:,} ticks, more than {LISTED_MAX:,}; ask for a shorter one.")
    zoned = ZonedCron(trigger.cron, trigger.zone, trigger.gap, trigger.fold)
    seconds = second_at_or_after(first), second_at_or_after(last)
    return PreviewWindow(zoned.instants(*seconds), zoned.skipped(*seconds))


def parse_moment(text: str, zone: Zone) -> datetime:
    """Read an instant, or a wall time of the zone: the first of two, or the gap's end if the clock jumps over it."""
    try:
        return parse_instant(text)
    except Invalid:
        wall = from_wall(parse_wall(text))
    try:
        return to_instant(zone.first_from(wall))
    except OverflowError:  # the first day of year 1 began before it in UTC, the last of 9999 ends after it
        raise Invalid(f"{shown(text)} in {zone.name} lies outside of the years 1 to 9999 in UTC.") from None


def _gap_end(occurrence: Occurrence) -> datetime | None:
    return occurrence.tick_at if occurrence.missing else None


def _missing(occurrences: list[Occurrence]) -> Iterator[PreviewedTick]:
    if len(occurrences) <= MISSING_APART_MAX:
        for each in occurrences:
            yield PreviewedTick(each, each, 1, f"skipped, {_clock(each)} does not exist")
        return
    first, last = occurrences[0], occurrences[-1]
    note = f"{len(occurrences)} skipped, {_clock(first)} to {_clock(last)} do not exist"
    yield PreviewedTick(first, last, len(occurrences), note)


def _note(trigger: CronTrigger | MergedTrigger, occurrence: Occurrence) -> str:
    if trigger.zone is None or occurrence.zone != trigger.zone.name:
        return ""  # an instant that was given as one
    if trigger.gap is DstGap.SHIFT and occurrence.slot != trigger.zone.local(occurrence.tick_at).replace(tzinfo=None):
        return f"shifted from {_clock(occurrence)}"
    if not occurrence.twice:
        return ""
    which = "second of two" if occurrence.fold else "first of two"
    return which if trigger.fold_of(occurrence) is DstFold.BOTH else f"{which}, runs once"


def _clock(occurrence: Occurrence) -> str:
    text = occurrence.slot.strftime("%H:%M:%S")
    return text.removesuffix(":00")
