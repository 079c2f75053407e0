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
    timeouts_of,
    trigger_of,
)
from fencepost.model.disposition import DispositionKind, Window
from fencepost.model.merged import MergedTrigger
from fencepost.model.missed import INSTANT
from fencepost.model.moment import EPOCH, to_us
from fencepost.model.occurrence import Occurrence, idempotency_key
from fencepost.model.overlap import OverlapRule
from fencepost.model.run import TriggerKind
from fencepost.model.shift import Shift
from fencepost.model.slots import spell_resources
from fencepost.model.trigger import AtTrigger, CronTrigger, jitter_offset
from fencepost.model.zone import tzdata_version
from fencepost.ports.ticks import DueSchedule, NewRun, NewTick

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
        """Record the ticks that a new tzdata has put behind the cursor, where nobody looked at them."""
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
        run_id = self._new_run_id()
        shift = jitter_offset(meaning.jitter, tenant=due.tenant, schedule=due.name)
        run = NewRun(
            id=run_id,
            tenant=due.tenant,
            agent=due.agent,
            schedule=due.name,
            version=due.version,
            trigger=meaning.kind_of(occurrence).value,
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
            resources=resources_of(due.tenant, meaning.schedule, meaning.policies, run_id),
            # Of two that were leased, both could start before either has said so.
            lease_max=1 if meaning.schedule.once else meaning.policies.overlap.lease_max,
            lines_up=planned.lines_up,
            priority=meaning.schedule.priority,
            ready_us=to_us(planned.ready_at + shift),
            counted_us=to_us(planned.reservation.counted_at),
            reserved_micro=planned.reservation.amount,
            queue_for_us=queue_for_us(meaning.agent),
            in_process=goes_into_a_lane(meaning.agent, meaning.schedule),
        )
        self.runs.append(run)
        return run


def resources_of(tenant: str, schedule: ScheduleDefinition, policies: Policies, run_id: str) -> str:
    """Spell what a run of a schedule leases: the schedule itself, or under `allow_parallel` only its own run."""
    parallel = policies.overlap.rule is OverlapRule.ALLOW_PARALLEL
    own = f"run:{run_id}" if parallel else f"schedule:{schedule.name}"
    return spell_resources(tenant, [own], key=schedule.concurrency_key, limit=schedule.concurrency or 1)


def goes_into_a_lane(agent: AgentDefinition, schedule: ScheduleDefinition | None) -> bool:
    """Tell whether a lane carries a run out; one that needs a slot of a key, or a project, is carried out apart."""
    return agent.in_process and not agent.project and not (schedule and schedule.concurrency_key)


def queue_for_us(agent: AgentDefinition) -> int | None:
    """Return how long a run of this agent may wait for its first start."""
    limit = timeouts_of(agent).queue_timeout
    return None if limit is None else to_us(EPOCH + limit)


def _us_or_none(at: datetime | None) -> int | None:
    return None if at is None else to_us(at)
