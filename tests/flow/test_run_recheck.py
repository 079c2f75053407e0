"""The second look as a function: what holds now decides, and what a run has reserved is its own."""

import json
from typing import Any

import pytest

from fencepost.flow.run_recheck import claim_for, recheck_for, understood
from fencepost.model.budget import Counted
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, to_json
from fencepost.model.lease import Claim
from fencepost.model.run import Reason
from fencepost.ports.runs import RunRow, Standing
from tests.support.runtime import MYSELF, Runtime, us

NOON = us("2027-01-15T12:00:00")
MINUTE = 60_000_000
BLANK: dict[str, Any] = dict.fromkeys(RunRow._fields)


def run(*, agent: AgentDefinition | None = None, **fields: Any) -> RunRow:  # noqa: ANN401  # of the row
    values = {
        "id": "r1",
        "tenant": "default",
        "agent": "agent",
        "schedule": "s",
        "trigger": "cron",
        "manifest": to_json(agent or AgentDefinition("agent", command=("true",))),
        "resources": json.dumps([["*", "project:p"], ["default", "schedule:s"]]),
        "waiting_us": NOON - MINUTE,
        "counted_us": NOON - MINUTE,
        "reserved_micro": 0,
    }
    return RunRow(**{**BLANK, **values, **fields})


def standing(*, once_done: bool = False, spending: tuple[Counted, ...] = (), **fields: Any) -> Standing:  # noqa: ANN401
    flags = {name: fields.pop(name) for name in ("in_force", "paused", "halted") if name in fields}
    definition = to_json(ScheduleDefinition("s", "agent", cron="* * * * *", timezone="UTC", **fields))
    facts = {"in_force": True, "paused": False, "halted": False, **flags}
    return Standing(NOON, definition, once_done=once_done, spending=spending, **facts)


def test_what_is_as_it_was_may_go() -> None:
    assert recheck_for(run(), standing()) is None


def test_a_run_without_a_schedule_may_go_while_its_agent_is_in_force() -> None:
    alone = run(schedule=None, trigger="manual")
    assert recheck_for(alone, Standing(NOON, None, in_force=True, paused=False, halted=False)) is None
    gone = Standing(NOON, None, in_force=False, paused=False, halted=False)
    assert recheck_for(alone, gone) is Reason.DISABLED


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"in_force": False}, Reason.DISABLED),
        ({"enabled": False}, Reason.DISABLED),
        ({"paused": True}, Reason.PAUSED),
        ({"calendar": ("FRI 11:59-12:01",)}, Reason.CALENDAR),
        ({"once": True, "once_done": True}, Reason.DISABLED),
    ],
)
def test_each_reason_ends_a_tick_that_has_not_started_and_none_that_has(facts: dict[str, Any], reason: Reason) -> None:
    assert recheck_for(run(), standing(**facts)) is reason
    assert recheck_for(run(started_us=NOON - 1), standing(**facts)) is None


@pytest.mark.parametrize("trigger", ["manual", "webhook", "replay", "backfill"])
@pytest.mark.parametrize("facts", [{"paused": True}, {"calendar": ("FRI",)}, {"once": True, "once_done": True}])
def test_what_was_asked_for_on_purpose_is_not_about_the_clock(trigger: str, facts: dict[str, Any]) -> None:
    assert recheck_for(run(trigger=trigger), standing(**facts)) is None


def test_a_blackout_is_in_the_zone_of_the_schedule() -> None:
    assert recheck_for(run(), standing(calendar=("FRI 12:00-13:00",))) is Reason.CALENDAR
    berlin = ScheduleDefinition("s", "agent", cron="* * * * *", timezone="Europe/Berlin", calendar=("FRI 12:00-13:00",))
    assert recheck_for(run(), standing()._replace(definition=to_json(berlin))) is None


def test_waiting_too_long_comes_before_everything_else() -> None:
    patient = AgentDefinition("agent", command=("true",), queue_timeout="1m")
    assert recheck_for(run(agent=patient), standing(paused=True)) is Reason.QUEUE_TIMEOUT
    assert recheck_for(run(agent=patient, waiting_us=NOON - MINUTE + 1), standing()) is None
    assert recheck_for(run(agent=patient, started_us=1), standing()) is None


def test_budgets_count_the_day_and_the_month_in_which_the_run_was_reserved() -> None:
    dear = run(agent=AgentDefinition("agent", command=("true",), budget_usd="2"), reserved_micro=2_000_000)
    today, yesterday = Counted(NOON - 2 * MINUTE, 2_000_000), Counted(NOON - 24 * 60 * MINUTE, 2_000_000)
    assert recheck_for(dear, standing(budget_usd_per_day="4", spending=(today,))) is None
    assert recheck_for(dear, standing(budget_usd_per_day="3", spending=(today,))) is Reason.BUDGET
    assert recheck_for(dear, standing(budget_usd_per_day="3", spending=(yesterday,))) is None
    assert recheck_for(dear, standing(budget_usd_per_month="3", spending=(yesterday,))) is Reason.BUDGET
    assert (
        recheck_for(dear._replace(started_us=1), standing(budget_usd_per_day="3", spending=(today,))) is Reason.BUDGET
    )


def test_the_hour_is_full_only_with_those_who_were_counted_before() -> None:
    before, later = Counted(NOON - 30 * MINUTE, 0), Counted(NOON, 0)
    assert recheck_for(run(), standing(max_runs_per_hour=1, spending=(later,))) is None
    assert recheck_for(run(), standing(max_runs_per_hour=1, spending=(before,))) is Reason.BUDGET


def test_a_claim_asks_for_what_the_run_needs_and_what_the_worker_adds() -> None:
    claim = claim_for(
        run(),
        lease_id="l",
        supervisor=MYSELF,
        guard=MYSELF,
        cgroup="/c",
        ttl_seconds=30,
        gates=("file:x",),
        label="agent",
        also=("repo:r",),
    )
    assert (claim.id, claim.run_id, claim.tenant, claim.ttl_seconds) == ("l", "r1", "default", 30)
    assert claim.resources == ("project:p", "schedule:s", "repo:r")
    assert (claim.gates, claim.cgroup, claim.guard, claim.label) == (("file:x",), "/c", MYSELF, "agent")


def test_a_run_that_a_newer_program_defined_is_left_to_a_newer_worker(runtime: Runtime) -> None:
    runtime.cron("a", priority=5)
    runtime.cron("b")
    runtime.tick_at("2027-01-15T08:01:00")
    newer = '{"command":["true"],"name":"agent","from_tomorrow":1}'
    runtime.sql("UPDATE $run SET manifest = ? WHERE schedule = 'a'", newer)

    def claim(run: RunRow) -> Claim | None:
        return claim_for(run, lease_id="l", supervisor=MYSELF, ttl_seconds=30) if understood(run) else None

    leased = runtime.store.lease_run(claim, recheck_for)
    assert leased is not None
    assert leased.run.schedule == "b", "it keeps nobody else waiting"
    (left,) = runtime.runs("a")
    assert (left.state, left.attempt) == ("ready", 0)
