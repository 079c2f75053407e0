"""Runs that somebody asked for, spelled as rows; ticks make theirs in the ticker."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from json.encoder import encode_basestring_ascii

from fencepost.flow.tick_rows import goes_into_a_lane, queue_for_us, resources_of
from fencepost.model.budget import BudgetDenied, Reservation, reserve, spend_of
from fencepost.model.decide import Policies
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    agent_from_json,
    policies_of,
    schedule_from_json,
    trigger_of,
)
from fencepost.model.errors import Busy
from fencepost.model.moment import from_us, to_us
from fencepost.model.run import TriggerKind
from fencepost.model.slots import spell_resources
from fencepost.model.trigger import EveryTrigger
from fencepost.ports.requests import Grounds, RunTarget
from fencepost.ports.ticks import NewRun

KEY_FORM = "fencepost-run-1"


@dataclass(frozen=True, slots=True)
class RunRecipe:
    """What a target comes to: who runs, and under which policies."""

    target: RunTarget
    agent: AgentDefinition
    schedule: ScheduleDefinition | None
    policies: Policies

    @classmethod
    def of(cls, target: RunTarget) -> "RunRecipe":
        """Read a target's definitions."""
        agent = agent_from_json(target.manifest)
        schedule = schedule_from_json(target.definition) if target.definition is not None else None
        nobodys = ScheduleDefinition(name="", agent=target.agent)
        return cls(target, agent, schedule, policies_of(schedule or nobodys, agent))


@dataclass(frozen=True, slots=True)
class Stretch:
    """The tick that a run stands for, and what it covers; a run without one stands for itself."""

    tick_us: int | None = None
    occurrence: str | None = None
    start_us: int | None = None
    end_us: int | None = None


def make_run(
    recipe: RunRecipe,
    *,
    run_id: str,
    tenant: str,
    trigger: TriggerKind,
    ready_us: int,
    idempotency_key: str,
    reservation: Reservation,
    stretch: Stretch = Stretch(),  # frozen
    payload: Mapping[str, object] | str | None = None,
    priority: int | None = None,
    request_key: str | None = None,
    origin: str | None = None,
) -> NewRun:
    """Spell a run that was asked for."""
    target, schedule = recipe.target, recipe.schedule
    leases = (
        resources_of(tenant, schedule, recipe.policies, run_id)
        if schedule
        else spell_resources(tenant, [f"run:{run_id}"])
    )
    usual = schedule.payload if schedule else {}
    return NewRun(
        id=run_id,
        tenant=tenant,
        agent=target.agent,
        schedule=target.schedule,
        version=target.version,
        trigger=trigger.value,
        occurrence=stretch.occurrence,
        tick_us=stretch.tick_us,
        period_start_us=stretch.start_us,
        period_end_us=stretch.end_us,
        backfill_from_us=target.last_success_us,
        last_success_us=target.last_success_us,
        idempotency_key=idempotency_key,
        manifest=target.manifest,
        manifest_hash=target.manifest_hash,
        payload=payload if isinstance(payload, str) else json.dumps(usual if payload is None else payload),
        resources=leases,
        lease_max=recipe.policies.overlap.lease_max,
        lines_up=False,
        priority=priority if priority is not None else schedule.priority if schedule else 0,
        ready_us=ready_us,
        counted_us=to_us(reservation.counted_at),
        reserved_micro=reservation.amount,
        request_key=request_key,
        origin=origin,
        queue_for_us=queue_for_us(recipe.agent),
        in_process=goes_into_a_lane(recipe.agent, schedule),
    )


def own_key(*parts: object) -> str:
    """Return an idempotency key for a run that shares no tick's: the same for the same parts."""
    return own_keys(*parts[:-1])(str(parts[-1]))


def own_keys(*parts: object) -> Callable[[str], str]:
    """Return a maker of such keys that differ in their last part only."""
    common = sha256(json.dumps([KEY_FORM, *map(str, parts)], separators=(",", ":"))[:-1].encode("ascii"))

    def key(last: str) -> str:
        whole = common.copy()
        whole.update(f",{encode_basestring_ascii(last)}]".encode("ascii"))
        return whole.hexdigest()

    return key


def afford(recipe: RunRecipe, grounds: Grounds, *, counted_at: datetime | None = None) -> Reservation:
    """Set the budget of one run aside, or refuse up front and say which limit is in the way."""
    at = counted_at or from_us(grounds.now_us)
    timezone = recipe.schedule.timezone if recipe.schedule else None
    reservation = reserve(recipe.policies.budget, spend_of(grounds.spending, timezone, at), at=at)
    if isinstance(reservation, BudgetDenied):
        name = recipe.target.schedule or recipe.target.agent
        raise Busy(f"{name} is over its budget: {reservation.message}")
    return reservation


def period_of(schedule: ScheduleDefinition, tick: datetime) -> tuple[datetime, datetime]:
    """Return what a tick covers; `every` knows only where its own ticks ended."""
    trigger = trigger_of(schedule)
    return (tick, tick) if isinstance(trigger, EveryTrigger) else trigger.period(tick)
