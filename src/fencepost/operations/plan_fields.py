"""What an apply would change, or has changed, as scripts see it."""

from collections import defaultdict
from collections.abc import Iterator

from fencepost.config.load import Config
from fencepost.model.effects import effects_of
from fencepost.model.instant import format_instant
from fencepost.model.registry import AgentChange, ChangeKind, ScheduleChange
from fencepost.operations.registry import Planned, upcoming

Messages = defaultdict[tuple[str, str], list[str]]


def planned_fields(planned: Planned, config: Config) -> dict[str, object]:
    """Return the whole of it, for a door that answers with one object; warnings stand beside what they are about."""
    return {
        "source": config.path,
        "agents": [*agent_changes(planned, config)],
        "schedules": [*schedule_changes(planned, config)],
        "warnings": [f"{one.name}: {one.message}" for one in planned.warnings if one.what in ("project", "hook")],
        "conflicts": [str(one) for one in planned.plan.conflicts],
    }


def agent_changes(planned: Planned, config: Config) -> Iterator[dict[str, object]]:
    """Yield what becomes of each agent."""
    warnings = by_subject(planned)
    for agent in planned.plan.agents:
        known = config.agents.get(agent.name)
        effects = effects_of(known)._asdict() if known else None
        yield {"what": "agent", **_fields(agent), "effects": effects, "warnings": warnings["agent", agent.name]}


def schedule_changes(planned: Planned, config: Config) -> Iterator[dict[str, object]]:
    """Yield what becomes of each schedule, with its next ticks."""
    warnings = by_subject(planned)
    for schedule in planned.plan.schedules:
        known = config.schedules.get(schedule.name)
        ticks = upcoming(known, after=planned.now) if known and schedule.kind is not ChangeKind.RETIRED else ()
        yield {
            "what": "schedule",
            **_fields(schedule),
            "version": schedule.version,
            "agent": schedule.agent,
            "agent_changed": schedule.agent_changed,
            "warnings": warnings["schedule", schedule.name],
            "next": [format_instant(tick.at) for tick in ticks if tick.at],
        }


def by_subject(planned: Planned) -> Messages:
    """Return the warnings by what they are about."""
    found: Messages = defaultdict(list)
    for warning in planned.warnings:
        found[warning.what, warning.name].append(warning.message)
    return found


def _fields(change: AgentChange | ScheduleChange) -> dict[str, object]:
    fields = [one._asdict() for one in change.fields] if change.kind is ChangeKind.CHANGED else []
    return {"name": change.name, "change": change.kind.value, "fields": fields}
