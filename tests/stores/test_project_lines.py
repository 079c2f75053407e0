"""One line for each project, in both stores: runs of every tenant and commands in a terminal, by one order."""

import pytest

from fencepost.flow.run_recheck import claim_for, recheck_for
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


def granted(runtime: Runtime, *, slots: int, gates: tuple[str, ...] = ()) -> Granted:
    answer = runtime.store.acquire(claim(PROJECT)._replace(slots=slots, gates=gates))
    assert isinstance(answer, Granted)
    return answer


def test_whoever_comes_next_fences_off_every_free_place_whose_holder_was_lost(runtime: Runtime) -> None:
    first, second, third = (granted(runtime, slots=3, gates=gates) for gates in ((), ("file:/two",), ("file:/three",)))
    runtime.store.start(second.lease)
    runtime.store.start(third.lease)
    runtime.store.release(second.lease, clean=False)
    runtime.store.release(first.lease, clean=True)

    after = granted(runtime, slots=3)

    assert after.lease.resources == (PROJECT,)
    assert after.lease.fenced == (f"{PROJECT}#2",), "the third is at work, and nobody's business"
    assert after.lease.gates == ("file:/two",)
    assert [one.id for one in after.predecessors] == [second.lease.id]
    again = runtime.store.acquire(claim(PROJECT)._replace(id=after.lease.id, slots=3))
    assert isinstance(again, Granted)
    assert again.lease == after.lease._replace(owed=None)
    runtime.store.start(after.lease)
    runtime.store.release(after.lease, clean=True)
    assert granted(runtime, slots=3).lease.gates == ()
    assert granted(runtime, slots=3).lease.fence > after.lease.fence


def test_a_place_stays_fenced_off_until_somebody_started_there_and_ended_well(runtime: Runtime) -> None:
    first, second = granted(runtime, slots=2), granted(runtime, slots=2, gates=("file:/two",))
    runtime.store.start(second.lease)
    runtime.store.release(second.lease, clean=False)
    runtime.store.release(first.lease, clean=True)

    runtime.store.release(granted(runtime, slots=2).lease, clean=True)  # it never started, and may have raised nothing

    assert granted(runtime, slots=2).lease.gates == ("file:/two",)


def test_a_gate_that_is_gone_is_forgotten_for_all_places_of_a_project(runtime: Runtime) -> None:
    first, second = granted(runtime, slots=2), granted(runtime, slots=2, gates=("file:/gone", "file:/here"))
    runtime.store.start(second.lease)
    runtime.store.release(second.lease, clean=False)
    runtime.store.release(first.lease, clean=True)

    assert runtime.store.forget_gate("default", PROJECT, "file:/gone")
    assert not runtime.store.forget_gate("default", PROJECT, "file:/gone")

    assert granted(runtime, slots=2).lease.gates == ("file:/here",)


def test_a_project_that_lets_fewer_in_than_before_waits_for_those_who_are_in(runtime: Runtime) -> None:
    first, second, third = (granted(runtime, slots=3) for _ in range(3))
    runtime.store.release(first.lease, clean=True)

    assert isinstance(runtime.store.acquire(claim(PROJECT)._replace(slots=2)), Refused)
    assert isinstance(runtime.store.look(claim(PROJECT)), Refused)
    reach(runtime)
    agent_run(runtime, ready_in=-1)
    assert lease(runtime) is None
    runtime.store.release(third.lease, clean=True)
    assert lease(runtime) is None
    runtime.store.release(second.lease, clean=True)
    assert lease(runtime) is not None


def test_a_worker_that_cannot_reach_a_project_is_not_offered_its_runs(runtime: Runtime) -> None:
    agent_run(runtime, ready_in=-1)
    assert runtime.lease() is None
