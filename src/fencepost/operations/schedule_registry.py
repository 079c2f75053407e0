"""What may be asked about the registry: plan and apply a file, look at schedules, hold them back."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fencepost.config.load import Config
from fencepost.host.garbage import uncollected
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    Trigger,
    agent_from_json,
    schedule_from_json,
    trigger_of,
)
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.instants import format_instant, from_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.nearest_name import nearest
from fencepost.model.ownership import FileId
from fencepost.model.pause import SKIP_MAX
from fencepost.model.process import Host
from fencepost.model.registry_plan import KnownDefinitions, Plan, plan
from fencepost.model.trigger import Align, CronTrigger, EveryTrigger
from fencepost.model.warnings import agent_warnings, schedule_warnings
from fencepost.operations.preview import PreviewedTick, preview_schedule
from fencepost.operations.worktrees import check_projects
from fencepost.ports.registry import BEYOND, Listing, PauseEntry, ScheduleRow, VersionRow

if TYPE_CHECKING:
    from fencepost.stores.registry import SqlRegistry

TICKS_SHOWN = 3
Probing = Callable[[AgentDefinition], Iterable[str]]


class Warned(NamedTuple):
    """Something that is allowed and probably not meant."""

    what: str  # project, agent, schedule or hook
    name: str
    message: str


class Planned(NamedTuple):
    """What an apply would do, or has done."""

    plan: Plan
    now: datetime
    warnings: tuple[Warned, ...]


class Upcoming(NamedTuple):
    """A tick to come; missing ones are told too. Without an instant, the note says when."""

    at: datetime | None
    local: str
    note: str


class Listed(NamedTuple):
    """A schedule as a person wants to see it."""

    row: ScheduleRow
    definition: ScheduleDefinition
    state: str
    pause: PauseEntry | None
    now: datetime


def plan_config(
    registry: "SqlRegistry",
    config: Config,
    *,
    tenant: str,
    take_over: bool = False,
    rollback: bool = False,
    probing: Probing | None = None,
    file: FileId | None = None,
) -> Planned:
    """Compare a file with the registry, writing nothing; `probing` tells what is wrong with an agent's gates."""
    check_projects(config.projects, os.path.dirname(config.path))
    found = registry.survey(config.wanted(tenant, file))
    planned = plan(found.known, found.wanted, take_over=take_over, replaced=found.replaced)
    if planned.rollback and not rollback:
        planned = replace(planned, conflicts=(planned.rollback, *planned.conflicts))
    told = _warnings(config, _agents(registry, config, tenant), found.now)
    return Planned(planned, found.now, (*told, *_unheard(config, found.known), *_probed(config, probing)))


@uncollected()
def apply_config(
    registry: "SqlRegistry",
    config: Config,
    *,
    tenant: str,
    actor: str,
    take_over: bool = False,
    rollback: bool = False,
    probing: Probing | None = None,
    seen: Callable[[KnownDefinitions], None] | None = None,
    file: FileId | None = None,
) -> Planned:
    """Make the registry as the file wants it, all of it or nothing; `seen` may refuse what has changed meanwhile."""
    check_projects(config.projects, os.path.dirname(config.path))
    wanted = config.wanted(tenant, file)
    applied = registry.apply(wanted, actor=actor, take_over=take_over, rollback=rollback, seen=seen)
    unheard = _unheard(config, registry.survey(wanted).known) if config.hooks else ()
    told = _warnings(config, _agents(registry, config, tenant), applied.now)
    return Planned(applied.plan, applied.now, (*told, *unheard, *_probed(config, probing)))


def file_id(config: Config, host: Host) -> FileId:
    """Say which file this is, on which machine; a container's machine is another one after each boot."""
    machine = host.machine if host.is_lasting else ""
    return FileId(config.path, config.settings.name, machine, host.name)


