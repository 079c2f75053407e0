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
