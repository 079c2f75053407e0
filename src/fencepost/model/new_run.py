"""A run to be put into the queue, and its one maker: for ticks, requests, webhooks, replays and backfills alike."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import NamedTuple

from fencepost.model.budget import Reservation
from fencepost.model.decide import Policies
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    agent_from_json,
    policies_of,
    schedule_from_json,
    timeouts_of,
)
from fencepost.model.errors import Unknown
from fencepost.model.instants import EPOCH, to_us
from fencepost.model.nearest_name import nearest
from fencepost.model.overlap import OverlapRule
from fencepost.model.run import TriggerKind
from fencepost.model.slots import spell_resources

KEY_FORM = "fencepost-run-1"
RECIPES_KEPT = 256


class NewRun(NamedTuple):
    """A run to be put into the queue."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    version: int | None
    trigger: str
    occurrence: str | None
    tick_us: int | None
    period_start_us: int | None
    period_end_us: int | None
    backfill_from_us: int | None
    last_success_us: int | None
    idempotency_key: str
    manifest: str
    manifest_hash: str
    payload: str
    resources: str
    lease_max: int
    lines_up: bool
    priority: int
    ready_us: int
    counted_us: int
    reserved_micro: int = 0
    request_key: str | None = None
    origin: str | None = None
    queue_for_us: int | None = None  # how long it may wait for its first start
    in_process: bool = False  # whether a lane carries it out


class RunTarget(NamedTuple):
    """What shall run; without a schedule it is an agent alone."""

    agent: str
    manifest: str
    manifest_hash: str
    schedule: str | None = None
    version: int | None = None
    definition: str | None = None
    cursor_us: int = 0
    last_success_us: int | None = None
    is_kept: bool = False  # whether the store keeps the manifest, with a note that it was used of late


def unknown_target(name: str, kinds: Mapping[str, str], retired: Collection[str]) -> Unknown:
    """Return the error for a name that nothing which may run has; `kinds` says which names are schedules or agents."""
    if name in retired:
        return Unknown(f"{name!r} is retired: its file no longer defines it. Define it again, then: fencepost apply")
    near = nearest(name, kinds)
    hint = f"did you mean {kinds[near]} {near!r}?" if near else "see: fencepost schedule list"
    return Unknown(f"there is no schedule or agent {name!r}; {hint}")


@dataclass(frozen=True, slots=True)
class RunRecipe:
    """What a target comes to: who runs, and under which policies."""

    target: RunTarget
    agent: AgentDefinition
    schedule: ScheduleDefinition | None
    policies: Policies

    @classmethod
    @lru_cache(maxsize=RECIPES_KEPT)
    def of(cls, target: RunTarget) -> "RunRecipe":
        """Read a target's definitions."""
        agent = agent_from_json(target.manifest)
        schedule = schedule_from_json(target.definition) if target.definition is not None else None
        no_schedule = ScheduleDefinition(name="", agent=target.agent)
        return cls(target, agent, schedule, policies_of(schedule or no_schedule, agent))


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
    backfill_from_us: int | None = None,
    lines_up: bool = False,
) -> NewRun:
    """Make a run of what is to run, what asked for it, and what it stands for."""
    target, schedule = recipe.target, recipe.schedule
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
        backfill_from_us=backfill_from_us if trigger.tick_born else target.last_success_us,
        last_success_us=target.last_success_us,
        idempotency_key=idempotency_key,
        manifest=target.manifest,
        manifest_hash=target.manifest_hash,
        payload=payload if isinstance(payload, str) else json.dumps(usual if payload is None else payload),
        resources=resources_of(tenant, schedule, recipe.policies, run_id),
        # Of two runs of a one-shot that were leased, both could start before either has said so.
        lease_max=1 if trigger.tick_born and schedule and schedule.once else recipe.policies.overlap.lease_max,
        lines_up=lines_up,
        priority=priority if priority is not None else schedule.priority if schedule else 0,
        ready_us=ready_us,
        counted_us=to_us(reservation.counted_at),
        reserved_micro=reservation.amount,
        request_key=request_key,
        origin=origin,
        queue_for_us=queue_for_us(recipe.agent),
        in_process=goes_into_a_lane(recipe.agent, schedule),
    )


def resources_of(tenant: str, schedule: ScheduleDefinition | None, policies: Policies, run_id: str) -> str:
    """Spell what a run leases: its schedule; under `allow_parallel`, or without a schedule, only itself."""
    if schedule is None:
        return spell_resources(tenant, [f"run:{run_id}"])
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
