"""What an apply would change, or has changed."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

from fencepost.config.load import Config
from fencepost.model.effects import Effects, effects_of
from fencepost.model.registry_plan import AgentChange, ChangeKind, FieldChange, ScheduleChange
from fencepost.operations.records import Record
from fencepost.operations.schedule_registry import Planned, upcoming

Messages = defaultdict[tuple[str, str], list[str]]


class AgentChangeRecord(Record):
    """What becomes of an agent."""

    what: str = "agent"
    name: str
    change: str
    fields: list[FieldChange]
    effects: Effects | None
    warnings: list[str]


class ScheduleChangeRecord(Record):
    """What becomes of a schedule."""

    what: str = "schedule"
    name: str
    change: str
    fields: list[FieldChange]
    version: int
    agent: str
    agent_changed: bool
    warnings: list[str]
    next: list[datetime]


class PlannedRecord(Record):
    """What an apply would change, or has changed."""

    source: Annotated[str, "who owns these definitions"]
    agents: list[AgentChangeRecord]
    schedules: list[ScheduleChangeRecord]
    warnings: Annotated[list[str], "about projects and hooks"]
    conflicts: Annotated[list[str], "what keeps it from being applied"]
    ignored: Annotated[list[str], "keys that belong to machines, and not to the registry"]


def planned_record(planned: Planned, config: Config, ignored: Sequence[str] = ()) -> PlannedRecord:
    """Return the whole of it, for a door that answers with one object; warnings stand beside what they are about."""
    return PlannedRecord(
        source=config.path,
        agents=[*agent_changes(planned, config)],
        schedules=[*schedule_changes(planned, config)],
        warnings=[f"{one.name}: {one.message}" for one in planned.warnings if one.what in ("project", "hook")],
        conflicts=[str(one) for one in planned.plan.conflicts],
        ignored=[*ignored],
    )


def agent_changes(planned: Planned, config: Config) -> Iterator[AgentChangeRecord]:
    """Yield what becomes of each agent."""
    warnings = by_subject(planned)
    for agent in planned.plan.agents:
        known = config.agents.get(agent.name)
        yield AgentChangeRecord(
            name=agent.name,
            change=agent.kind.value,
            fields=_changed(agent),
            effects=effects_of(known) if known else None,
            warnings=warnings["agent", agent.name],
        )


def schedule_changes(planned: Planned, config: Config) -> Iterator[ScheduleChangeRecord]:
    """Yield what becomes of each schedule, with its next ticks."""
    warnings = by_subject(planned)
    for schedule in planned.plan.schedules:
        known = config.schedules.get(schedule.name)
        ticks = upcoming(known, after=planned.now) if known and schedule.kind is not ChangeKind.RETIRED else ()
        yield ScheduleChangeRecord(
            name=schedule.name,
            change=schedule.kind.value,
            fields=_changed(schedule),
            version=schedule.version,
            agent=schedule.agent,
            agent_changed=schedule.agent_changed,
            warnings=warnings["schedule", schedule.name],
            next=[tick.at for tick in ticks if tick.at],
        )


def by_subject(planned: Planned) -> Messages:
    """Return the warnings by what they are about."""
    found: Messages = defaultdict(list)
    for warning in planned.warnings:
        found[warning.what, warning.name].append(warning.message)
    return found


def _changed(change: AgentChange | ScheduleChange) -> list[FieldChange]:
    return [*change.fields] if change.kind is ChangeKind.CHANGED else []
