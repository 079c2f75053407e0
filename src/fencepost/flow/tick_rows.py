"""A decision about a schedule, spelled as rows: ticks, ranges of ticks, and the runs that come of them."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby

from fencepost.model.calendar import Calendar
from fencepost.model.decide import Decision, Disposition, Facts, PlannedRun, Policies, planned_id
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    Trigger,
    agent_from_json,
    calendar_of,
    hash_of,
    jitter_of,
    policies_of,
    schedule_from_json,
    trigger_of,
)
from fencepost.model.disposition import DispositionKind, Window
from fencepost.model.instants import to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.new_run import NewRun, RunRecipe, RunTarget, Stretch, make_run
from fencepost.model.occurrence import Occurrence, idempotency_key
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import AtTrigger, CronTrigger, jitter_offset
from fencepost.model.tzdata_shift import Shift
from fencepost.model.zone import tzdata_version
from fencepost.ports.ticks import DueSchedule, NewTick

MEANINGS_KEPT = 10_000


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

    def kind_of(self, occurrence: Occurrence) -> TriggerKind:
        """Return which kind of trigger a tick is of, where a schedule has several."""
        if isinstance(self.trigger, MergedTrigger) and self.trigger.is_instant(occurrence):
            return TriggerKind.AT
        return self.schedule.kind


@lru_cache(maxsize=MEANINGS_KEPT)
def meaning_of(definition: str, manifest: str) -> Meaning:
    """Build a definition once for all its ticks."""
    schedule, (agent, manifest_hash) = schedule_from_json(definition), _agent(manifest)
    return Meaning(
        schedule,
        agent,
        trigger_of(schedule),
        policies_of(schedule, agent),
        calendar_of(schedule),
        jitter_of(schedule),
        manifest_hash,
    )


@lru_cache(maxsize=MEANINGS_KEPT)
def _agent(manifest: str) -> tuple[AgentDefinition, str]:
    """Read an agent once for all the schedules that run it."""
    return agent_from_json(manifest), hash_of(manifest)


class Writer:
    """Spells one schedule's decision as rows."""

    def __init__(
        self,
        due: DueSchedule,
        meaning: Meaning,
        trigger: CronTrigger | AtTrigger | MergedTrigger,
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
        target = RunTarget(
            due.agent,
            due.manifest,
            meaning.manifest_hash,
            due.name,
            due.version,
            last_success_us=due.last_success_us,
        )
        self._recipe = RunRecipe(target, meaning.agent, meaning.schedule, meaning.policies)
        self.runs: list[NewRun] = []
        self._ids: dict[str, str] = {}  # of runs that are made by this decision, by what the decision calls them

    def ticks(self, decision: Decision) -> Iterator[NewTick]:
        """Yield a row for each disposition, making runs on the way, and one for each gap of the clock."""
        for disposition in decision.dispositions:
            yield self._tick(disposition)
        if not isinstance(self._trigger, AtTrigger):
            yield from self._gaps(self._trigger, decision.cursor)

    def held(self, kind: DispositionKind) -> NewTick:
        """Spell the one tick of an `every` that waits: told, and not recorded, because it is still to run."""
        assert isinstance(self._trigger, AtTrigger), "an `every` owes one tick"
        occurrence = self._trigger.occurrence
        return self._row(occurrence, occurrence, count=1, kind=kind)

    def passed_over(self, shift: Shift, *, since: datetime) -> Iterator[NewTick]:
        """Record the ticks that a new tzdata has put behind the cursor, where they were never looked at."""
        if isinstance(self._trigger, AtTrigger):
            return
        if isinstance(self._trigger, MergedTrigger):  # instants stay where they are while the cursor follows the wall
            for one in self._trigger.fixed(since + INSTANT, shift.cursor + INSTANT):
                yield self._row(one, one, count=1, kind=DispositionKind.MISSED)
        if shift.lost is not None:
            walled = self._trigger.walled() if isinstance(self._trigger, MergedTrigger) else self._trigger
            yield from self._lost(walled, shift.lost)

    def _lost(self, trigger: CronTrigger | MergedTrigger, lost: Window) -> Iterator[NewTick]:
        count = trigger.count_between(lost.start, lost.end)
        if count:
            first, last = trigger.next_after(lost.start - INSTANT), trigger.last_before(lost.end)
            assert first is not None
            assert last is not None
            yield self._row(first, last, count=count, kind=DispositionKind.MISSED)
        yield from self._gap_rows(trigger.skipped(lost.start, lost.end))

    def _tick(self, disposition: Disposition) -> NewTick:
        first = self._trigger.next_after(disposition.slot - INSTANT)
        last = self._trigger.last_before(disposition.slot_until + INSTANT)
        assert first is not None
        assert last is not None
        run = self._run(disposition.run, first) if disposition.run else None
        if run is not None:
            self._ids[planned_id(disposition.slot)] = run.id
        behind = [self._ids.get(one, one) for one in disposition.behind]
        return self._row(
            first,
            last,
            count=disposition.count,
            kind=disposition.kind,
            run_id=run.id if run else None,
            into_us=to_us(disposition.into) if disposition.into else None,
            behind=json.dumps(behind) if behind else None,
        )

    def _gaps(self, trigger: CronTrigger | MergedTrigger, cursor: datetime) -> Iterator[NewTick]:
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
        behind: str | None = None,
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
            behind=behind,
        )

    def _run(self, planned: PlannedRun, occurrence: Occurrence) -> NewRun:
        due, meaning = self._due, self._meaning
        shift = jitter_offset(meaning.jitter, tenant=due.tenant, schedule=due.name)
        run = make_run(
            self._recipe,
            run_id=self._new_run_id(),
            tenant=due.tenant,
            trigger=meaning.kind_of(occurrence),
            ready_us=to_us(planned.ready_at + shift),
            idempotency_key=idempotency_key(due.tenant, due.name, due.version, planned.tick),
            reservation=planned.reservation,
            stretch=Stretch(
                to_us(planned.tick), self._key or occurrence.key, to_us(planned.period_start), to_us(planned.tick)
            ),
            backfill_from_us=None if planned.backfill_from is None else to_us(planned.backfill_from),
            lines_up=planned.lines_up,
        )
        self.runs.append(run)
        return run
