"""Who is next in the queue, who may still start, and who gets it."""

import json

import pytest

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.lease import Claim
from fencepost.model.new_run import NewRun
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import RunRow
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import Rig, claim
from tests.support.runtime import MYSELF, Runtime, new_id, together


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def agent_run(
    runtime: Runtime, *, ready_in: float = 0, priority: int = 0, tenant: str = "default", key: str | None = None
) -> str:
    """Queue a run of the agent alone, and return its id."""
    run_id = new_id()
    if tenant not in runtime.agents:
        runtime.apply(tenant=tenant)
    now_us = runtime.rig.now_us()
    (manifest, manifest_hash), *_ = runtime.sql("SELECT definition, hash FROM $agent WHERE tenant = ?", tenant)
    run = NewRun(
        id=run_id,
        tenant=tenant,
        agent="agent",
        schedule=None,
        version=None,
        trigger="manual",
        occurrence=None,
        tick_us=None,
        period_start_us=None,
        period_end_us=None,
        backfill_from_us=None,
        last_success_us=None,
        idempotency_key=run_id,
        manifest=manifest,
        manifest_hash=manifest_hash,
        payload="{}",
        resources=json.dumps([(tenant, f"run:{run_id}")]),
        lease_max=1,
        lines_up=False,
        priority=priority,
        ready_us=now_us + round(ready_in * 1_000_000),
        counted_us=now_us,
        request_key=key,
    )
    return runtime.store.enqueue_run(run).run.id


def leased_ids(runtime: Runtime) -> list[str]:
    found = []
    while leased := runtime.lease():
        found.append(leased.run.id)
    return found


def test_the_longest_ready_goes_first(runtime: Runtime) -> None:
    second, third, first = (agent_run(runtime, ready_in=seconds) for seconds in (-20, -10, -30))
    assert leased_ids(runtime) == [first, second, third]


def test_a_run_whose_time_has_not_come_is_not_leased(runtime: Runtime) -> None:
    later = agent_run(runtime, ready_in=10)
    assert runtime.lease() is None
    assert runtime.store.next_ready_us() == runtime.rig.now_us() + 10_000_000
    runtime.pass_time(10)
    assert leased_ids(runtime) == [later]


def test_a_run_that_is_ready_already_is_no_reason_to_wake_up(runtime: Runtime) -> None:
    agent_run(runtime)
    assert runtime.store.next_ready_us() is None


def test_priority_comes_before_age(runtime: Runtime) -> None:
    old, urgent, idle = agent_run(runtime, ready_in=-9), agent_run(runtime, priority=5), agent_run(runtime, priority=-5)
    assert leased_ids(runtime) == [urgent, old, idle]


def test_an_urgent_run_whose_time_has_not_come_holds_nobody_up(runtime: Runtime) -> None:
    agent_run(runtime, priority=9, ready_in=60)
    ordinary = agent_run(runtime)
    assert leased_ids(runtime) == [ordinary]


def test_tenants_take_turns_however_long_one_of_their_lines_is(runtime: Runtime) -> None:
    many = [agent_run(runtime, tenant="many", ready_in=-90 + n) for n in range(6)]
    few = [agent_run(runtime, tenant="few", ready_in=-10 + n) for n in range(2)]
    order = leased_ids(runtime)
    assert order[:4] in ([few[0], many[0], few[1], many[1]], [many[0], few[0], many[1], few[1]])
    assert order[4:] == many[2:]


def test_a_tenant_cannot_jump_the_others_by_its_priorities(runtime: Runtime) -> None:
    for number in range(5):
        agent_run(runtime, tenant="loud", priority=1000 + number)
    quiet = agent_run(runtime, tenant="quiet")
    assert quiet in leased_ids(runtime)[:2]


