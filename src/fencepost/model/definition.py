"""What the registry holds: agents and schedules as they were written, checked, and hashed.

A definition is plain data, so that it can be kept as JSON, compared by its hash and shown again. What it
*means* (a trigger, policies) is built from it by the functions below.
"""

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import compress
from operator import attrgetter, ne
from typing import Any

from fencepost.model.budget import BudgetPolicy, parse_usd
from fencepost.model.calendar import Calendar
from fencepost.model.decide import Policies
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.instants import parse_instant
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.missed import MissedPolicy, MissedRule
from fencepost.model.overlap import LINE_MAX, parse_overlap
from fencepost.model.retry import OnLost, RetryPolicy, Timeouts
from fencepost.model.run import TriggerKind
from fencepost.model.target import target_of
from fencepost.model.trigger import (
    UNBOUNDED,
    Align,
    AtTrigger,
    Bounds,
    CronTrigger,
    EveryTrigger,
    at_trigger,
    cron_trigger,
    parse_policy,
)
from fencepost.model.zone import find_zone

Trigger = CronTrigger | AtTrigger | MergedTrigger | EveryTrigger

TOOL_TIMEOUT = "1h"
TRIGGERS_KEPT_MAX = 32_768  # many schedules share an expression; reading one anew costs more than its next tick


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """What is run, and under which limits. Durations are kept as they were written."""

    name: str
    engine: str = "command"
    command: tuple[str, ...] = ()
    shell: bool = False
    function: str = ""  # python: module:function
    in_process: bool = False  # python: called in a process that the worker keeps, one run after the other
    prompt: str = ""
    project: str = ""
    env: dict[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict)  # environment name -> env:NAME or file:PATH
    timeout: str = "1h"
    stall_timeout: str = ""
    tool_timeout: str = ""
    queue_timeout: str = "1d"
    waiting_max: int = LINE_MAX  # runs without a schedule that may wait
    max_attempts: int = 1
    backoff: str = "30s"
    backoff_max: str = "1h"
    retry_exit_codes: tuple[int, ...] = ()
    on_lost: str = "triage"
    gates: tuple[str, ...] = ()
    gate_definitions: dict[str, Any] = field(default_factory=dict)  # of those gates that the file describes
    writes: bool = True
    budget_usd: str = ""
    model_gate: str = ""  # whose protocol its calls of a model speak, if they pass the model gate
    model_key: str = ""  # where the provider's key is; empty: where its users have it
    model_url: str = ""  # where the provider is; empty: where it always is
    log_max: int = 10_000_000
    options: dict[str, Any] = field(default_factory=dict)  # what only its engine understands


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """When an agent runs, and under which policies."""

    name: str
    agent: str
    cron: str | tuple[str, ...] = ""
    every: str = ""
    at: str | tuple[str, ...] = ""
    timezone: str = ""
    dst_gap: str = "skip"
    dst_fold: str = "auto"
    start: str = ""
    end: str = ""
    anchor: str = ""
    align: str = "end"
    jitter: str = ""
    missed: str = "skip"
    grace: str = "60s"
    catchup_window: str = "7d"
    catchup_max: int = 10
    stagger: str = "30s"
    overlap: str = "forbid"
    queue_max: int | None = None
    parallel_max: int | None = None
    priority: int = 0
    once: bool = False
    calendar: tuple[str, ...] = ()
    concurrency_key: str = ""
    concurrency: int | None = None  # how many runs with this key may go at once
    budget_usd_per_day: str = ""
    budget_usd_per_month: str = ""
    max_runs_per_hour: int | None = None
    max_time_per_day: str = ""
    pause_on_failure: int | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    enabled: bool = True

    @property
    def kind(self) -> TriggerKind:
        """What asks for its runs."""
        return TriggerKind.CRON if self.cron else TriggerKind.EVERY if self.every else TriggerKind.AT

    @property
    def crons(self) -> tuple[str, ...]:
        """Its cron expressions."""
        return _several(self.cron)

    @property
    def ats(self) -> tuple[str, ...]:
        """Its single instants."""
        return _several(self.at)

    @property
    def when(self) -> str:
        """What asks for its runs, in one line."""
        parts = [*self.crons, *([f"every {self.every}"] if self.every else []), *(f"at {at}" for at in self.ats)]
        return ", ".join(parts)