def upcoming(schedule: ScheduleDefinition, *, after: datetime, count: int = TICKS_SHOWN) -> Iterator[Upcoming]:
    """Yield the next ticks after an instant, with a word on what the clock change does to them."""
    trigger = trigger_of(schedule)
    if not schedule.enabled:
        yield Upcoming(None, "", "disabled")
    elif isinstance(trigger, CronTrigger | MergedTrigger):
        later = after + timedelta(microseconds=1)
        ticks = preview_schedule(schedule, trigger, later, trigger.bounds.end_at) if trigger.next_after(after) else ()
        yield from (_previewed(trigger, tick) for tick in islice(ticks, count))
    elif isinstance(trigger, EveryTrigger):
        yield from _every(schedule, trigger, after, count)
    else:
        yield from _once(trigger, after)


def coming(listed: Listed, *, count: int = TICKS_SHOWN) -> Iterator[Upcoming]:
    """Yield the next ticks of a schedule in the registry; one that is over has none, whatever its definition says."""
    if listed.state in ("retired", "done"):
        return iter(())
    return upcoming(listed.definition, after=listed.now, count=count)


def list_schedules(registry: "SqlRegistry", *, tenant: str, limit: int, after: str = "") -> list[Listed]:
    """Return the tenant's schedules by name, those after a name if one is given."""
    listing = registry.schedules(tenant, limit=limit, after=after)
    return [_listed(listing, row) for row in listing.schedules]


def find_schedule(registry: "SqlRegistry", name: str, *, tenant: str) -> Listed:
    """Return one schedule, retired or not; raise Invalid with a suggestion if there is none."""
    listing = registry.schedule(tenant, name)
    if not listing.schedules:
        raise _unknown(registry, name, tenant)
    return _listed(listing, listing.schedules[0])


def history(
    registry: "SqlRegistry", name: str, *, tenant: str, before: tuple[int, int] = (BEYOND, BEYOND), limit: int
) -> tuple[list[VersionRow], list[PauseEntry]]:
    """Return a schedule's versions and pauses, newest first, from those before a version and a pause's id on."""
    find_schedule(registry, name, tenant=tenant)
    versions = registry.versions(tenant, name, before=before[0], limit=limit)
    return versions, registry.pauses(tenant, name, before=before[1], limit=limit)


def pause_schedule(
    registry: "SqlRegistry", name: str, *, tenant: str, until: datetime | None, note: str, actor: str
) -> PauseEntry:
    """Pause a schedule: its ticks go on, and are recorded as paused."""
    _active(registry, name, tenant)
    return registry.pause(tenant, name, until=until, note=note, actor=actor)


def resume_schedule(registry: "SqlRegistry", name: str, *, tenant: str, actor: str) -> list[PauseEntry]:
    """End a schedule's pause."""
    _active(registry, name, tenant)
    ended = registry.resume(tenant, name, actor=actor)
    if not ended:
        raise Invalid(f"{name} is not paused.")
    return ended


def skip_next(registry: "SqlRegistry", name: str, count: int, *, tenant: str, actor: str) -> list[datetime]:
    """Leave out a schedule's next ticks, which are returned; 0 takes it back."""
    listed = _active(registry, name, tenant)
    if not 0 <= count <= SKIP_MAX:
        raise Invalid(f"skip-next takes from 0 to {SKIP_MAX} ticks, not {count}; for more, pause the schedule.")
    asked_at = registry.skip_next(tenant, name, count, actor=actor)
    trigger = trigger_of(listed.definition)
    assert not isinstance(trigger, EveryTrigger), "the store has refused it"
    found: list[datetime] = []
    tick = trigger.next_after(max(asked_at, from_us(listed.row.cursor_us)))
    while tick and len(found) < count:
        found.append(tick.tick_at)
        tick = trigger.next_after(tick.tick_at)
    return found


def halt(registry: "SqlRegistry", *, tenant: str, note: str, actor: str) -> PauseEntry:
    """Pause everything of a tenant."""
    return registry.halt(tenant, note=note, actor=actor)


def unhalt(registry: "SqlRegistry", *, tenant: str, actor: str) -> list[PauseEntry]:
    """End the halt."""
    ended = registry.unhalt(tenant, actor=actor)
    if not ended:
        raise Invalid(f"nothing is halted in tenant {tenant}.")
    return ended


def _probed(config: Config, probing: Probing | None) -> Iterator[Warned]:
    if probing is not None:
        for name, agent in config.agents.items():
            yield from (Warned("agent", name, message) for message in probing(agent))