def test_the_leased_run_is_running_with_its_fence_and_attempt(runtime: Runtime) -> None:
    agent_run(runtime)
    leased = runtime.leased()
    run = runtime.run(leased.run.id)
    assert (run.state, run.attempt, run.fence, run.lease_id) == ("running", 1, leased.lease.fence, leased.lease.id)
    assert leased.run == run
    assert run.worker == "tower:4711"
    assert run.started_us is None
    assert [(one.number, one.fence, one.started_us) for one in runtime.store.attempts(run.id)] == [
        (1, leased.lease.fence, None)
    ]


def test_forbid_keeps_a_second_run_waiting_until_the_first_has_ended(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=3)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    first = runtime.leased()
    assert runtime.lease() is None
    runtime.settle(first)
    assert runtime.leased().run.id != first.run.id


def test_an_expired_lease_takes_no_room(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=3)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    first = runtime.leased(ttl=5)
    runtime.pass_time(6)
    second = runtime.leased()
    assert second.run.id != first.run.id
    assert second.lease.fence > first.lease.fence
    assert [(held.id, held.met) for held in second.predecessors] == [(first.lease.id, False)]
    runtime.settle(second)
    runtime.tick_at("2027-01-15T08:03:00")
    assert [(held.id, held.met) for held in runtime.leased().predecessors] == [(first.lease.id, True)]


def test_a_long_line_behind_one_schedule_hides_nobody(runtime: Runtime) -> None:
    """Sixty runs wait for a resource that somebody holds; the one behind them all may go."""
    runtime.cron("blocked", "* * * * * *", overlap="queue", queue_max=100)
    runtime.tick()
    runtime.pass_time(59)
    runtime.tick()
    assert len(runtime.runs("blocked")) >= 59
    runtime.rig.store.acquire(claim("schedule:blocked"))
    last = agent_run(runtime)
    assert leased_ids(runtime) == [last]


def test_a_long_line_without_room_hides_nobody(runtime: Runtime) -> None:
    runtime.cron("full", "* * * * * *", overlap="allow_parallel", parallel_max=100)
    runtime.tick()
    runtime.pass_time(50)
    runtime.tick()
    runtime.sql("UPDATE $run SET lease_max = 1")
    last = agent_run(runtime)
    first, second = leased_ids(runtime)
    assert runtime.run(first).schedule == "full"
    assert second == last


def test_concurrency_keys_are_shared_by_schedules(runtime: Runtime) -> None:
    runtime.cron("a", concurrency_key="provider")
    runtime.cron("b", concurrency_key="provider")
    runtime.cron("c")
    runtime.tick_at("2027-01-15T08:01:00")
    first, other = leased_ids(runtime)
    assert runtime.run(other).schedule == "c"
    assert runtime.run(first).schedule in {"a", "b"}


def test_a_worker_that_makes_no_claim_is_offered_the_next(runtime: Runtime) -> None:
    foreign, own = agent_run(runtime, ready_in=-2), agent_run(runtime, ready_in=-1)

    def picky(run: RunRow) -> Claim | None:
        return None if run.id == foreign else claim_for(run, lease_id="l", supervisor=MYSELF, ttl_seconds=30)

    leased = runtime.store.lease_run(picky, recheck_for)
    assert leased is not None
    assert leased.run.id == own
    assert runtime.run(foreign).state == "ready"


def test_what_only_the_worker_knows_is_leased_too_and_busy_then(runtime: Runtime) -> None:
    first, second = agent_run(runtime, ready_in=-2), agent_run(runtime, ready_in=-1)

    def in_project(run: RunRow) -> Claim:
        return claim_for(run, lease_id=f"l-{run.id}", supervisor=MYSELF, ttl_seconds=30, also=("project:p",))

    leased = runtime.store.lease_run(in_project, recheck_for)
    assert leased is not None
    assert leased.run.id == first
    assert set(leased.lease.resources) == {"project:p", f"run:{first}"}
    assert runtime.store.lease_run(in_project, recheck_for) is None
    runtime.settle(leased)
    following = runtime.store.lease_run(in_project, recheck_for)
    assert following is not None
    assert following.run.id == second


