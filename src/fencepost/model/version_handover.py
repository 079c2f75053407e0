"""From where on a new version of a schedule counts: an edit never fires again what was decided, nor loses what was not.

A version takes over at the cursor of its predecessor. Ticks that came due and that are not decided yet are the new
version's: it accounts for them by its own policies. When nothing is owed, it takes over now, so that a slot which the
edit has moved into the past is not made up for.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from fencepost.model.definition import ScheduleDefinition, trigger_of
from fencepost.model.duration import parse_duration
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import AtTrigger, CronTrigger, EveryTrigger

# A change of one of these means that `once` shall happen again; of any other, that it shall happen otherwise.
REARMING = frozenset({"cron", "every", "at", "timezone", "start", "end", "anchor", "align", "once"})

RULE = ("cron", "at", "timezone", "dst_gap", "dst_fold", "start", "end")
LOOKS_KEPT = 4096
_RULE_OF: Callable[[ScheduleDefinition], tuple[object, ...]] = attrgetter(*RULE)


class Before(NamedTuple):
    """Where the version before stands."""

    trigger: TriggerKind
    cursor: datetime
    due: datetime | None
    once_done: bool


class Start(NamedTuple):
    """Where a version starts: everything up to `cursor` is decided, and the ticker must look at `due`."""

    cursor: datetime
    due: datetime | None
    once_done: bool


def hand_over(schedule: ScheduleDefinition, before: Before | None, *, now: datetime, rearmed: bool = False) -> Start:
    """Decide where a version starts; `rearmed`: a schedule that runs `once` shall do so again."""
    once_done = before is not None and before.once_done and not rearmed
    cursor = _cursor(schedule, before, now)
    if schedule.cron and schedule.enabled and not (schedule.every or once_done):  # most are so
        return Start(cursor, _look_after(_RULE_OF(schedule), cursor), once_done)
    trigger = trigger_of(schedule)
    if not schedule.cron and not isinstance(trigger, EveryTrigger):
        cursor = _just_before(trigger, schedule, before, cursor, now)
    if not schedule.enabled or once_done:
        return Start(cursor, None, once_done)
    if isinstance(trigger, EveryTrigger):
        # Only the ticker knows the last run's end: it is asked to look at once, and finds out when it is due.
        first = trigger.due(None, applied_at=now)
        return Start(cursor, now if before else first and first.tick_at, once_done)
    return Start(cursor, _look_after(_RULE_OF(schedule), cursor), once_done)


@lru_cache(maxsize=LOOKS_KEPT)
def _look_after(rule: tuple[object, ...], cursor: datetime) -> datetime | None:
    """Find when to look next once for all schedules of a file that share a rule: they start at one moment."""
    fields: dict[str, Any] = dict(zip(RULE, rule, strict=True))
    trigger = trigger_of(ScheduleDefinition("", "", **fields))
    assert not isinstance(trigger, EveryTrigger)
    return trigger.look_after(cursor)


def ends_at(before: Before, *, now: datetime) -> datetime:
    """Return up to where a version counts that is replaced or retired now."""
    owes = before.due is not None and before.due <= now
    if owes or before.trigger is TriggerKind.EVERY:
        return before.cursor
    return max(before.cursor, now)


def _cursor(schedule: ScheduleDefinition, before: Before | None, now: datetime) -> datetime:
    if before is None:
        return now
    if schedule.kind is TriggerKind.EVERY:
        return before.cursor  # its period starts at its predecessor's tick
    if before.trigger is TriggerKind.EVERY:
        return max(before.cursor, now)
    return ends_at(before, now=now)


def _just_before(
    trigger: CronTrigger | AtTrigger | MergedTrigger,
    schedule: ScheduleDefinition,
    before: Before | None,
    cursor: datetime,
    now: datetime,
) -> datetime:
    """Let an instant that was written down a moment too late still run; after `grace` it is over.

    Beside a cron expression it does not: its ticks of that moment would come with it.
    """
    since = now - timedelta(seconds=parse_duration(schedule.grace))
    if before is not None:
        since = max(since, before.cursor + INSTANT)
    first = trigger.next_after(since - INSTANT)
    return min(cursor, first.tick_at - INSTANT) if first else cursor