def _agents(registry: "SqlRegistry", config: Config, tenant: str) -> dict[str, AgentDefinition]:
    """Return the agents that the schedules run: the file's own, and those that another file or a caller has defined."""
    elsewhere = {one.agent for one in config.schedules.values()} - {*config.agents}
    rows = [row for name in sorted(elsewhere) if (row := registry.agent(tenant, name)) and row.retired_us is None]
    return {**config.agents, **{row.name: agent_from_json(row.definition) for row in rows}}


def _warnings(config: Config, agents: Mapping[str, AgentDefinition], now: datetime) -> Iterator[Warned]:
    """Yield what to say about the file's projects, its own agents, and the schedules that run them."""
    for name, message in check_projects(config.projects, os.path.dirname(config.path)):
        yield Warned("project", name, message)
    for name, agent in config.agents.items():
        yield from (Warned("agent", name, message) for message in agent_warnings(agent))
    for name, schedule in config.schedules.items():
        if schedule.agent in agents:
            messages = schedule_warnings(schedule, agents[schedule.agent], now=now)
            yield from (Warned("schedule", name, message) for message in messages)


def _unheard(config: Config, known: KnownDefinitions) -> Iterator[Warned]:
    """Yield the hooks whose agent is not defined; another file may still define it."""
    there = {*config.agents, *(name for name, agent in known.agents.items() if not agent.retired)}
    for name, hook in config.hooks.items():
        if hook["agent"] not in there:
            message = f'there is no agent "{hook["agent"]}"; until some file defines it, deliveries are refused.'
            yield Warned("hook", name, message)


def _every(schedule: ScheduleDefinition, trigger: EveryTrigger, after: datetime, count: int) -> Iterator[Upcoming]:
    if trigger.align is not Align.START:
        yield Upcoming(None, "", f"{schedule.every} after the end of the last run")
        return
    for at in islice(trigger.beats(after + timedelta.resolution), count):
        yield Upcoming(at, "", "unless a run outlasts it")


def _previewed(trigger: CronTrigger | MergedTrigger, tick: PreviewedTick) -> Upcoming:
    occurrence = tick.occurrence
    if occurrence.missing:
        return Upcoming(None, f"{occurrence.slot:%a} {occurrence.slot.isoformat(' ')}", tick.note)
    local = trigger.zone.local(occurrence.tick_at) if trigger.zone else occurrence.tick_at
    return Upcoming(occurrence.tick_at, f"{local:%a} {local.isoformat(' ')}", tick.note)


def _once(trigger: Trigger, after: datetime) -> Iterator[Upcoming]:
    assert not isinstance(trigger, EveryTrigger)
    tick = trigger.next_after(after)
    if tick:
        yield Upcoming(tick.tick_at, f"{tick.tick_at:%a} {tick.tick_at.isoformat(' ')}", "once")


def _listed(listing: Listing, row: ScheduleRow) -> Listed:
    definition = schedule_from_json(row.definition)
    own = [one for one in listing.pauses if one.schedule == row.name]
    halts = [one for one in listing.pauses if not one.schedule]
    pause = next(iter([*halts, *own]), None)
    return Listed(row, definition, _state(row, definition, pause), pause, listing.now)


def _state(row: ScheduleRow, definition: ScheduleDefinition, pause: PauseEntry | None) -> str:
    if row.retired_us is not None:
        return "retired"
    if not definition.enabled:
        return "disabled"
    if row.once_done or (row.due_us is None and not definition.every):  # under `every`, nothing is due during a run
        return "done"
    if pause is not None:
        return "paused" if pause.schedule else "halted"
    return "active"


def _active(registry: "SqlRegistry", name: str, tenant: str) -> Listed:
    listed = find_schedule(registry, name, tenant=tenant)
    if listed.row.retired_us is not None:
        retired = format_instant(from_us(listed.row.retired_us))
        raise Invalid(f"{name} was retired at {retired}: {listed.row.source} no longer defines it.")
    return listed


def _unknown(registry: "SqlRegistry", name: str, tenant: str) -> Invalid:
    near = nearest(name, registry.schedule_names(tenant))
    hint = f'Did you mean "{near}"?' if near else "See: fencepost schedule list"
    return Unknown(f'there is no schedule "{name}". {hint}')