def test_a_halt_leaves_the_queue_as_it_is_and_other_tenants_alone(runtime: Runtime) -> None:
    halted, free = agent_run(runtime), agent_run(runtime, tenant="other")
    runtime.store.registry().halt("default", note="", actor="test")
    assert leased_ids(runtime) == [free]
    runtime.store.registry().unhalt("default", actor="test")
    assert leased_ids(runtime) == [halted]


# --- the second look


def queued(runtime: Runtime, **fields: object) -> str:
    runtime.cron(**fields)  # type: ignore[arg-type]
    runtime.tick_at("2027-01-15T08:01:00")
    (run,) = runtime.runs("s")
    return run.id


def test_a_schedule_that_was_switched_off_meanwhile_cancels_what_waits(runtime: Runtime) -> None:
    run_id = queued(runtime)
    runtime.cron(enabled=False)
    assert runtime.lease() is None
    assert runtime.states() == ["cancelled disabled"]
    assert runtime.kinds() == ["run"], "the tick's disposition stays"
    assert runtime.audit("cancel") == [{"reason": "disabled"}]
    assert runtime.run(run_id).ended_us == runtime.rig.now_us()


def test_a_schedule_that_was_retired_meanwhile_cancels_what_waits(runtime: Runtime) -> None:
    queued(runtime)
    runtime.definitions["default"].clear()
    runtime.put()
    assert runtime.lease() is None
    assert runtime.states() == ["cancelled disabled"]


def test_an_agent_that_was_retired_meanwhile_cancels_what_waits(runtime: Runtime) -> None:
    agent_run(runtime)
    runtime.agents["default"] = {"another": AgentDefinition("another", command=("true",))}
    runtime.put()
    assert runtime.lease() is None
    assert runtime.states() == ["cancelled disabled"]


def test_a_pause_cancels_what_a_tick_has_queued(runtime: Runtime) -> None:
    queued(runtime)
    runtime.store.registry().pause("default", "s", until=None, note="", actor="test")
    assert runtime.lease() is None
    assert runtime.states() == ["cancelled paused"]


def test_a_blackout_that_has_begun_cancels_what_a_tick_has_queued(runtime: Runtime) -> None:
    queued(runtime, calendar=("FRI 08:02-09:00",))
    runtime.go_to("2027-01-15T08:02:00")
    assert runtime.lease() is None
    assert runtime.states() == ["cancelled calendar"]


def test_a_pause_does_not_stop_a_retry_of_what_has_started(runtime: Runtime) -> None:
    queued(runtime)
    leased = runtime.leased(start=True)
    runtime.settle(leased, Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now))
    runtime.store.registry().pause("default", "s", until=None, note="", actor="test")
    assert runtime.leased().run.id == leased.run.id


def test_a_budget_that_is_gone_meanwhile_cancels_what_waits(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="1"))
    runtime.cron(budget_usd_per_day="5", overlap="allow_parallel")
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    dear = runtime.leased(start=True)
    runtime.settle(dear, cost_micro=9_000_000)
    assert runtime.lease() is None
    assert runtime.states() == ["succeeded", "cancelled budget"]


def test_the_own_reservation_is_not_in_the_way_of_a_run(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="1"))
    runtime.cron(budget_usd_per_day="1", budget_usd_per_month="1", max_runs_per_hour=1)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    assert runtime.kinds() == ["run", "overlap"]
    runtime.work()
    runtime.tick_at("2027-01-15T08:03:00")
    assert runtime.kinds()[-1] == "budget"


def test_a_run_that_was_counted_first_keeps_its_place_in_the_hour(runtime: Runtime) -> None:
    runtime.cron(cron="0,30 * * * *", max_runs_per_hour=2, overlap="allow_parallel", missed="replay")
    runtime.tick_at("2027-01-15T08:30:00", "2027-01-15T09:00:00", "2027-01-15T09:30:00")
    assert runtime.kinds() == ["run", "run", "run"]
    assert len(leased_ids(runtime)) == 3


