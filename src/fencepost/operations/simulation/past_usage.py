"""What runs have needed so far: durations and costs from a store's own records."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from statistics import mean, median
from typing import TYPE_CHECKING

from fencepost.model.budget import MicroUsd
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, agent_from_json, schedule_from_json
from fencepost.operations.phrases import counted
from fencepost.operations.simulation.scenario import Expected

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads
    from fencepost.stores.runtime import RuntimeStore

SCHEDULES_MAX = 100_000
LOOKED_AT = 200  # the newest runs of a schedule


def applied(store: "RuntimeStore", tenant: str) -> tuple[dict[str, AgentDefinition], dict[str, ScheduleDefinition]]:
    """Return the agents and schedules that are in force, each schedule with the agent of its own version."""
    rows = store.registry().schedules(tenant, limit=SCHEDULES_MAX).schedules
    active = [row for row in rows if row.retired_us is None and not row.once_done]
    agents = {row.agent: agent_from_json(row.manifest) for row in active}
    return agents, {row.name: schedule_from_json(row.definition) for row in active}


def expected_of(store: "RuntimeStore", tenant: str, schedules: Iterable[str]) -> dict[str, Expected]:
    """Return what the last runs of each schedule needed: the usual duration, the mean cost; nothing for unknown ones."""
    look = store.reads(tenant)
    found = {name: _expected(look, name) for name in schedules}
    return {name: one for name, one in found.items() if one is not None}


def _expected(look: "SqlReads", schedule: str) -> Expected | None:
    runs = look.runs(state="succeeded", schedule=schedule, limit=LOOKED_AT)
    took = [one.ended_us - one.started_us for one in runs if one.started_us is not None and one.ended_us is not None]
    if not took:
        return None
    usual = timedelta(microseconds=max(1, round(median(took))))
    expected = Expected(usual, f"median of {counted(len(took), 'run')}")
    costs = [one.cost_micro for one in runs if one.cost_micro is not None]
    if costs:
        expected = replace(
            expected, cost=MicroUsd(round(mean(costs))), cost_from=f"mean of {counted(len(costs), 'run')}"
        )
    return expected
