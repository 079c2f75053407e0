"""Schedule → tick → run: decide every tick that came due and commit the decisions."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from fencepost.flow.foresight import Foresight, seen_at
from fencepost.flow.tick_rows import Meaning, Writer, meaning_of
from fencepost.model.budget import day_of, spend_of
from fencepost.model.decide import Facts, decide, decide_every
from fencepost.model.disposition import DispositionKind, Hold, Window
from fencepost.model.errors import FencepostError
from fencepost.model.instants import EPOCH, from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.occurrence import Occurrence
from fencepost.model.pause import SkipNext
from fencepost.model.trigger import AtTrigger, CronTrigger, EndedRun, EveryTrigger
from fencepost.model.tzdata_shift import Noted, Shift, shifted
from fencepost.model.zone import tzdata_version
from fencepost.ports.ticks import Around, DueSchedule, PauseRow, TickPlan, TickStore

LOOK_AGAIN = timedelta(seconds=15)  # when an `every` tick is held back: by a pause, an overlap, a budget
LOOK_AT_TROUBLE = timedelta(minutes=15)  # when a schedule cannot be decided, say because its zone is gone


@dataclass(frozen=True, slots=True)
class Ticker:
    """Makes runs of ticks."""

    store: TickStore
    new_run_id: Callable[[], str]
    batch_max: int = 500
    foresight: Foresight | None = None  # of a station that has time between two instants

    def step(self) -> int:
        """Decide what is due, in one transaction, and return how many schedules that were.

        Asking again is free: the cursor moves in the same transaction, and the store keeps one tick per
        occurrence, so two schedulers that overlap, or one that restarts, add nothing twice.
        """
        return self.store.tick(self.batch_max, self._decide, tzdata=tzdata_version())

    def prepare(self, *, now_us: int, next_due_us: int | None) -> bool:
        """Work out some of what comes due in a moment; return whether there was anything to do."""
        if self.foresight is None or not self.foresight.wants(now_us, next_due_us):
            return False
        self.foresight.look(now_us, self.store.coming)
        return True

    def _decide(self, due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
        return [self._plan(one, around) for one in due]

    def _plan(self, due: DueSchedule, around: Around) -> TickPlan:
        """Decide one schedule; one that cannot be decided is put off and told about, and stops no other."""
        foreseen = self.foresight.plan(due, around, self.new_run_id) if self.foresight else None
        if foreseen is not None:
            return foreseen
        try:
            return plan_of(due, around, self.new_run_id)
        except FencepostError as error:
            later_us = around.now_us + to_us(EPOCH + LOOK_AT_TROUBLE)
            return TickPlan(due, due.cursor_us, later_us, due.skip_next, (), (), seen=due.seen, trouble=str(error))


def plan_of(due: DueSchedule, around: Around, new_run_id: Callable[[], str]) -> TickPlan:
    """Decide one schedule and spell the decision as rows."""
    meaning = meaning_of(due.definition, due.manifest)
    if not meaning.schedule.enabled:
        return TickPlan(due, due.cursor_us, None, due.skip_next, (), (), seen=due.seen)
    now = from_us(around.now_us)
    facts = facts_of(due, meaning, around, now)
    if isinstance(meaning.trigger, EveryTrigger):
        return _plan_every(due, meaning, meaning.trigger, facts, now=now, new_run_id=new_run_id)
    shift = _shift(due, meaning.trigger, facts.cursor)
    facts = replace(facts, cursor=shift.cursor)
    decision = decide(meaning.trigger, facts, meaning.policies, now=now)
    writer = Writer(due, meaning, meaning.trigger, facts, new_run_id)
    following = meaning.trigger.look_after(decision.cursor)
    ticks = [*writer.passed_over(shift, since=from_us(due.cursor_us)), *writer.ticks(decision)]
    return TickPlan(
        due,
        cursor_us=to_us(decision.cursor),
        due_us=to_us(following) if following else None,
        skip_next=_skip_next_text(decision.skip_next),
        ticks=tuple(sorted(ticks, key=lambda tick: tick.tick_us)),
        runs=tuple(writer.runs),
        displaces=decision.displaces,
        stops=decision.stops,
        seen=_seen(meaning.trigger, decision.cursor),
        denied=decision.denied,
    )


def _shift(due: DueSchedule, trigger: CronTrigger | AtTrigger | MergedTrigger, cursor: datetime) -> Shift:
    """Find out what a new tzdata did to the local time at the cursor, which the last decision had noted."""
    if isinstance(trigger, AtTrigger):  # it is due, so it was never decided, wherever its instant lies by now
        return Shift(min(cursor, trigger.occurrence.tick_at - INSTANT))
    noted = Noted.parse(due.seen)
    if noted is None or noted.cursor_us != due.cursor_us or noted.tzdata == tzdata_version() or trigger.zone is None:
        return Shift(cursor)
    return shifted(trigger.zone, cursor, wall_was=noted.wall)


def _seen(trigger: CronTrigger | AtTrigger | MergedTrigger, cursor: datetime) -> str | None:
    if isinstance(trigger, AtTrigger) or trigger.zone is None:
        return None
    return seen_at(trigger.zone, to_us(cursor), tzdata_version())


def _plan_every(
    due: DueSchedule,
    meaning: Meaning,
    trigger: EveryTrigger,
    facts: Facts,
    *,
    now: datetime,
    new_run_id: Callable[[], str],
) -> TickPlan:
    previous = EndedRun(due.last_run, from_us(due.last_ended_us)) if due.last_run and due.last_ended_us else None
    owed = trigger.due(previous, applied_at=from_us(due.applied_us))
    unchanged = TickPlan(due, due.cursor_us, None, due.skip_next, (), (), seen=due.seen)
    if owed is None or (due.last_run and due.last_ended_us is None):
        return unchanged  # over, or its last run has not ended: the end makes it due again
    decision = decide_every(facts, meaning.policies, due_at=owed.tick_at, now=now)
    occurrence = Occurrence("UTC", owed.tick_at.replace(tzinfo=None, microsecond=0), 0, owed.tick_at)
    writer = Writer(due, meaning, AtTrigger(occurrence), facts, new_run_id, key=owed.key)
    if not decision.dispositions:
        again = unchanged._replace(due_us=to_us(now + LOOK_AGAIN if decision.waits else owed.tick_at))
        if decision.waits is DispositionKind.BUDGET and _is_news(due, owed.tick_at, meaning, now):
            return again._replace(held=writer.held(DispositionKind.BUDGET), denied=decision.denied)
        return again
    return unchanged._replace(
        cursor_us=max(due.cursor_us, to_us(decision.cursor)),
        ticks=tuple(writer.ticks(decision)),
        runs=tuple(writer.runs),
        displaces=decision.displaces,
        stops=decision.stops,
    )


def _is_news(due: DueSchedule, owed_at: datetime, meaning: Meaning, now: datetime) -> bool:
    """Tell whether a tick that waits is looked at for the first time, or for the first time on this day.

    It is looked at every few seconds, and says the same each time; once a day is enough.
    """
    looked_at = now if due.due_us is None else from_us(due.due_us) - LOOK_AGAIN
    zone = ZoneInfo(meaning.schedule.timezone or "UTC")
    return looked_at < owed_at or looked_at < day_of(now, zone).start


def facts_of(due: DueSchedule, meaning: Meaning, around: Around, now: datetime) -> Facts:
    """Gather what the policies want to know."""
    cursor = from_us(due.cursor_us)
    pauses = [*around.pauses.get(due.key, ()), *around.pauses.get((due.tenant, ""), ())]
    return Facts(
        schedule=f"{due.tenant}/{due.name}",
        trigger=meaning.schedule.kind,
        cursor=cursor,
        live=tuple(around.live.get(due.key, ())),
        spend=spend_of(around.spending.get(due.key, ()), meaning.schedule.timezone, now),
        holds=(*map(_paused, pauses), *_blackouts(meaning, cursor, now)),
        skip_next=_skip_next(due.skip_next),
        last_success=None if due.last_success_us is None else from_us(due.last_success_us),
    )


def _paused(pause: PauseRow) -> Hold:
    return Hold(Window(from_us(pause.since_us), from_us(pause.until_us)), DispositionKind.PAUSED)


def _blackouts(meaning: Meaning, cursor: datetime, now: datetime) -> Iterator[Hold]:
    if meaning.calendar is not None:
        start = max(cursor, now - meaning.policies.missed.catchup_window)
        for closed, opened in meaning.calendar.closed(start, now + INSTANT):
            yield Hold(Window(closed, opened), DispositionKind.CALENDAR)


def _skip_next(text: str | None) -> SkipNext | None:
    if text is None:
        return None
    values = json.loads(text)
    return SkipNext(from_us(values["asked_us"]), values["left"])


def _skip_next_text(skip_next: SkipNext | None) -> str | None:
    if skip_next is None or not skip_next.left:
        return None
    return json.dumps({"asked_us": to_us(skip_next.asked_at), "left": skip_next.left})