def test_a_run_that_waited_too_long_dies_of_it(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), queue_timeout="1h"))
    queued(runtime)
    runtime.pass_time(3600)
    assert runtime.lease() is None
    assert runtime.states() == ["dead queue_timeout"]
    assert runtime.schedule()["failures"] == 1


def test_a_wait_that_is_too_long_is_seen_without_any_worker(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), queue_timeout="1h"))
    queued(runtime)
    runtime.pass_time(3599)
    assert runtime.reap() == 0
    runtime.pass_time(1)
    assert runtime.reap() == 1
    assert runtime.states() == ["dead queue_timeout"]


def test_a_long_first_attempt_does_not_count_as_waiting(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), queue_timeout="1h"))
    queued(runtime)
    leased = runtime.leased(ttl=86_400, start=True)
    runtime.pass_time(5 * 3600)
    runtime.settle(leased, Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now))
    assert runtime.reap() == 0
    assert runtime.leased().run.id == leased.run.id


def test_many_that_may_not_start_are_passed_in_one_call(runtime: Runtime) -> None:
    runtime.cron("off", "* * * * * *", overlap="queue", queue_max=100)
    runtime.tick()
    runtime.pass_time(50)
    runtime.tick()
    runtime.cron("off", "* * * * * *", overlap="queue", queue_max=100, enabled=False)
    last = agent_run(runtime)
    assert leased_ids(runtime) == [last]
    assert set(runtime.states("off")) == {"cancelled disabled"}


# --- many at once


def test_workers_at_once_never_share_a_run(runtime: Runtime) -> None:
    ids = {agent_run(runtime) for _ in range(24)}
    stores = [runtime.another() for _ in range(8)]
    found: list[str] = []

    def work(store: RuntimeStore) -> None:
        while leased := runtime.lease(store):
            found.append(leased.run.id)

    together(work, stores)
    assert sorted(found) == sorted(ids)


def test_parallel_max_holds_however_many_workers_try_at_once(runtime: Runtime) -> None:
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=12)
    runtime.tick()
    runtime.pass_time(12)
    runtime.tick()
    runtime.sql("UPDATE $run SET lease_max = 3")
    assert len(runtime.runs("p")) == 12
    stores = [runtime.another() for _ in range(8)]
    together(runtime.lease, stores)
    assert runtime.sql("SELECT count(*) FROM $run WHERE state = 'running'") == [(3,)]


def test_forbid_holds_however_many_workers_try_at_once(runtime: Runtime) -> None:
    runtime.cron("f", "* * * * * *", overlap="queue", queue_max=20)
    runtime.tick()
    runtime.pass_time(10)
    runtime.tick()
    stores = [runtime.another() for _ in range(8)]
    together(runtime.lease, stores)
    assert runtime.sql("SELECT count(*) FROM $run WHERE state = 'running'") == [(1,)]


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)  # SQLite has one writer: there is nothing to pass by
def test_a_busy_schedule_does_not_keep_workers_from_others(runtime: Runtime) -> None:
    """Another transaction sits on the first schedule's row; the worker takes what is behind it."""
    runtime.cron("a", priority=5)
    runtime.cron("b")
    runtime.tick_at("2027-01-15T08:01:00")
    other = runtime.another()

    def hold(tx: object) -> str:
        assert tx.rows("lock_schedules_of", ids=json.dumps([runtime.runs("a")[0].id]))  # type: ignore[attr-defined]
        return str(runtime.leased().run.schedule)

    assert other.dialect.write(hold) == "b"
    assert runtime.leased().run.schedule == "a"


def test_a_definition_of_no_schedule_is_no_obstacle(runtime: Runtime) -> None:
    """A run whose schedule's row is gone without a trace ends instead of standing in the way for ever."""
    run_id = queued(runtime)
    runtime.sql("DELETE FROM $schedule")
    free = agent_run(runtime)
    assert leased_ids(runtime) == [free]
    assert runtime.run(run_id).reason == "disabled"