def to_json(definition: AgentDefinition | ScheduleDefinition) -> str:
    """Write a definition in the one form in which it is kept and hashed; defaults are left out."""
    heads, defaults, values_of = _FIELDS[type(definition)]
    values = values_of(definition)
    said = compress(zip(heads, values, strict=True), map(ne, values, defaults))
    return "{" + ",".join([head + _kept_form(value) for head, value in said]) + "}"


def agent_from_json(text: str) -> AgentDefinition:
    """Read an agent back."""
    return AgentDefinition(**_read(AgentDefinition, text))


def schedule_from_json(text: str) -> ScheduleDefinition:
    """Read a schedule back."""
    return ScheduleDefinition(**_read(ScheduleDefinition, text))


def hash_of(*texts: str) -> str:
    """Return the content hash of definitions in their kept form."""
    return sha256("\n".join(texts).encode()).hexdigest()


def trigger_of(schedule: ScheduleDefinition) -> Trigger:
    """Build what the schedule's ticks come from, or raise Invalid with the reason."""
    bounds = UNBOUNDED
    if schedule.start or schedule.end:
        bounds = Bounds(_instant(schedule.start), _instant(schedule.end))
    if schedule.every:
        _refuse_company(schedule)
        return EveryTrigger(
            _duration(schedule.every),
            _instant(schedule.anchor),
            bounds,
            align=parse_policy(Align, "align", schedule.align),
        )
    if schedule.cron and not schedule.timezone:
        raise Invalid('a cron schedule needs a timezone, such as "Europe/Berlin"; there is no silent default.')
    policy = (schedule.timezone, schedule.dst_gap, schedule.dst_fold)
    crons, ats = schedule.crons, schedule.ats
    if len(crons) + len(ats) > 1:
        return _merged_trigger(crons, ats, policy, bounds)
    return _cron_trigger(crons[0], *policy, bounds) if crons else _at_trigger(ats[0], *policy)


def _refuse_company(schedule: ScheduleDefinition) -> None:
    if schedule.cron or schedule.at:
        raise Invalid(
            "every counts from the end of the schedule's last run, so a tick of cron or at would move it; write a second "
            "schedule with the same agent, and give both one concurrency_key if they must not overlap."
        )


def policies_of(schedule: ScheduleDefinition, agent: AgentDefinition) -> Policies:
    """Build what the ticker decides by."""
    return Policies(
        missed=MissedPolicy(
            rule=parse_policy(MissedRule, "missed", schedule.missed),
            grace=_duration(schedule.grace),
            catchup_window=_duration(schedule.catchup_window),
            catchup_max=schedule.catchup_max,
            stagger=_duration(schedule.stagger),
        ),
        overlap=parse_overlap(schedule.overlap, queue_max=schedule.queue_max, parallel_max=schedule.parallel_max),
        budget=BudgetPolicy(
            per_run=parse_usd(agent.budget_usd) if agent.budget_usd else None,
            per_day=parse_usd(schedule.budget_usd_per_day) if schedule.budget_usd_per_day else None,
            per_month=parse_usd(schedule.budget_usd_per_month) if schedule.budget_usd_per_month else None,
            max_runs_per_hour=schedule.max_runs_per_hour,
            max_time_per_day=_duration(schedule.max_time_per_day) if schedule.max_time_per_day else None,
        ),
    )


def calendar_of(schedule: ScheduleDefinition) -> Calendar | None:
    """Build the blackout calendar, if there is one; it is in the schedule's zone."""
    if not schedule.calendar:
        return None
    return Calendar.parse(schedule.calendar, find_zone(schedule.timezone or "UTC"))


def jitter_of(schedule: ScheduleDefinition) -> timedelta:
    """Return how far runs may be spread."""
    return _duration(schedule.jitter) if schedule.jitter else timedelta(0)


