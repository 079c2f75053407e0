"""One line for each project, in both stores: runs of every tenant and commands in a terminal, by one order."""

import pytest

from fencepost.flow.leasing import claim_for, recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.lease import Granted, Refused
from fencepost.model.outcome import Settlement
from fencepost.model.project import Workplace
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import LeasedRun
from tests.stores.rig import Rig, claim
from tests.stores.test_runs_lease import agent_run
from tests.support.runtime import MYSELF, Runtime, new_id

PROJECT = "project:here"
TENANTS = ("default", "other", "third")


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    made = Runtime(rig)
    for tenant in TENANTS:
        made.apply(AgentDefinition("agent", command=("true",), project="p"), tenant=tenant)
    made.sql("DELETE FROM $workplace")
    return made


def places(slots: int = 1, *, isolated: bool = False) -> tuple[Workplace, ...]:
    return tuple(Workplace(tenant, "p", PROJECT, "/here", slots, isolated) for tenant in TENANTS)


def reach(runtime: Runtime, slots: int = 1) -> None:
    runtime.store.keep_workplaces("worker", MYSELF, places(slots), ttl_seconds=30)


def lease(runtime: Runtime, slots: int = 1) -> LeasedRun | None:
    return runtime.store.lease_run(
        lambda run: claim_for(
            run, lease_id=f"l-{new_id()}", supervisor=MYSELF, ttl_seconds=30, also=(PROJECT,), slots=slots
        ),
        recheck_for,
        places=places(slots),
    )


def leased(runtime: Runtime, slots: int = 1) -> LeasedRun:
    found = lease(runtime, slots)
    assert found is not None
    return found


def test_tenants_do_not_take_turns_inside_a_project(runtime: Runtime) -> None:
    reach(runtime)
    ids = [
        agent_run(runtime, tenant=tenant, ready_in=-10 + number)
        for number, tenant in enumerate(["default", "default", "other", "default", "third"])
    ]
    done = []
    for _ in ids:
        found = leased(runtime)
        assert lease(runtime) is None
        done.append(found.run.id)
        runtime.settle(found)
    assert done == ids


def test_a_command_stands_between_the_runs_that_came_before_and_after_it(runtime: Runtime) -> None:
    reach(runtime)
    before = agent_run(runtime, ready_in=-1)
    mine = claim(PROJECT)
    runtime.store.enqueue(mine, "ticket")
    runtime.pass_time(1)
    after = agent_run(runtime, tenant="other")
    refused = runtime.store.acquire(mine, ticket="ticket")
    assert isinstance(refused, Refused)
    assert [one.run_id for one in refused.ahead] == [before]

    runtime.settle(leased(runtime))
    assert lease(runtime) is None
    granted = runtime.store.acquire(mine, ticket="ticket")
    assert isinstance(granted, Granted)
    assert lease(runtime) is None
    runtime.store.release(granted.lease, clean=True)
    assert leased(runtime).run.id == after


def test_a_run_that_comes_back_after_a_drain_is_at_the_head(runtime: Runtime) -> None:
    reach(runtime)
    first = agent_run(runtime, ready_in=-2)
    agent_run(runtime, tenant="other", ready_in=-1)
    found = leased(runtime)
    runtime.settle(found, Settlement(RunState.READY, Reason.DRAINED, ready_at=runtime.now, uses_attempt=False))
    assert leased(runtime).run.id == first


def test_runs_that_no_living_worker_reaches_stand_in_nobodys_way(runtime: Runtime) -> None:
    reach(runtime)
    agent_run(runtime, ready_in=-1)
    assert isinstance(runtime.store.look(claim(PROJECT)), Refused)
    assert runtime.store.look(claim(PROJECT), dead={"worker"}) is None
    runtime.pass_time(31)
    assert runtime.store.look(claim(PROJECT)) is None
    reach(runtime)
    runtime.store.leave_workplaces("worker")
    assert runtime.store.look(claim(PROJECT)) is None


def test_a_project_with_two_places_takes_two_and_gives_each_its_own_fence(runtime: Runtime) -> None:
    reach(runtime, 2)
    for number in range(3):
        agent_run(runtime, ready_in=-9 + number)
    first, second = leased(runtime, 2), leased(runtime, 2)
    assert lease(runtime, 2) is None
    assert PROJECT in first.lease.resources
    assert f"{PROJECT}#2" in second.lease.resources
    assert isinstance(runtime.store.acquire(claim(PROJECT)._replace(slots=2)), Refused)
    runtime.settle(first)
    assert PROJECT in leased(runtime, 2).lease.resources


def test_a_worker_that_cannot_reach_a_project_is_not_offered_its_runs(runtime: Runtime) -> None:
    agent_run(runtime, ready_in=-1)
    assert runtime.lease() is None
