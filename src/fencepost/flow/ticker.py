"""Schedule → tick → run: decide every tick that came due and commit the decisions."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from zoneinfo import ZoneInfo

from fencepost.model.budget import MicroUsd, Spend, day_of, month_of
from fencepost.model.calendar import Calendar
from fencepost.model.decide import Decision, Disposition, Facts, PlannedRun, Policies, decide, decide_every
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    agent_from_json,
    calendar_of,
    hash_of,
    jitter_of,
    policies_of,
    schedule_from_json,
    timeouts_of,
    trigger_of,
)
from fencepost.model.disposition import DispositionKind, Hold, Window
from fencepost.model.errors import FencepostError
from fencepost.model.lease import keys_of
from fencepost.model.missed import INSTANT
from fencepost.model.moment import EPOCH, from_us, to_us
from fencepost.model.occurrence import Occurrence, idempotency_key
from fencepost.model.overlap import OverlapRule
from fencepost.model.pause import SkipNext
from fencepost.model.shift import Noted, Shift, shifted
from fencepost.model.trigger import AtTrigger, CronTrigger, Ended, EveryTrigger, Trigger, jitter_offset
from fencepost.model.zone import tzdata_version
from fencepost.ports.ticks import Around, Counted, DueSchedule, NewRun, NewTick, PauseRow, TickPlan, TickStore

LOOK_AGAIN = timedelta(seconds=15)  # when an `every` tick is held back: by a pause, an overlap, a budget
LOOK_AT_TROUBLE = timedelta(minutes=15)  # when a schedule cannot be decided, say because its zone is gone
MEANINGS_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Ticker:
    """Makes runs of ticks."""

    store: TickStore
    new_run_id: Callable[[], str]
    batch_max: int = 500

    def step(self) -> int:
        """Decide what is due, in one transaction, and return how many schedules that were.

        Asking again is free: the cursor moves in the same transaction, and the store keeps one tick per
        occurrence, so two schedulers that overlap, or one that restarts, add nothing twice.
        """
        return self.store.tick(self.batch_max, self._decide, tzdata=tzdata_version())

    def _decide(self, due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
        return [self._plan(one, around) for one in due]

    def _plan(self, due: DueSchedule, around: Around) -> TickPlan:
        """Decide one schedule; one that cannot be decided is put off and told about, and stops nobody else's."""
        try:
            return plan_of(due, around, self.new_run_id)
        except FencepostError as error:
            later_us = around.now_us + to_us(EPOCH + LOOK_AT_TROUBLE)
            return TickPlan(due, due.cursor_us, later_us, due.skip_next, (), (), seen=due.seen, trouble=str(error))


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a schedule's definition comes to."""

    schedule: ScheduleDefinition
    agent: AgentDefinition
    trigger: Trigger
    policies: Policies
    calendar: Calendar | None
    jitter: timedelta
    manifest_hash: str


@lru_cache(maxsize=MEANINGS_KEPT)
def meaning_of(definition: str, manifest: str) -> Meaning:
    """Build a definition once for all its ticks."""
    schedule, agent = schedule_from_json(definition), agent_from_json(manifest)
    return Meaning(
        schedule,
        agent,
        trigger_of(schedule),
        policies_of(schedule, agent),
        calendar_of(schedule),
        jitter_of(schedule),
        hash_of(manifest),
    )


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
    writer = _Writer(due, meaning, meaning.trigger, facts, new_run_id)
    following = meaning.trigger.next_after(decision.cursor)
    ticks = [*writer.passed_over(shift), *writer.ticks(decision)]
    return TickPlan(
        due,
        cursor_us=to_us(decision.cursor),
        due_us=to_us(following.tick_at) if following else None,
        skip_next=_skip_next_text(decision.skip_next),
        ticks=tuple(sorted(ticks, key=lambda tick: tick.tick_us)),
        runs=tuple(writer.runs),
        displaces=decision.displaces,
        stops=decision.stops,
        seen=_seen(meaning.trigger, decision.cursor),
    )


def _shift(due: DueSchedule, trigger: CronTrigger | AtTrigger, cursor: datetime) -> Shift:
    """Find out what a new tzdata did to the local time at the cursor, which the last decision had noted."""
    if isinstance(trigger, AtTrigger):  # it is due, so it was never decided, wherever its instant lies by now
        return Shift(min(cursor, trigger.occurrence.tick_at - INSTANT))
    noted = Noted.parse(due.seen)
    if noted is None or noted.cursor_us != due.cursor_us or noted.tzdata == tzdata_version():
        return Shift(cursor)
    return shifted(trigger.zone, cursor, wall_was=noted.wall)


