"""Concurrency keys on both stores: as many runs with one key as its limit says, whatever their schedule."""

import threading
from dataclasses import replace

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.registry_plan import want
from fencepost.ports.runs import LeasedRun, Report
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import Rig
from tests.support.runtime import SUCCEEDED, Runtime, together

START = "2027-01-15T08:00"


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    found = Runtime(rig)
    found.go_to(START)
    return found


def due(runtime: Runtime, *names: str, key: str = "openai", limit: int | None = 2, tenant: str = "default") -> None:
    """Have one run of each schedule ready."""
    for name in names:
        runtime.cron(name, tenant=tenant, concurrency_key=key, concurrency=limit)
    runtime.pass_time(60)
    runtime.tick()


def key_of(leased: LeasedRun) -> str:
    return next(name for name in leased.lease.resources if name.startswith("key:"))


def test_as_many_runs_with_a_key_go_at_once_as_its_limit_says(runtime: Runtime) -> None:
    due(runtime, "a", "b", "c")
    first, second = runtime.leased(), runtime.leased()
    assert {key_of(first), key_of(second)} == {"key:openai/1", "key:openai/2"}
    assert runtime.lease() is None
    runtime.settle(first)
    assert key_of(runtime.leased()) == key_of(first)


def test_whoever_waited_longest_for_a_key_goes_first(runtime: Runtime) -> None:
    runtime.cron("a", concurrency_key="k", concurrency=2, overlap="allow_parallel", parallel_max=50)
    for _ in range(6):
        runtime.pass_time(60)
        runtime.tick()
    order = [run.id for run in runtime.runs("a")]
    served = []
    held = [runtime.leased(), runtime.leased()]
    while held:
        served.append(held[0].run.id)
        runtime.settle(held.pop(0))
        if more := runtime.lease():
            held.append(more)
    assert served == order


def test_a_full_key_hides_nobody_behind_it(runtime: Runtime) -> None:
    due(runtime, *(f"k{number}" for number in range(30)), limit=1)
    runtime.cron("free")
    runtime.leased(ttl=300)
    runtime.pass_time(60)
    runtime.tick()
    assert runtime.leased().run.schedule == "free"


def test_one_tenants_key_is_not_anothers(runtime: Runtime) -> None:
    due(runtime, "a", limit=1)
    due(runtime, "a", limit=1, tenant="other")
    assert {runtime.leased().run.tenant, runtime.leased().run.tenant} == {"default", "other"}


def test_a_key_is_not_another_that_begins_alike(runtime: Runtime) -> None:
    due(runtime, "a", key="open", limit=1)
    due(runtime, "b", key="open-ai", limit=1)
    due(runtime, "c", key="open0", limit=2)
    assert {runtime.leased().run.schedule for _ in range(3)} == {"a", "b", "c"}


def test_a_lease_whose_time_is_up_gives_its_slot_to_the_next(runtime: Runtime) -> None:
    due(runtime, "a", "b", limit=1)
    lost = runtime.leased(ttl=5)
    assert runtime.lease() is None
    runtime.pass_time(6)
    assert key_of(runtime.leased()) == key_of(lost)


def edit(runtime: Runtime, limit: int, *names: str) -> None:
    """Change the limit for all of these, and have one run of each ready."""
    known = runtime.definitions["default"]
    runtime.apply(*(replace(known.get(name, known["a"]), name=name, concurrency=limit) for name in names))
    runtime.pass_time(60)
    runtime.tick()


def test_a_lowered_limit_counts_the_runs_that_came_before(runtime: Runtime) -> None:
    due(runtime, "a", "b", limit=3)
    old = [runtime.leased(ttl=300), runtime.leased(ttl=300)]
    edit(runtime, 1, "a", "b", "c")
    assert runtime.lease() is None
    runtime.settle(old[0])
    assert runtime.lease() is None
    runtime.settle(old[1])
    assert key_of(runtime.leased()) == "key:openai"
    assert runtime.lease() is None


def test_a_raised_limit_waits_for_a_run_that_had_the_key_for_itself(runtime: Runtime) -> None:
    due(runtime, "a", limit=1)
    old = runtime.leased(ttl=300)
    edit(runtime, 2, "a", "b", "c")
    assert runtime.lease() is None
    runtime.settle(old)
    assert {key_of(runtime.leased()), key_of(runtime.leased())} == {"key:openai/1", "key:openai/2"}


def test_two_files_that_disagree_about_a_limit_are_told_both_names(runtime: Runtime) -> None:
    registry = SqlRegistry(runtime.rig.store.dialect)
    agent = {"agent": AgentDefinition("agent", command=("true",))}
    mine = ScheduleDefinition("mine", "agent", cron="0 0 * * *", timezone="UTC", concurrency_key="k", concurrency=2)
    registry.apply(want("default", "/a.toml", agents=agent, schedules={"mine": mine}), actor="test")
    other = replace(mine, name="yours", concurrency=3)
    with pytest.raises(Invalid, match=r'"yours" lets 3 .*"k".*"mine" in /a\.toml 2'):
        registry.apply(want("default", "/b.toml", agents={}, schedules={"yours": other}), actor="test")
    agreed = replace(other, concurrency=2)
    registry.apply(want("default", "/b.toml", agents={}, schedules={"yours": agreed}), actor="test")
    elsewhere = want("other", "/b.toml", agents=agent, schedules={"yours": other})
    registry.apply(elsewhere, actor="test")


def test_workers_that_lease_at_the_same_moment_never_exceed_the_limit(runtime: Runtime) -> None:
    limit, number = 3, 24
    due(runtime, *(f"s{one}" for one in range(number)), limit=limit)
    lock = threading.Lock()
    held: set[str] = set()
    most = 0

    def work(seed: int) -> None:
        nonlocal most
        store = runtime.another()
        while "ready" in runtime_states(store):
            found = runtime.lease(store)
            if found is None:
                continue
            with lock:
                assert key_of(found) not in held
                held.add(key_of(found))
                most = max(most, len(held))
            threading.Event().wait(0.01 * (seed % 4))
            with lock:
                held.discard(key_of(found))
            store.settle(found.lease, SUCCEEDED, Report("succeeded"), clean=True)

    together(work, list(range(6)))
    assert most <= limit  # that several go at once is shown above, without luck
    assert runtime.states() == ["succeeded"] * number


def runtime_states(store: RuntimeStore) -> set[str]:
    return {run.state for run in store.runs(tenant="default", limit=1000)}
