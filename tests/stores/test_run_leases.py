"""Which runs are next, and leasing many of them in one transaction that waits for nobody, on both stores."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import StoreUnavailable
from fencepost.model.outcome import Settlement
from fencepost.model.project import Workplace
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import LeasedRun, Offer, Report, RunRow
from tests.stores.counted import counted_statements
from tests.stores.rig import Rig, claim
from tests.stores.test_runs_lease import agent_run
from tests.support.runtime import MYSELF, Runtime, together

BACK = Settlement(RunState.READY, Reason.DRAINED, uses_attempt=False)
PROJECT = "project:here"


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def ids_of(runs: list[RunRow] | list[LeasedRun]) -> list[str]:
    return [one.run.id if isinstance(one, LeasedRun) else one.id for one in runs]


def queue(runtime: Runtime, number: int, tenant: str = "default") -> list[str]:
    return [agent_run(runtime, tenant=tenant, ready_in=-100 + one) for one in range(number)]


# --- whose turn it is


def test_the_next_runs_are_those_that_were_ready_longest_and_nothing_changes(runtime: Runtime) -> None:
    ids = queue(runtime, 5)
    before = runtime.contents()
    assert ids_of(runtime.store.next_runs(3)) == ids[:3]
    assert ids_of(runtime.store.next_runs(9)) == ids
    assert ids_of(runtime.store.next_runs(9, passed=ids[:4])) == ids[4:]
    assert runtime.store.next_runs(0) == []
    assert runtime.contents() == before
    assert runtime.store.next_runs(1) == [runtime.run(ids[0])]


def test_tenants_take_turns_within_one_answer(runtime: Runtime) -> None:
    many, few = queue(runtime, 40, "many"), queue(runtime, 2, "few")
    found = ids_of(runtime.store.next_runs(6))
    assert sorted(found) == sorted([*many[:4], *few])
    assert {found[0], found[1]} == {many[0], few[0]}


def test_a_tenant_that_is_halted_has_no_next_runs(runtime: Runtime) -> None:
    queue(runtime, 2)
    (free,) = queue(runtime, 1, "other")
    runtime.store.registry().halt("default", note="", actor="test")
    assert ids_of(runtime.store.next_runs(9)) == [free]


def test_of_runs_that_want_the_same_only_the_first_is_next(runtime: Runtime) -> None:
    runtime.cron("line", "* * * * * *", overlap="queue", queue_max=100)
    runtime.tick()
    runtime.pass_time(50)
    runtime.tick()
    last = agent_run(runtime)
    first = runtime.runs("line")[0].id
    assert ids_of(runtime.store.next_runs(9)) == [first, last]
    assert ids_of(runtime.store.next_runs(9, passed=[first]))[-1] == last


def test_no_more_runs_of_a_schedule_are_next_than_may_run(runtime: Runtime) -> None:
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=3)
    runtime.cron("k", "* * * * * *", overlap="allow_parallel", parallel_max=9, concurrency_key="k", concurrency=2)
    runtime.tick()
    runtime.pass_time(3)
    runtime.tick()
    found = [run.schedule for run in runtime.store.next_runs(20)]
    assert (found.count("p"), found.count("k")) == (3, 2)


# --- many leases at once


def test_each_run_of_a_batch_has_a_lease_and_a_fence_of_its_own(runtime: Runtime) -> None:
    ids = queue(runtime, 5)
    leased = runtime.lease_batch()
    assert ids_of(leased) == ids
    fences = [one.lease.fence for one in leased]
    assert fences == sorted(set(fences))
    for one in leased:
        run = runtime.run(one.run.id)
        assert one.run == run
        assert (run.state, run.attempt, run.fence, run.lease_id) == ("running", 1, one.lease.fence, one.lease.id)
        assert one.lease.resources == (f"run:{run.id}",)
        assert [(each.number, each.fence) for each in runtime.store.attempts(run.id)] == [(1, one.lease.fence)]
    assert [row["fence"] for row in runtime.audit("lease")] == fences
    assert runtime.store.next_runs(9) == []


def test_no_offer_is_no_lease(runtime: Runtime) -> None:
    assert runtime.store.lease_runs([], recheck_for) == []


def test_a_lease_says_who_keeps_it_and_where_its_guard_waits_and_keeps_the_secret(runtime: Runtime) -> None:
    queue(runtime, 1)
    (leased,) = runtime.lease_batch(keeper="worker-1", adopt_key="secret", keeper_socket="/run/k.sock", guard=MYSELF)
    (held,) = runtime.store.leases()
    assert (held.keeper, held.epoch, held.left_us, held.keeper_socket) == ("worker-1", 0, None, "/run/k.sock")
    assert held.adopt_key is None, "who looks at leases is not told"
    assert runtime.sql("SELECT adopt_key FROM $lease") == [("secret",)]
    assert leased.lease.epoch == 0
    assert "secret" not in repr((held, leased))


def test_a_run_that_another_worker_took_is_not_in_the_answer(runtime: Runtime) -> None:
    ids = queue(runtime, 3)
    runs = runtime.store.next_runs(9)
    first = runtime.store.lease_runs(runtime.offers(runs[:2]), recheck_for)
    second = runtime.store.lease_runs(runtime.offers(runs), recheck_for)
    assert (ids_of(first), ids_of(second)) == (ids[:2], ids[2:])


def test_a_run_that_was_leased_meanwhile_and_comes_back_later_is_not_leased_before_its_time(runtime: Runtime) -> None:
    queue(runtime, 1)
    offers = runtime.offers(runtime.store.next_runs(9))
    (first,) = runtime.lease_batch()
    later = Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now + timedelta(seconds=60))
    runtime.settle(first, later)
    assert runtime.store.lease_runs(offers, recheck_for) == []
    runtime.pass_time(60)
    assert len(runtime.store.lease_runs(offers, recheck_for)) == 1


def test_what_is_held_or_waited_for_by_others_is_not_in_the_answer(runtime: Runtime) -> None:
    runtime.cron("held")
    runtime.cron("wanted")
    runtime.rig.store.enqueue(claim("schedule:wanted", ttl=3600), ticket="t")
    runtime.tick_at("2027-01-15T08:01:00")
    free = agent_run(runtime)
    runs = runtime.store.next_runs(9)
    assert len(runs) == 3
    runtime.rig.store.acquire(claim("schedule:held"))
    assert ids_of(runtime.store.lease_runs(runtime.offers(runs), recheck_for)) == [free]
    assert sorted(runtime.states()) == ["ready", "ready", "running"]


def test_under_forbid_a_batch_leases_one_run_of_a_schedule_and_passes_the_others(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00", "2027-01-15T08:03:00")
    runs = runtime.runs("s")
    assert ids_of(runtime.store.lease_runs(runtime.offers(runs), recheck_for)) == [runs[0].id]


def test_a_batch_keeps_to_the_bound_of_a_schedule(runtime: Runtime) -> None:
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=9)
    runtime.tick()
    runtime.pass_time(5)
    runtime.tick()
    runtime.sql("UPDATE $run SET lease_max = 2")
    assert len(runtime.store.lease_runs(runtime.offers(runtime.runs("p")), recheck_for)) == 2


def test_runs_of_one_batch_get_different_slots_of_a_key(runtime: Runtime) -> None:
    for name in "abc":
        runtime.cron(name, concurrency_key="openai", concurrency=2)
    runtime.tick_at("2027-01-15T08:01:00")
    leased = runtime.store.lease_runs(runtime.offers(runtime.runs()), recheck_for)
    keys = [name for one in leased for name in one.lease.resources if name.startswith("key:")]
    assert keys == ["key:openai/1", "key:openai/2"]
    assert [held.resources for held in runtime.store.leases()] == [one.lease.resources for one in leased]


def test_a_batch_keeps_to_the_lower_limit_of_a_key_that_was_changed_meanwhile(runtime: Runtime) -> None:
    for name in "ab":
        runtime.cron(name, concurrency_key="k", concurrency=3, overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00")
    older = runtime.runs()
    limits = {name: replace(definition, concurrency=1) for name, definition in runtime.definitions["default"].items()}
    runtime.apply(*limits.values(), replace(limits["a"], name="c"))
    runtime.tick_at("2027-01-15T08:02:00")
    (newer,) = runtime.runs("c")
    leased = runtime.store.lease_runs(runtime.offers([*older, newer]), recheck_for)
    assert ids_of(leased) == [run.id for run in older]


def test_runs_of_one_batch_get_different_places_of_a_project(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), project="p"))
    here = (Workplace("default", "p", PROJECT, "/here", 2, isolated=False),)
    runtime.store.keep_workplaces("worker", MYSELF, here, ttl_seconds=30)
    ids = queue(runtime, 3)

    def offers(runs: list[RunRow]) -> list[Offer]:
        also = {"also": (PROJECT,), "slots": 2}
        claims = [claim_for(run, lease_id=run.id, supervisor=MYSELF, ttl_seconds=30, **also) for run in runs]  # type: ignore[arg-type]
        return [Offer(one.run_id, one) for one in claims]

    assert ids_of(runtime.store.next_runs(9, places=here)) == ids[:2]
    leased = runtime.store.lease_runs(offers(runtime.runs()), recheck_for)
    assert ids_of(leased) == ids[:2]
    assert [one.lease.resources[0] for one in leased] == [PROJECT, f"{PROJECT}#2"]
    assert runtime.store.next_runs(9, places=here) == []


def test_a_batch_ends_what_must_not_start_any_more_and_leases_the_others(runtime: Runtime) -> None:
    runtime.cron("off")
    runtime.cron("paused")
    runtime.tick_at("2027-01-15T08:01:00")
    (free,) = queue(runtime, 1)
    offers = runtime.offers(runtime.store.next_runs(9))
    assert len(offers) == 3
    runtime.cron("off", enabled=False)
    runtime.store.registry().pause("default", "paused", until=None, note="", actor="test")
    assert ids_of(runtime.store.lease_runs(offers, recheck_for)) == [free]
    assert sorted(runtime.states()) == ["cancelled disabled", "cancelled paused", "running"]


def test_a_lease_whose_time_is_up_is_ended_by_the_batch_that_comes_next(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    (first,) = runtime.lease_batch(ttl_seconds=5)
    runtime.pass_time(6)
    (second,) = runtime.lease_batch()
    assert [held.id for held in second.predecessors] == [first.lease.id]
    assert second.lease.fence > first.lease.fence
    assert [held.lost for held in runtime.store.leases()] == [True, False]


def test_gates_that_earlier_grants_owe_are_raised_with_ones_own(runtime: Runtime) -> None:
    (run_id,) = queue(runtime, 1)
    (first,) = runtime.lease_batch(gates=("file:/a",))
    runtime.store.start_run(first)
    runtime.store.settle(first.lease, BACK, Report("interrupted"), clean=False)
    (second,) = runtime.lease_batch(gates=("file:/b",))
    assert second.run.id == run_id
    assert (second.lease.gates, second.lease.owed) == (("file:/b", "file:/a"), ("file:/a",))
    assert [held.id for held in second.predecessors] == [first.lease.id]


def test_a_resumed_run_gets_back_its_checkpoint_and_its_conversation(runtime: Runtime) -> None:
    queue(runtime, 2)
    first, other = runtime.lease_batch()
    runtime.store.start_run(first, session="S1")
    runtime.store.put_checkpoint(first.lease, '{"page":1}')
    resume = Settlement(RunState.READY, Reason.RESUME, resume=True)
    runtime.store.settle(first.lease, resume, Report("interrupted", cost_micro=7), clean=True)
    runtime.store.settle(other.lease, BACK, Report("interrupted"), clean=True)
    again = {one.run.id: one for one in runtime.lease_batch()}
    assert (again[first.run.id].checkpoint, again[first.run.id].session) == ('{"page":1}', "S1")
    assert again[first.run.id].so_far.cost_micro == 7
    assert (again[other.run.id].checkpoint, again[other.run.id].session) == (None, None)


# --- asking again


def test_asking_again_after_an_unknown_answer_finds_the_same_grants(runtime: Runtime) -> None:
    runtime.cron(concurrency_key="k", concurrency=3)
    runtime.tick_at("2027-01-15T08:01:00")
    queue(runtime, 2)
    offers = runtime.offers(runtime.store.next_runs(9), gates=("file:/x",), keeper="w")
    first = runtime.store.lease_runs(offers, recheck_for)
    runtime.pass_time(20)
    second = runtime.store.lease_runs(offers, recheck_for)
    assert second == [one._replace(lease=one.lease._replace(owed=None)) for one in first]
    assert {held.remaining_seconds for held in runtime.store.leases()} == {30}
    assert [len(runtime.store.attempts(one.run.id)) for one in first] == [1, 1, 1]


def test_what_was_not_granted_the_first_time_may_be_the_second(runtime: Runtime) -> None:
    queue(runtime, 1)
    runtime.cron("s")
    runtime.tick_at("2027-01-15T08:01:00")
    mine = runtime.rig.store.acquire(claim("schedule:s"))
    offers = runtime.offers(runtime.runs())
    assert len(runtime.store.lease_runs(offers, recheck_for)) == 1
    runtime.rig.store.release(mine.lease, clean=True)  # type: ignore[union-attr]
    assert len(runtime.store.lease_runs(offers, recheck_for)) == 2


def test_a_claim_whose_lease_was_adopted_meanwhile_is_its_no_more(runtime: Runtime) -> None:
    queue(runtime, 1)
    offers = runtime.offers(runtime.store.next_runs(9), keeper="w")
    (leased,) = runtime.store.lease_runs(offers, recheck_for)
    assert runtime.store.adopt(leased.lease, keeper="another") is not None
    assert runtime.store.lease_runs(offers, recheck_for) == []


def test_a_claim_whose_lease_was_lost_is_not_revived(runtime: Runtime) -> None:
    queue(runtime, 1)
    offers = runtime.offers(runtime.store.next_runs(9), ttl=5)
    assert len(runtime.store.lease_runs(offers, recheck_for)) == 1
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.store.lease_runs(offers, recheck_for) == []
    assert runtime.states() == ["ready lost_before_start"]


def test_a_store_that_was_restored_meanwhile_grants_nothing(runtime: Runtime) -> None:
    queue(runtime, 1)
    runtime.sql("UPDATE $meta SET value = 'other' WHERE key = 'store_id'")
    try:
        with pytest.raises(StoreUnavailable, match="restored as other"):
            runtime.lease_batch()
    finally:
        runtime.sql("UPDATE $meta SET value = ? WHERE key = 'store_id'", runtime.store.facts().id)
    assert runtime.states() == ["ready"]


# --- what it costs, and whom it waits for


def test_a_batch_of_fifty_takes_as_many_statements_as_one_of_two(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=99)
    runtime.tick()
    runtime.pass_time(26)
    runtime.tick()
    queue(runtime, 26)
    runs = sorted(runtime.store.next_runs(100), key=lambda run: run.id)
    few, many = [runs[0], runs[-1]], runs[1:-1]
    assert len(many) == 50
    numbers = []
    for some in (few, many):
        offers = runtime.offers(some)
        with counted_statements(monkeypatch) as seen:
            assert len(runtime.store.lease_runs(offers, recheck_for)) == len(some)
        numbers.append(len(seen))
    assert numbers[0] == numbers[1] <= 25


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)  # SQLite has one writer: there is nothing to pass by
@pytest.mark.parametrize(
    "locked",
    [
        "lock_schedules_of",
        "lock_run",
        "schedule:a",
        "key:k/0",
        "key:k/1",
    ],
)
def test_what_somebody_else_has_locked_is_left_to_them(runtime: Runtime, locked: str) -> None:
    runtime.cron("a", concurrency_key="k", concurrency=2)
    runtime.cron("b")
    runtime.tick_at("2027-01-15T08:01:00")
    offers = runtime.offers(runtime.store.next_runs(9))
    keys = [["default", "schedule:a"], ["default", "key:k/0"], ["default", "key:k/1"]]
    other = runtime.another()
    other.dialect.write(lambda tx: tx.rows("ensure_resources", keys=json.dumps(keys)))

    def sit(tx: object) -> list[LeasedRun]:
        (run,) = runtime.runs("a")
        name = "lock_resources" if ":" in locked else locked
        keys = json.dumps([["default", locked]])
        assert tx.rows(name, ids=json.dumps([run.id]), keys=keys, id=run.id, tenant="default")  # type: ignore[attr-defined]
        return runtime.store.lease_runs(offers, recheck_for)

    assert [one.run.schedule for one in other.dialect.write(sit)] == ["b"]
    assert [one.run.schedule for one in runtime.store.lease_runs(offers, recheck_for) if one.run.schedule == "a"] == [
        "a"
    ]


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)
def test_a_lease_that_is_about_to_be_renewed_is_not_taken_for_over(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    (first,) = runtime.lease_batch(ttl_seconds=5)
    runtime.pass_time(6)
    offers = runtime.offers([run for run in runtime.runs() if run.state == "ready"])

    def renew(tx: object) -> list[LeasedRun]:
        assert tx.rows("lock_leases", ids=json.dumps([first.lease.id]))  # type: ignore[attr-defined]
        return runtime.store.lease_runs(offers, recheck_for)

    assert runtime.another().dialect.write(renew) == []


def test_batches_at_once_never_share_a_run(runtime: Runtime) -> None:
    ids = queue(runtime, 60)
    found: list[str] = []

    def work(store: object) -> None:
        for _ in range(50):
            leased = runtime.lease_batch(7, store)  # type: ignore[arg-type]
            found.extend(ids_of(leased))
            if not leased and not store.next_runs(1):  # type: ignore[attr-defined]
                return

    together(work, [runtime.another() for _ in range(4)])
    assert sorted(found) == sorted(ids)