def _seen(trigger: CronTrigger | AtTrigger, cursor: datetime) -> str | None:
    if isinstance(trigger, AtTrigger):
        return None
    return str(Noted(to_us(cursor), tzdata_version(), trigger.zone.local(cursor).replace(tzinfo=None)))


def _plan_every(
    due: DueSchedule,
    meaning: Meaning,
    trigger: EveryTrigger,
    facts: Facts,
    *,
    now: datetime,
    new_run_id: Callable[[], str],
) -> TickPlan:
    previous = Ended(due.last_run, from_us(due.last_ended_us)) if due.last_run and due.last_ended_us else None
    owed = trigger.due(previous, applied_at=from_us(due.applied_us))
    unchanged = TickPlan(due, due.cursor_us, None, due.skip_next, (), (), seen=due.seen)
    if owed is None or (due.last_run and due.last_ended_us is None):
        return unchanged  # over, or its last run has not ended: the end makes it due again
    decision = decide_every(facts, meaning.policies, due_at=owed.tick_at, now=now)
    if not decision.dispositions:
        return unchanged._replace(due_us=to_us(now + LOOK_AGAIN if decision.waits else owed.tick_at))
    occurrence = Occurrence("UTC", owed.tick_at.replace(tzinfo=None, microsecond=0), 0, owed.tick_at)
    writer = _Writer(due, meaning, AtTrigger(occurrence), facts, new_run_id, key=owed.key)
    return unchanged._replace(
        cursor_us=max(due.cursor_us, to_us(decision.cursor)),
        ticks=tuple(writer.ticks(decision)),
        runs=tuple(writer.runs),
        displaces=decision.displaces,
        stops=decision.stops,
    )


