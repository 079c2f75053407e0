"""Run → lease: what a worker asks for, and the second look before it gets it."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from fencepost.model.budget import BudgetDenied, BudgetPolicy, Reservation, reserve, spend_of
from fencepost.model.calendar import Calendar
from fencepost.model.definition import (
    ScheduleDefinition,
    agent_from_json,
    calendar_of,
    policies_of,
    schedule_from_json,
    timeouts_of,
)
from fencepost.model.errors import Misconfigured
from fencepost.model.instants import from_us
from fencepost.model.lease import Claim, Turn
from fencepost.model.process import ProcessId
from fencepost.model.recheck import Recheck, recheck
from fencepost.model.retry import Timeouts
from fencepost.model.run import Reason, TriggerKind
from fencepost.model.slots import names_of
from fencepost.ports.runs import RunRow, Standing

DEFINITIONS_KEPT = 10_000


def claim_for(
    run: RunRow,
    *,
    lease_id: str,
    supervisor: ProcessId,
    guard: ProcessId | None = None,
    cgroup: str | None = None,
    ttl_seconds: float,
    gates: tuple[str, ...] = (),
    label: str = "",
    also: Sequence[str] = (),
    slots: int = 1,
) -> Claim:
    """Return what a worker claims for a run; `also` names what only the worker knows, such as its project."""
    names = names_of(run.resources)
    return Claim(
        id=lease_id,
        tenant=run.tenant,
        resources=(*names, *also),
        run_id=run.id,
        ttl_seconds=ttl_seconds,
        supervisor=supervisor,
        guard=guard,
        cgroup=cgroup,
        label=label,
        gates=gates,
        turn=Turn(run.rank, run.place_us, run.id),
        slots=slots,
    )


def understood(run: RunRow, definition: str | None = None) -> bool:
    """Tell whether this program knows every word of what it shall run; if not, a newer worker will take it."""
    try:
        _timeouts(run.manifest)
        if definition is not None:
            _schedule(definition)
    except Misconfigured:
        return False
    return True


def recheck_for(run: RunRow, standing: Standing) -> Reason | None:
    """Return why a ready run must end instead of starting, by what holds now; None: go, if it is `understood`."""
    if not understood(run, standing.definition):
        return None
    if _waited_too_long(run, standing):
        return Reason.QUEUE_TIMEOUT
    trigger = TriggerKind(run.trigger)
    schedule = _schedule(standing.definition) if standing.definition is not None else None
    now = from_us(standing.now_us)
    return recheck(
        Recheck(
            trigger=trigger,
            started=run.started_us is not None,
            enabled=_enabled(trigger, schedule, standing),
            paused=standing.paused,
            in_blackout=_in_blackout(standing.definition, now) if schedule and schedule.calendar else False,
            budget=_budget(run, schedule, standing),
        )
    )


def _waited_too_long(run: RunRow, standing: Standing) -> bool:
    """Look only at runs that never started: what was begun is not given up because its retry had to wait."""
    if run.started_us is not None:
        return False
    waited_for = from_us(standing.now_us) - from_us(run.waiting_us)
    return _timeouts(run.manifest).waited_too_long(waited_for) is not None


def _enabled(trigger: TriggerKind, schedule: ScheduleDefinition | None, standing: Standing) -> bool:
    if not standing.in_force or schedule is None:
        return standing.in_force
    spent = schedule.once and standing.once_done and trigger.tick_born
    return schedule.enabled and not spent


def _budget(run: RunRow, schedule: ScheduleDefinition | None, standing: Standing) -> Reservation | BudgetDenied:
    """Ask again for what the run has reserved, with its own reservation left out of what is spent."""
    policy = _policy(run.manifest, standing.definition)
    at, timezone = from_us(run.counted_us), schedule.timezone if schedule else None
    return reserve(policy, spend_of(standing.spending, timezone, at, later=False), at=at)


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _policy(manifest: str, definition: str | None) -> BudgetPolicy:
    """Take the limits of the schedule as it is now, and the budget of one run as it was reserved."""
    agent = agent_from_json(manifest)
    nobodys = ScheduleDefinition(name="", agent=agent.name)
    return policies_of(_schedule(definition) if definition is not None else nobodys, agent).budget


def _in_blackout(definition: str | None, now: datetime) -> bool:
    calendar = _calendar(definition) if definition is not None else None
    return calendar is not None and calendar.covering(now) is not None


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _schedule(definition: str) -> ScheduleDefinition:
    return schedule_from_json(definition)


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _calendar(definition: str) -> Calendar | None:
    return calendar_of(_schedule(definition))


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _timeouts(manifest: str) -> Timeouts:
    return timeouts_of(agent_from_json(manifest))
