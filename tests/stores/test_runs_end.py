"""How attempts end: every write that ends or extends one matches on its fence, and ends absorb."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import LeaseLost
from fencepost.model.outcome import Settlement
from fencepost.model.process import Fate
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import LeasedRun, Report
from tests.stores.rig import Rig
from tests.support.runtime import DEAD, SUCCEEDED, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

CANCELLED = Settlement(RunState.CANCELLED, Reason.CANCELLED)


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def one_leased(runtime: Runtime, *, ttl: float = 30.0, start: bool = True, on_lost: str = "restart") -> LeasedRun:
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost=on_lost))
    runtime.cron(overlap="forbid", pause_on_failure=None)
    runtime.tick_at("2027-01-15T08:01:00")
    return runtime.leased(ttl=ttl, start=start)


def taken_over(runtime: Runtime) -> tuple[LeasedRun, LeasedRun]:
    """Let a worker be silent for too long, and another go on with its run."""
    zombie = one_leased(runtime, ttl=5)
    runtime.pass_time(6)
    assert runtime.reap() == 1
    heir = runtime.leased(start=True)
    assert heir.run.id == zombie.run.id
    assert heir.lease.fence > zombie.lease.fence
    return zombie, heir


def retry_at(runtime: Runtime, seconds: float = 0) -> Settlement:
    return Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now + timedelta(seconds=seconds))


def test_a_start_is_recorded_for_run_attempt_and_lease(runtime: Runtime) -> None:
    leased = one_leased(runtime, start=False)
    runtime.pass_time(1)
    runtime.store.start_run(leased)
    now_us = runtime.rig.now_us()
    assert runtime.run(leased.run.id).started_us == now_us
    assert runtime.store.attempts(leased.run.id)[0].started_us == now_us
    assert runtime.store.leases()[0].started_us == now_us


def test_a_settlement_ends_run_attempt_and_lease_together(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.settle(leased, DEAD, exit_code=3, cost_micro=5, summary="said", log="path", last_log="the end")
    run, (attempt,) = runtime.run(leased.run.id), runtime.store.attempts(leased.run.id)
    assert (run.state, run.reason, run.exit_code, run.cost_micro) == ("dead", "exit_code", 3, 5)
    assert (run.summary, run.log, run.ended_us) == ("said", "path", runtime.rig.now_us())
    assert (attempt.outcome, attempt.exit_code, attempt.last_log) == ("dead", 3, "the end")
    assert runtime.store.leases() == []
    assert runtime.audit("settle")[-1]["state"] == "dead"


def test_a_settlement_that_fails_half_way_changes_nothing(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.store.release(leased.lease, clean=True)
    before = runtime.contents()
    with pytest.raises(LeaseLost):
        runtime.settle(leased)
    assert runtime.contents() == before


@pytest.mark.parametrize("verb", ["settle", "put_checkpoint", "start_run", "renew"])
def test_a_zombie_can_do_nothing_more_once_it_was_replaced(runtime: Runtime, verb: str) -> None:
    zombie, heir = taken_over(runtime)
    before = runtime.contents()
    attempts: dict[str, Callable[[], object]] = {
        "settle": lambda: runtime.settle(zombie),
        "put_checkpoint": lambda: runtime.store.put_checkpoint(zombie.lease, "{}"),
        "start_run": lambda: runtime.store.start_run(zombie),
        "renew": lambda: runtime.store.renew(zombie.lease),
    }
    with pytest.raises(LeaseLost):
        attempts[verb]()
    assert runtime.contents() == before
    runtime.settle(heir)


@pytest.mark.parametrize("verb", ["put_checkpoint", "note_session"])
def test_a_zombie_can_leave_nothing_even_before_anybody_has_taken_up_its_run(runtime: Runtime, verb: str) -> None:
    """Its lease was taken, by hand or for another run that shares a resource, and the run is still to be reaped."""
    zombie = one_leased(runtime)
    (held,) = runtime.store.leases()
    runtime.store.break_lease(held, why="test")
    before = runtime.contents()
    with pytest.raises(LeaseLost):
        getattr(runtime.store, verb)(zombie.lease, "{}")
    assert runtime.contents() == before


def test_a_zombie_of_a_run_that_its_heir_has_finished_can_do_nothing_either(runtime: Runtime) -> None:
    zombie, heir = taken_over(runtime)
    runtime.settle(heir)
    before = runtime.contents()
    for late in (SUCCEEDED, DEAD, CANCELLED, retry_at(runtime)):
        with pytest.raises(LeaseLost):
            runtime.settle(zombie, late)
    assert runtime.contents() == before


def test_a_settlement_matches_on_the_runs_fence_and_not_only_on_the_leases(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.sql("UPDATE $run SET fence = fence + 1")
    before = runtime.contents()
    with pytest.raises(LeaseLost):
        runtime.settle(leased)
    with pytest.raises(LeaseLost):
        runtime.store.start_run(leased)
    assert runtime.contents() == before


def test_a_late_worker_that_nobody_replaced_may_still_finish(runtime: Runtime) -> None:
    leased = one_leased(runtime, ttl=5)
    runtime.pass_time(60)
    runtime.settle(leased)
    assert runtime.states() == ["succeeded"]


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
def test_an_end_absorbs_all_that_comes_after_it(runtime: Runtime, state: str) -> None:
    leased = one_leased(runtime)
    runtime.settle(leased, {"succeeded": SUCCEEDED, "dead": DEAD, "cancelled": CANCELLED}[state])
    before = runtime.run(leased.run.id)
    runtime.store.cancel(leased.run.id, tenant="default", by="test")
    for late in (SUCCEEDED, DEAD, CANCELLED, retry_at(runtime)):
        if late.state.value != state:
            with pytest.raises(LeaseLost):
                runtime.settle(leased, late)
    assert not runtime.store.reap(before._replace(state="running"), DEAD, Report("lost"), started=True)
    runtime.pass_time(100)
    assert runtime.reap() == 0
    assert runtime.run(leased.run.id) == before
    assert runtime.lease() is None


def test_settling_again_after_an_unknown_answer_is_no_error(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.settle(leased, exit_code=0)
    before = runtime.run(leased.run.id)
    runtime.settle(leased, exit_code=0)
    assert runtime.run(leased.run.id) == before
    assert len(runtime.audit("settle")) == 1


def test_settling_again_is_no_error_even_when_the_run_goes_on_meanwhile(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.settle(leased, retry_at(runtime), exit_code=1)
    again = runtime.leased(start=True)
    runtime.settle(leased, retry_at(runtime), exit_code=1)
    assert runtime.run(leased.run.id).fence == again.lease.fence
    assert runtime.run(leased.run.id).state == "running"


# --- back to ready


def test_a_retry_waits_for_its_time_and_goes_to_the_end_of_the_line(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.settle(leased, retry_at(runtime, 60), exit_code=1)
    run = runtime.run(leased.run.id)
    assert (run.state, run.reason, run.attempt, run.ended_us) == ("ready", "retry", 1, None)
    assert run.place_us == run.ready_us == runtime.rig.now_us() + 60_000_000
    assert runtime.lease() is None
    runtime.pass_time(60)
    assert runtime.leased().run.attempt == 2


@pytest.mark.parametrize("reason", [Reason.RESUME, Reason.DRAINED, Reason.LOST_BEFORE_START, Reason.GATE_UNREACHABLE])
def test_what_comes_back_unharmed_keeps_its_place_at_the_head(runtime: Runtime, reason: Reason) -> None:
    """Another run of the same key came meanwhile; the one that was interrupted goes on first."""
    runtime.cron("a", concurrency_key="k")
    runtime.tick_at("2027-01-15T08:01:00")
    first = runtime.leased(start=True)
    runtime.cron("b", concurrency_key="k")
    runtime.tick_at("2027-01-15T08:02:00")
    runtime.pass_time(1)
    runtime.settle(first, Settlement(RunState.READY, reason, ready_at=runtime.now, uses_attempt=False))
    again = runtime.leased()
    assert again.run.id == first.run.id
    assert again.run.attempt == 1, "no attempt was used"


def test_a_checkpoint_is_handed_to_the_next_attempt(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.store.put_checkpoint(leased.lease, '{"page":1}')
    runtime.store.put_checkpoint(leased.lease, '{"page":2}')
    settlement = Settlement(RunState.READY, Reason.RESUME, ready_at=runtime.now, resume=True)
    runtime.settle(leased, settlement)
    again = runtime.leased()
    assert again.checkpoint == '{"page":2}'
    assert again.run.resume
    assert runtime.store.checkpoint(leased.run.id) == '{"page":2}'
    assert runtime.store.checkpoint("nobody") is None


# --- stop, cancel, discard


def test_a_queued_run_is_taken_out_at_once(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    (run,) = runtime.runs()
    was = runtime.store.cancel(run.id, tenant="default", by="ada")
    assert was == run
    assert runtime.states() == ["cancelled cancelled"]
    assert runtime.lease() is None


def test_a_running_run_is_asked_to_stop(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    assert runtime.store.stops_asked(leased.lease) == {}
    runtime.store.cancel(leased.run.id, tenant="default", by="ada")
    assert runtime.store.stops_asked(leased.lease) == {leased.run.id: "cancelled"}
    runtime.settle(leased, CANCELLED)
    assert runtime.states() == ["cancelled cancelled"]


def test_a_run_that_was_asked_to_stop_does_not_come_back_after_a_failure(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    runtime.store.cancel(leased.run.id, tenant="default", by="ada")
    runtime.settle(leased, retry_at(runtime), exit_code=1)
    assert runtime.states() == ["cancelled cancelled"]


def test_a_run_that_was_asked_to_stop_does_not_come_back_after_a_loss(runtime: Runtime) -> None:
    leased = one_leased(runtime, ttl=5)
    runtime.store.cancel(leased.run.id, tenant="default", by="ada")
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.states() == ["cancelled cancelled"]


def test_nobody_cancels_another_tenants_run(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    assert runtime.store.cancel(leased.run.id, tenant="other", by="eve") is None
    assert not runtime.store.discard(leased.run.id, tenant="other", by="eve")
    assert runtime.store.run(leased.run.id, tenant="other") is None
    assert runtime.store.runs(tenant="other") == []


def test_a_dead_letter_can_be_discarded_once(runtime: Runtime) -> None:
    leased = one_leased(runtime)
    assert not runtime.store.discard(leased.run.id, tenant="default", by="ada")
    runtime.settle(leased, DEAD)
    assert len(runtime.store.runs(tenant="default", state="dead", kept=True)) == 1
    assert runtime.store.discard(leased.run.id, tenant="default", by="ada")
    assert not runtime.store.discard(leased.run.id, tenant="default", by="ada")
    assert runtime.store.runs(tenant="default", state="dead", kept=True) == []
    assert len(runtime.store.runs(tenant="default", state="dead")) == 1


# --- the reaper compares as well


def test_a_run_that_just_completed_is_never_reaped(runtime: Runtime) -> None:
    """The reaper looked, then the worker settled, then the reaper acted on what it had seen."""
    leased = one_leased(runtime, ttl=5)
    runtime.pass_time(6)
    (seen,) = runtime.store.lost_runs(10)
    runtime.settle(leased)
    before = runtime.contents()
    assert not runtime.store.reap(seen, DEAD, Report("lost"), started=True)
    assert runtime.contents() == before


def test_a_run_that_was_leased_again_is_never_reaped_by_what_was_seen_before(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5)
    runtime.pass_time(6)
    (seen,) = runtime.store.lost_runs(10)
    assert runtime.reap() == 1
    runtime.leased(start=True)
    before = runtime.contents()
    assert not runtime.store.reap(seen, DEAD, Report("lost"), started=True)
    assert runtime.contents() == before


def test_a_lease_that_was_renewed_after_all_is_not_reaped(runtime: Runtime) -> None:
    leased = one_leased(runtime, ttl=5)
    runtime.pass_time(6)
    (seen,) = runtime.store.lost_runs(10)
    runtime.store.renew(leased.lease)
    before = runtime.contents()
    assert not runtime.store.reap(seen, DEAD, Report("lost"), started=True)
    assert runtime.contents() == before


def test_a_run_that_started_while_the_reaper_was_thinking_is_not_handed_out_again(runtime: Runtime) -> None:
    leased = one_leased(runtime, ttl=5, start=False)
    runtime.pass_time(6)
    (seen,) = runtime.store.lost_runs(10)
    runtime.store.start_run(leased)
    back = Settlement(RunState.READY, Reason.LOST_BEFORE_START, ready_at=runtime.now, uses_attempt=False)
    assert not runtime.store.reap(seen, back, Report("lost"), started=False)
    assert runtime.states() == ["running"]


def test_what_was_lost_before_its_start_comes_back_and_uses_no_attempt(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5, start=False, on_lost="triage")
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.states() == ["ready lost_before_start"]
    assert runtime.leased().run.attempt == 1


def test_what_was_lost_after_its_start_goes_to_a_person(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5, on_lost="triage")
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.states() == ["dead lost"]


def test_a_dead_holder_on_this_host_is_not_waited_for(runtime: Runtime) -> None:
    one_leased(runtime, on_lost="resume")
    assert runtime.reap(Fate.ALIVE) == 0
    assert runtime.reap(Fate.DEAD) == 1
    assert runtime.states() == ["ready resume"]


def test_a_poison_run_that_kills_its_worker_ends_as_a_dead_letter(runtime: Runtime) -> None:
    """Attempts are counted before the start, so each loss is one."""
    one_leased(runtime, ttl=5)
    for _ in range(2):
        runtime.pass_time(6)
        assert runtime.reap() == 1
        runtime.leased(ttl=5, start=True)
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.states() == ["dead lost"]


def test_a_poison_run_that_kills_its_worker_before_the_start_ends_as_a_dead_letter_too(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5, start=False)
    for _ in range(9):
        runtime.pass_time(6)
        assert runtime.reap() == 1
        assert runtime.states() == ["ready lost_before_start"]
        runtime.leased(ttl=5)
    runtime.pass_time(6)
    assert runtime.reap() == 1
    assert runtime.states() == ["dead lost"]


def test_a_poison_run_leaves_others_unharmed(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5)
    runtime.cron("healthy")
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.reap() == 1
    schedules = {runtime.leased().run.schedule, runtime.leased().run.schedule}
    assert schedules == {"s", "healthy"}


def test_reaping_again_finds_nothing(runtime: Runtime) -> None:
    one_leased(runtime, ttl=5)
    runtime.pass_time(6)
    assert [runtime.reap(), runtime.reap()] == [1, 0]


# --- what the schedule learns


def test_failures_in_a_row_are_counted_and_a_success_starts_again(runtime: Runtime) -> None:
    runtime.cron()
    for minute, (end, failures) in enumerate([(DEAD, 1), (DEAD, 2), (SUCCEEDED, 0), (DEAD, 1)], start=1):
        runtime.tick_at(f"2027-01-15T08:{minute:02d}:00")
        runtime.work(end)
        assert runtime.schedule()["failures"] == failures


def test_the_last_success_is_a_tick_and_never_goes_back(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    runtime.pass_time(30)
    older, newer = (run.tick_us for run in runtime.runs())
    runtime.work()
    assert runtime.schedule()["last_success_us"] == older
    runtime.work()
    assert runtime.schedule()["last_success_us"] == newer


def test_a_schedule_that_fails_too_often_pauses_itself(runtime: Runtime) -> None:
    runtime.cron(pause_on_failure=2)
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.work(DEAD)
    runtime.tick_at("2027-01-15T08:02:00")
    runtime.work(DEAD)
    runtime.tick_at("2027-01-15T08:03:00")
    assert runtime.kinds() == ["run", "run", "paused"]
    assert "2 failures in a row" in runtime.sql("SELECT note FROM $pause")[0][0]


# --- once


def test_a_once_schedule_retires_at_its_first_start(runtime: Runtime) -> None:
    runtime.cron(once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    assert not runtime.schedule()["once_done"]
    leased = runtime.leased()
    assert not runtime.schedule()["once_done"], "leased is not started"
    runtime.store.start_run(leased)
    assert runtime.schedule()["once_done"]
    assert runtime.schedule()["due_us"] is None
    runtime.settle(leased, DEAD)
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.kinds() == ["run"]


def test_a_once_schedule_that_was_cancelled_while_queued_stays_armed(runtime: Runtime) -> None:
    runtime.cron(once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.store.cancel(runtime.runs()[0].id, tenant="default", by="ada")
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.kinds() == ["run", "run"]
    runtime.leased(start=True)
    assert runtime.schedule()["once_done"]


def test_a_once_schedule_starts_one_run_even_if_two_wait(runtime: Runtime) -> None:
    runtime.cron(once=True, overlap="allow_parallel")
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    first = runtime.leased()
    assert runtime.lease() is None, "leased before the other has started, it could start as well"
    runtime.store.start_run(first)
    runtime.settle(first)
    assert runtime.lease() is None
    assert sorted(runtime.states()) == ["cancelled disabled", "succeeded"]


def test_a_once_schedule_may_retry_what_has_started(runtime: Runtime) -> None:
    runtime.cron(once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    leased = runtime.leased(start=True)
    runtime.settle(leased, retry_at(runtime), exit_code=1)
    assert runtime.leased(start=True).run.id == leased.run.id


def test_an_every_schedule_that_runs_once_does_not_come_back(runtime: Runtime) -> None:
    runtime.every(once=True)
    runtime.tick()
    runtime.work()
    runtime.pass_time(3600)
    runtime.tick()
    assert runtime.states() == ["succeeded"]


def test_an_every_schedule_that_was_cancelled_while_queued_stays_armed(runtime: Runtime) -> None:
    runtime.every(once=True)
    runtime.tick()
    runtime.store.cancel(runtime.runs()[0].id, tenant="default", by="ada")
    assert not runtime.schedule()["once_done"]
    runtime.pass_time(3600)
    runtime.tick()
    assert sorted(runtime.states()) == ["cancelled cancelled", "ready"]
    runtime.leased(start=True)
    assert runtime.schedule()["once_done"]


def test_a_once_schedule_whose_run_was_lost_before_its_start_is_not_spent(runtime: Runtime) -> None:
    runtime.cron(once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    leased = runtime.leased()
    runtime.settle(leased, Settlement(RunState.READY, Reason.DRAINED, ready_at=runtime.now, uses_attempt=False))
    runtime.store.cancel(leased.run.id, tenant="default", by="ada")
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.kinds() == ["run", "run"]