def facts_of(due: DueSchedule, meaning: Meaning, around: Around, now: datetime) -> Facts:
    """Gather what the policies want to know."""
    cursor = from_us(due.cursor_us)
    pauses = [*around.pauses.get(due.key, ()), *around.pauses.get((due.tenant, ""), ())]
    return Facts(
        schedule=f"{due.tenant}/{due.name}",
        trigger=meaning.schedule.kind,
        cursor=cursor,
        live=tuple(around.live.get(due.key, ())),
        spend=_spend(around.spending.get(due.key, ()), meaning, now),
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


def _spend(counted: Sequence[Counted], meaning: Meaning, now: datetime) -> Spend:
    if not counted:
        return Spend()
    zone = ZoneInfo(meaning.schedule.timezone or "UTC")
    day, month = day_of(now, zone), month_of(now, zone)
    return Spend(
        day=MicroUsd(sum(one.micro for one in counted if one.at_us >= to_us(day.start))),
        month=MicroUsd(sum(one.micro for one in counted if one.at_us >= to_us(month.start))),
        counted_at=tuple(from_us(one.at_us) for one in counted),
    )


def _skip_next(text: str | None) -> SkipNext | None:
    if text is None:
        return None
    values = json.loads(text)
    return SkipNext(from_us(values["asked_us"]), values["left"])


def _skip_next_text(skip_next: SkipNext | None) -> str | None:
    if skip_next is None or not skip_next.left:
        return None
    return json.dumps({"asked_us": to_us(skip_next.asked_at), "left": skip_next.left})


class _Writer:
    """Spells one schedule's decision as rows."""

    def __init__(
        self,
        due: DueSchedule,
        meaning: Meaning,
        trigger: CronTrigger | AtTrigger,
        facts: Facts,
        new_run_id: Callable[[], str],
        *,
        key: str | None = None,
    ) -> None:
        self._due = due
        self._meaning = meaning
        self._trigger = trigger
        self._facts = facts
        self._new_run_id = new_run_id
        self._key = key
        self.runs: list[NewRun] = []

    def ticks(self, decision: Decision) -> Iterator[NewTick]:
        for disposition in decision.dispositions:
            yield self._tick(disposition)
        if isinstance(self._trigger, CronTrigger):
            yield from self._gaps(self._trigger, decision.cursor)

    def passed_over(self, shift: Shift) -> Iterator[NewTick]:
        """Record the ticks that a new tzdata has put behind the cursor, where nobody looked at them."""
        if shift.lost is None or not isinstance(self._trigger, CronTrigger):
            return
        count = self._trigger.count_between(shift.lost.start, shift.lost.end)
        if count:
            first, last = (
                self._trigger.next_after(shift.lost.start - INSTANT),
                self._trigger.last_before(shift.lost.end),
            )
            assert first is not None
            assert last is not None
            yield self._row(first, last, count=count, kind=DispositionKind.MISSED)
        yield from self._gap_rows(self._trigger.skipped(shift.lost.start, shift.lost.end))

    def _tick(self, disposition: Disposition) -> NewTick:
        first = self._trigger.next_after(disposition.slot - INSTANT)
        last = self._trigger.last_before(disposition.slot_until + INSTANT)
        assert first is not None
        assert last is not None
        run = self._run(disposition.run, first) if disposition.run else None
        return self._row(
            first,
            last,
            count=disposition.count,
            kind=disposition.kind,
            run_id=run.id if run else None,
            into_us=to_us(disposition.into) if disposition.into else None,
        )

    def _gaps(self, trigger: CronTrigger, cursor: datetime) -> Iterator[NewTick]:
        """Record the slots that DST skipped, one row for each gap."""
        yield from self._gap_rows(trigger.skipped(self._facts.cursor + INSTANT, cursor + INSTANT))

    def _gap_rows(self, skipped: Iterable[Occurrence]) -> Iterator[NewTick]:
        for _, group in groupby(skipped, key=lambda occurrence: occurrence.tick_at):
            slots = list(group)
            yield self._row(slots[0], slots[-1], count=len(slots), kind=DispositionKind.DST_GAP)

    def _row(
        self,
        first: Occurrence,
        last: Occurrence,
        *,
        count: int,
        kind: DispositionKind,
        run_id: str | None = None,
        into_us: int | None = None,
    ) -> NewTick:
        return NewTick(
            tenant=self._due.tenant,
            schedule=self._due.name,
            occurrence=self._key or first.key,
            version=self._due.version,
            slot=first.slot.isoformat(),
            slot_until=last.slot.isoformat(),
            tick_us=to_us(first.tick_at),
            tick_until_us=to_us(last.tick_at),
            count=count,
            disposition=kind.value,
            run_id=run_id,
            into_us=into_us,
            tzdata=tzdata_version(),
        )

    def _run(self, planned: PlannedRun, occurrence: Occurrence) -> NewRun:
        due, meaning = self._due, self._meaning
        run_id = self._new_run_id()
        shift = jitter_offset(meaning.jitter, tenant=due.tenant, schedule=due.name)
        run = NewRun(
            id=run_id,
            tenant=due.tenant,
            agent=due.agent,
            schedule=due.name,
            version=due.version,
            trigger=meaning.schedule.kind.value,
            occurrence=self._key or occurrence.key,
            tick_us=to_us(planned.tick),
            period_start_us=to_us(planned.period_start),
            period_end_us=to_us(planned.tick),
            backfill_from_us=_us_or_none(planned.backfill_from),
            last_success_us=due.last_success_us,
            idempotency_key=idempotency_key(due.tenant, due.name, due.version, planned.tick),
            manifest=due.manifest,
            manifest_hash=meaning.manifest_hash,
            payload=json.dumps(meaning.schedule.payload),
            resources=json.dumps(keys_of(due.tenant, resources_of(meaning.schedule, meaning.policies, run_id))),
            lease_max=meaning.policies.overlap.lease_max,
            lines_up=planned.lines_up,
            priority=meaning.schedule.priority,
            ready_us=to_us(planned.ready_at + shift),
            counted_us=to_us(planned.reservation.counted_at),
            reserved_micro=planned.reservation.amount,
            queue_for_us=queue_for_us(meaning.agent),
        )
        self.runs.append(run)
        return run


def resources_of(schedule: ScheduleDefinition, policies: Policies, run_id: str) -> list[str]:
    """Name what a run of a schedule leases: the schedule itself, or under `allow_parallel` only its own run."""
    parallel = policies.overlap.rule is OverlapRule.ALLOW_PARALLEL
    own = f"run:{run_id}" if parallel else f"schedule:{schedule.name}"
    return [own, f"key:{schedule.concurrency_key}"] if schedule.concurrency_key else [own]


def queue_for_us(agent: AgentDefinition) -> int | None:
    """Return how long a run of this agent may wait for its first start."""
    limit = timeouts_of(agent).queue_timeout
    return None if limit is None else to_us(EPOCH + limit)


def _us_or_none(at: datetime | None) -> int | None:
    return None if at is None else to_us(at)