def retry_of(agent: AgentDefinition) -> RetryPolicy:
    """Build what happens after an attempt."""
    return RetryPolicy(
        max_attempts=agent.max_attempts,
        backoff=_duration(agent.backoff),
        backoff_max=max(_duration(agent.backoff), _duration(agent.backoff_max)),
        exit_codes=frozenset(agent.retry_exit_codes) or None,
        on_lost=parse_policy(OnLost, "on_lost", agent.on_lost),
    )


def timeouts_of(agent: AgentDefinition) -> Timeouts:
    """Build the limits of time; where standing still is limited, so is one tool call."""
    tool = agent.tool_timeout or (TOOL_TIMEOUT if agent.stall_timeout else "")
    return Timeouts(
        queue_timeout=_duration(agent.queue_timeout) if agent.queue_timeout else None,
        timeout=_duration(agent.timeout) if agent.timeout else None,
        stall_timeout=_duration(agent.stall_timeout) if agent.stall_timeout else None,
        tool_timeout=_duration(tool) if tool else None,
    )


@lru_cache(maxsize=TRIGGERS_KEPT_MAX)
def _merged_trigger(
    crons: tuple[str, ...], ats: tuple[str, ...], policy: tuple[str, str, str], bounds: Bounds
) -> MergedTrigger:
    instants = tuple(_at_trigger(at, *policy) for at in ats)
    for text, one in zip(ats, instants, strict=True):
        if not bounds.hold(one.occurrence.tick_at):
            raise Invalid(f"at = {text} lies outside start and end, so it would never fire; remove it or move them.")
    return MergedTrigger(tuple(_cron_trigger(cron, *policy, bounds) for cron in crons), instants)


def _at_trigger(at: str, timezone: str, dst_gap: str, dst_fold: str) -> AtTrigger:
    return at_trigger(at, timezone or None, dst_gap=dst_gap, dst_fold=dst_fold)


@lru_cache(maxsize=TRIGGERS_KEPT_MAX)
def _cron_trigger(cron: str, timezone: str, dst_gap: str, dst_fold: str, bounds: Bounds) -> CronTrigger:
    return cron_trigger(cron, timezone, dst_gap=dst_gap, dst_fold=dst_fold, bounds=bounds)


def _defaults(kind: type[AgentDefinition | ScheduleDefinition]) -> dict[str, object]:
    """Return each field with its default; what has none is equal to nothing and so always kept."""
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(kind)}


_DEFAULTS: dict[type, dict[str, object]] = {kind: _defaults(kind) for kind in (AgentDefinition, ScheduleDefinition)}
_kept_form = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def _by_name(
    kind: type[AgentDefinition | ScheduleDefinition],
) -> tuple[list[str], list[object], Callable[[object], tuple[object, ...]]]:
    """Return the fields in the order in which they are kept: how each is spelled, its default, and a way to all values."""
    names = sorted(_DEFAULTS[kind])
    return [f'"{name}":' for name in names], [_DEFAULTS[kind][name] for name in names], attrgetter(*names)


_FIELDS = {kind: _by_name(kind) for kind in _DEFAULTS}


def _read(kind: type[AgentDefinition | ScheduleDefinition], text: str) -> dict[str, Any]:
    """Read what was kept; an unknown field may carry a promise that this program cannot keep."""
    values: dict[str, Any] = json.loads(text)
    known = _DEFAULTS[kind]
    if unknown := sorted(values.keys() - known.keys()):
        raise Misconfigured(
            f"{values.get('name')} was defined by a newer Fencepost, which knows {', '.join(unknown)}; upgrade this one."
        )
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def gate_targets(agent: AgentDefinition) -> tuple[str, ...]:
    """Spell the agent's gates as `kind:target`, by name or as they are."""
    known = agent.gate_definitions
    return tuple(target_of(known[gate]) if gate in known else gate for gate in agent.gates)


@lru_cache(maxsize=1024)
def _duration(text: str) -> timedelta:
    return timedelta(seconds=parse_duration(text))


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if value else ()


def _instant(text: str) -> datetime | None:
    return parse_instant(text) if text else None
