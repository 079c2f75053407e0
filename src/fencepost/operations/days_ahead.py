"""The days ahead: which schedules tick on each, on their own walls, and where a clock change meets them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from fencepost.model.definition import ScheduleDefinition, schedule_from_json
from fencepost.model.instants import from_us, from_wall, second_at_or_after, to_instant, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.trigger import CronTrigger
from fencepost.model.zone import Zone, find_zone
from fencepost.operations.dst import effects_on
from fencepost.operations.phrases import clock
from fencepost.operations.preview import PreviewedTick, known_ahead, preview_schedule
from fencepost.operations.run_queries import Store

DAYS = 7
SCHEDULES_MAX = 500
APART_MAX = 8  # so many ticks of a day are shown one by one; more are counted
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Coming:
    """What one schedule does on one day."""

    schedule: str
    zone: str
    count: int
    first_us: int
    last_us: int
    ticks: tuple[PreviewedTick, ...]  # all of them, unless they are many
    notes: tuple[str, ...] = ()  # what the clock change does to many
    held_back: bool = False


@dataclass(frozen=True, slots=True)
class Day:
    """One day on the walls of those who have something to do on it."""

    date: date
    changes: tuple[str, ...]  # of clocks
    coming: list[Coming] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The days ahead, and what cannot be put on a day."""

    now_us: int
    days: list[Day]
    unknown: list[str]  # schedules whose next tick hangs on the end of a run
    more: bool  # there are more schedules than are shown


def look_ahead(store: Store, tenant: str) -> Ahead:
    """Return what the coming days bring."""
    look = store.reads(tenant)
    now_us = look.clock_us()
    facts = look.schedules(limit=SCHEDULES_MAX + 1)
    held_back = {one.schedule for one in look.held_back(now_us)}
    found: dict[date, list[Coming]] = defaultdict(list)
    zones: set[Zone] = set()
    unknown = []
    for one in facts[:SCHEDULES_MAX]:
        definition = schedule_from_json(one.definition)
        trigger = known_ahead(definition)
        if not definition.enabled or one.once_done:
            continue
        if trigger is None:
            unknown.append(one.name)
            continue
        zone = trigger.zone or find_zone("UTC")
        zones.add(zone)
        for day, coming in _days_of(definition, trigger, zone, from_us(now_us), held=bool({one.name, ""} & held_back)):
            found[day].append(coming)
    days = [
        Day(day, tuple(_changes(zones, day)), sorted(found[day], key=lambda one: one.first_us))
        for day in sorted(found)[:DAYS]
    ]
    return Ahead(now_us, days, unknown, len(facts) > SCHEDULES_MAX)


def _days_of(
    definition: ScheduleDefinition, trigger: CronTrigger | MergedTrigger, zone: Zone, now: datetime, *, held: bool
) -> Iterator[tuple[date, Coming]]:
    today = zone.local(now).date()
    for number in range(DAYS):
        day = today + number * ONE_DAY
        start, end = max(now, _begins(zone, day)), _begins(zone, day + ONE_DAY)
        found = _on_day(definition, trigger, zone, (start, end), held=held) if start < end else None
        if found is not None:
            yield day, found
            if definition.once and found.count:
                return


def _on_day(
    definition: ScheduleDefinition,
    trigger: CronTrigger | MergedTrigger,
    zone: Zone,
    stretch: tuple[datetime, datetime],
    *,
    held: bool,
) -> Coming | None:
    start, end = stretch
    count, missing = trigger.count_between(start, end), trigger.count_skipped(start, end)
    if not count + missing:
        return None
    if definition.once or count + missing <= APART_MAX:
        ticks = tuple(preview_schedule(definition, trigger, start, end))
        count = sum(one.disposition != "dst_gap" for one in ticks) if definition.once else count
        first, last = ticks[0].occurrence.tick_at, ticks[-1].occurrence.tick_at
        return Coming(definition.name, zone.name, count, to_us(first), to_us(last), ticks, held_back=held)
    following, before = trigger.next_after(start - timedelta(seconds=1)), trigger.last_before(end)
    crons = trigger.crons if isinstance(trigger, MergedTrigger) else (trigger,)
    notes = tuple(effect.note for cron in crons for effect in effects_on(definition.name, cron, start, end))
    first, last = (following.tick_at if following else start), (before.tick_at if before else end)
    return Coming(definition.name, zone.name, count, to_us(first), to_us(last), (), notes, held)


def _changes(zones: set[Zone], day: date) -> Iterator[str]:
    """Yield what the clocks of these zones do on a day."""
    for zone in sorted(zones, key=lambda one: one.name):
        first, last = (second_at_or_after(_begins(zone, one)) for one in (day, day + ONE_DAY))
        for segment in zone.segments(first, last):
            if first < segment.begins < last:
                way = "forward" if segment.offset > segment.before else "back"
                at = clock((to_instant(segment.begins + segment.before)).replace(tzinfo=None))
                minutes = abs(segment.offset - segment.before) // 60
                yield f"{zone.name}: clocks go {way} by {minutes} min at {at}"


def _begins(zone: Zone, day: date) -> datetime:
    wall = datetime.combine(day, time(), tzinfo=UTC).replace(tzinfo=None)
    return to_instant(zone.first_from(from_wall(wall)))
