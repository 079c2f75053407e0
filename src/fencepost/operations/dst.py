"""What the coming clock changes will do to every active schedule."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from fencepost.model.definition import Trigger, schedule_from_json, trigger_of
from fencepost.model.instants import from_us, second_at_or_after, to_instant
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.trigger import CronTrigger
from fencepost.model.zone import Segment
from fencepost.model.zoned_cron import DstFold, DstGap
from fencepost.operations.phrases import clock
from fencepost.operations.run_queries import Store

SECOND = timedelta(seconds=1)
YEAR = timedelta(days=365.2425)
SCHEDULES_MAX = 100_000


class DstEffect(NamedTuple):
    """What one clock change does to one schedule."""

    schedule: str
    zone: str
    change_at: datetime
    shift_minutes: int  # how far the clock jumps; below zero it goes back
    effect: str  # skipped, shifted, first, last, or both
    ticks: int  # how many slots it concerns
    note: str


@dataclass(frozen=True, slots=True)
class Check:
    """The effects in order of time, and how many schedules were looked at."""

    now: datetime
    until: datetime
    effects: list[DstEffect]
    schedules: int


def check(store: Store, tenant: str, *, years: int) -> Check:
    """Walk the zones of all active schedules over the changes that come in so many years."""
    look = store.reads(tenant)
    now = from_us(look.clock_us())
    until = now + years * YEAR
    schedules = look.schedules(limit=SCHEDULES_MAX)
    triggers = {one.name: trigger_of(schedule_from_json(one.definition)) for one in schedules}
    crons = {name: found for name, trigger in triggers.items() if (found := _crons(trigger))}
    effects = [
        effect for name, found in crons.items() for trigger in found for effect in effects_on(name, trigger, now, until)
    ]
    effects.sort(key=lambda one: (one.change_at, one.schedule))
    return Check(now, until, effects, len(triggers))


def _crons(trigger: Trigger) -> tuple[CronTrigger, ...]:
    if isinstance(trigger, MergedTrigger):
        return trigger.crons
    return (trigger,) if isinstance(trigger, CronTrigger) else ()


def effects_on(name: str, trigger: CronTrigger, start: datetime, end: datetime) -> Iterator[DstEffect]:
    """Yield what each change in [start, end) does to one trigger; a change that it does not meet is left out."""
    first, last = second_at_or_after(start), second_at_or_after(end)
    for segment in trigger.zone.segments(first, last):
        if not first <= segment.begins < last:
            continue
        found = _gap(trigger, segment) if segment.offset > segment.before else _fold(trigger, segment)
        if found is not None:
            effect, ticks, note = found
            minutes = (segment.offset - segment.before) // 60
            yield DstEffect(name, trigger.zone.name, to_instant(segment.begins), minutes, effect, ticks, note)


def _gap(trigger: CronTrigger, segment: Segment) -> tuple[str, int, str] | None:
    at = to_instant(segment.begins)
    skips = replace(trigger, gap=DstGap.SKIP)
    count = skips.count_skipped(at, at + SECOND)
    if not count:
        return None
    slot = next(skips.skipped(at, at + SECOND)).slot
    missing = f"{clock(slot)} does not exist" if count == 1 else f"{count} slots from {clock(slot)} do not exist"
    if trigger.gap is DstGap.SKIP:
        return "skipped", count, f"{missing}: skipped"
    end = clock(trigger.zone.local(at).replace(tzinfo=None))
    regular = skips.count_between(at, at + SECOND)
    how = f"joins the tick at {end}" if regular else f"runs once at {end}"
    return "shifted", count, f"{missing}: {how}"


def _fold(trigger: CronTrigger, segment: Segment) -> tuple[str, int, str] | None:
    at, back = to_instant(segment.begins), timedelta(seconds=segment.before - segment.offset)
    both = replace(trigger, fold=DstFold.BOTH)
    count = both.count_between(at - back, at)
    if not count:
        return None
    slot = next(islice(both.occurrences(at - back, at), 1)).slot
    twice = f"{clock(slot)} comes twice" if count == 1 else f"{count} slots from {clock(slot)} come twice"
    words = {
        DstFold.FIRST: "runs the first time",
        DstFold.LAST: "runs the second time",
        DstFold.BOTH: "runs both times",
    }
    return trigger.fold_decided.value, count, f"{twice}: {words[trigger.fold_decided]}"
