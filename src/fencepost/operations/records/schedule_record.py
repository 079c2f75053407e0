"""Schedules, agents, versions and pauses."""

import json
from datetime import datetime
from typing import Annotated

from fencepost.model.definition import AgentDefinition, ScheduleDefinition, agent_from_json
from fencepost.model.effects import Effects, effects_of
from fencepost.model.instants import to_us
from fencepost.operations.budget_use import Use, budget_use
from fencepost.operations.phrases import plain
from fencepost.operations.records import Record, at, fields_of
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import Listed, Upcoming, coming, find_schedule
from fencepost.operations.scheduler_health import next_tick_us
from fencepost.operations.single_definition import agent_tag
from fencepost.ports.registry import AgentRow, PauseEntry, VersionRow

COMING = 10


class ScheduleRecord(Record):
    """A schedule."""

    name: str
    tenant: str
    agent: str
    version: int
    state: str
    trigger: str
    when: str
    timezone: str
    next_at: datetime | None
    cursor_at: datetime | None
    cursor_age_seconds: int
    failures: int
    last_success: datetime | None
    skip_next: int
    paused_until: datetime | None
    pause_note: str
    applied_at: datetime | None
    retired_at: datetime | None
    source: str
    effects: Effects


def schedule_record(listed: Listed) -> ScheduleRecord:
    """Return a schedule as every door gives it."""
    row, pause = listed.row, listed.pause
    return ScheduleRecord(
        name=row.name,
        tenant=row.tenant,
        agent=row.agent,
        version=row.version,
        state=listed.state,
        trigger=row.trigger,
        when=listed.definition.when,
        timezone=listed.definition.timezone,
        next_at=at(next_tick_us(row)),
        cursor_at=at(row.cursor_us),
        cursor_age_seconds=(to_us(listed.now) - row.cursor_us) // 1_000_000,
        failures=row.failures,
        last_success=at(row.last_success_us),
        skip_next=json.loads(row.skip_next)["left"] if row.skip_next else 0,
        paused_until=at(pause.until_us) if pause else None,
        pause_note=plain(pause.note) if pause else "",
        applied_at=at(row.applied_us),
        retired_at=at(row.retired_us),
        source=row.source,
        effects=effects_of(agent_from_json(row.manifest)),
    )


class BudgetUseRecord(Record):
    """What is used of one limit; dollars, runs, or seconds."""

    limit: Annotated[str, "as the file names it, such as budget_usd_per_day"]
    used: float
    allowed: float
    anew_at: Annotated[datetime | None, "when it begins anew; null: with each hour that a run lies back"]


def use_record(use: Use) -> BudgetUseRecord:
    """Return what is used of a limit as every door gives it."""
    return BudgetUseRecord(limit=use.limit, used=use.used, allowed=use.allowed, anew_at=use.anew_at)


class PastRecord(Record):
    """What became of a schedule's ticks and runs, those that were pruned counted."""

    ticks: Annotated[dict[str, int], "how many there ever were, by disposition"]
    runs: Annotated[dict[str, int], "how many there ever were, by state"]
    pruned_until: datetime | None


def past_record(past: Store, tenant: str, name: str) -> PastRecord:
    """Return how many ticks and runs there ever were, and up to where they are pruned."""
    mark = past.watermark(tenant, name)
    counts: dict[str, dict[str, int]] = {"tick": {}, "run": {}}
    for tally in past.tallies(tenant, name):
        counts[tally.kind][tally.name] = tally.number
    return PastRecord(ticks=counts["tick"], runs=counts["run"], pruned_until=at(mark.pruned_us) if mark else None)


class ScheduleDetailRecord(ScheduleRecord, PastRecord):
    """A schedule in full."""

    budget: Annotated[list[BudgetUseRecord], "what is used of each limit that it has"]
    definition: Annotated[dict[str, object], ScheduleDefinition]
    manifest: Annotated[dict[str, object], AgentDefinition]
    upcoming: list[Upcoming]


def schedule_detail(store: Store, tenant: str, name: str) -> ScheduleDetailRecord:
    """Return everything about a schedule: what it says, what comes, what was, what it may still spend."""
    listed = find_schedule(store.registry(), name, tenant=tenant)
    return ScheduleDetailRecord(
        **fields_of(schedule_record(listed)),
        **fields_of(past_record(store, tenant, name)),
        budget=[use_record(one) for one in budget_use(store, tenant, listed)],
        definition=json.loads(listed.row.definition),
        manifest=json.loads(listed.row.manifest),
        upcoming=list(coming(listed, count=COMING)),
    )


class AgentRecord(Record):
    """An agent."""

    name: str
    tenant: str
    engine: str
    tag: Annotated[str, "changes with the definition; the ETag"]
    source: str
    applied_at: datetime | None
    applied_by: str
    effects: Effects
    definition: Annotated[dict[str, object], AgentDefinition]


def agent_record(row: AgentRow) -> AgentRecord:
    """Return an agent as every door gives it."""
    agent = agent_from_json(row.definition)
    return AgentRecord(
        name=row.name,
        tenant=row.tenant,
        engine=agent.engine,
        tag=agent_tag(row.hash),
        source=row.source,
        applied_at=at(row.applied_us),
        applied_by=row.applied_by,
        effects=effects_of(agent),
        definition=json.loads(row.definition),
    )


class VersionRecord(Record):
    """A version, and the ticks that it decided: after `after`, up to `until`."""

    kind: str = "version"
    version: int
    applied_at: datetime | None
    applied_by: str
    after: datetime | None
    until: datetime | None
    hash: str
    manifest_hash: str
    definition: Annotated[dict[str, object], ScheduleDefinition]


def version_record(version: VersionRow) -> VersionRecord:
    """Return a version as every door gives it."""
    return VersionRecord(
        version=version.version,
        applied_at=at(version.applied_us),
        applied_by=version.applied_by,
        after=at(version.after_us),
        until=at(version.until_us),
        hash=version.hash,
        manifest_hash=version.manifest_hash,
        definition=json.loads(version.definition),
    )


class PauseRecord(Record):
    """A pause."""

    kind: str = "pause"
    since: datetime | None
    until: datetime | None
    note: str
    by: str


def pause_record(pause: PauseEntry) -> PauseRecord:
    """Return a pause as every door gives it; one without an end has no `until`."""
    return PauseRecord(since=at(pause.since_us), until=at(pause.until_us), note=pause.note, by=pause.by_whom)
