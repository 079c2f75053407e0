"""What a run costs, on both stores: set aside before, settled with what its attempts report."""

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from tests.stores.rig import Rig
from tests.support.runtime import SUCCEEDED, Runtime

AGAIN = Settlement(RunState.READY, Reason.RETRY)


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    """An agent that may cost a dollar a run, and a schedule that may cost three a day."""
    found = Runtime(rig)
    found.go_to("2027-01-15T08:00")
    found.apply(AgentDefinition("agent", command=("true",), budget_usd="1", max_attempts=3))
    found.cron("s", budget_usd_per_day="3", overlap="allow_parallel", parallel_max=50, missed="replay")
    return found


def settled(runtime: Runtime, cost_micro: int | None) -> None:
    runtime.settle(runtime.leased(start=True), cost_micro=cost_micro)


def minute(runtime: Runtime, number: int = 1) -> list[str]:
    for _ in range(number):
        runtime.pass_time(60)
        runtime.tick()
    return runtime.kinds()[-number:]


def test_what_was_reserved_and_not_spent_is_free_again(runtime: Runtime) -> None:
    assert minute(runtime, 4) == ["run", "run", "run", "budget"]
    for _ in range(3):
        settled(runtime, 100_000)
    assert minute(runtime, 4) == ["run", "run", "budget", "budget"]


def test_a_run_that_reports_no_cost_is_charged_what_it_had_reserved(runtime: Runtime) -> None:
    minute(runtime, 3)
    for _ in range(3):
        settled(runtime, None)
    assert minute(runtime) == ["budget"]


def test_the_costs_of_all_attempts_add_up(runtime: Runtime) -> None:
    minute(runtime)
    runtime.settle(runtime.leased(start=True), AGAIN, outcome="failed", cost_micro=700_000)
    assert minute(runtime, 3) == ["run", "budget", "budget"]  # 0.7 spent, and three runs may cost a dollar each
    again = runtime.leased(start=True)
    runtime.settle(again, SUCCEEDED, cost_micro=200_000)
    assert runtime.run(again.run.id).cost_micro == 900_000


def test_a_settlement_that_is_asked_for_again_charges_once(runtime: Runtime) -> None:
    minute(runtime)
    leased = runtime.leased(start=True)
    for _ in range(2):
        runtime.settle(leased, cost_micro=300_000)
    assert runtime.run(leased.run.id).cost_micro == 300_000


def test_the_next_day_begins_with_a_full_budget_also_for_what_is_caught_up(runtime: Runtime) -> None:
    minute(runtime, 3)
    for _ in range(3):
        settled(runtime, 1_000_000)
    runtime.go_to("2027-01-16T00:05:30")
    runtime.tick()
    assert runtime.kinds().count("run") == 3 + 3


def test_runs_that_tell_no_cost_are_counted_by_the_time_their_attempts_take(rig: Rig) -> None:
    runtime = Runtime(rig)
    runtime.go_to("2027-01-15T08:00")
    runtime.apply(AgentDefinition("agent", command=("true",), max_attempts=3))
    runtime.cron("s", "*/10 * * * *", max_time_per_day="5m", overlap="allow_parallel", parallel_max=50)

    runtime.tick_at("2027-01-15T08:10")
    for settlement in (AGAIN, SUCCEEDED):
        leased = runtime.leased(ttl=3600, start=True)
        runtime.pass_time(120)
        runtime.settle(leased, settlement)
    runtime.tick_at("2027-01-15T08:20")
    runtime.leased(ttl=3600, start=True)
    runtime.pass_time(90)
    runtime.tick_at("2027-01-15T08:30")
    assert runtime.kinds() == ["run", "run", "budget"], "four minutes had gone by, and then more than five"

    runtime.tick_at("2027-01-16T00:10")
    assert runtime.kinds()[-1] == "run", "a new day has begun"


def test_a_run_that_waits_is_looked_at_again_for_the_time_that_others_took_meanwhile(rig: Rig) -> None:
    runtime = Runtime(rig)
    runtime.go_to("2027-01-15T08:00")
    runtime.apply(AgentDefinition("agent", command=("true",)))
    runtime.cron("s", max_time_per_day="5m", overlap="queue")
    runtime.tick_at("2027-01-15T08:01")
    first = runtime.leased(ttl=3600, start=True)
    runtime.tick_at("2027-01-15T08:02")
    runtime.pass_time(600)
    runtime.settle(first)

    assert runtime.lease() is None
    assert sorted(run.reason or run.state for run in runtime.runs()) == ["budget", "succeeded"]
