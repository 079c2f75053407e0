"""The ticker on both stores, with a clock that is moved: policies, holds, budgets, edits, downtime."""

import time
from datetime import timedelta

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.occurrence import idempotency_key
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from tests.support.runtime import DEAD, Runtime, at, us

MINUTE_US = 60_000_000


def minutes(runtime: Runtime, *numbers: float) -> None:
    """Tick at these minutes after eight."""
    for number in numbers:
        runtime.go_to(at("2027-01-15T08:00:00") + timedelta(minutes=number))
        runtime.tick()


def test_a_run_knows_its_tick_its_period_and_its_key(runtime: Runtime) -> None:
    runtime.cron(cron="*/5 * * * *", payload={"a": 1}, priority=3)
    minutes(runtime, 5)
    (run,) = runtime.runs()
    assert (run.trigger, run.tick_us, run.ready_us) == ("cron", us("2027-01-15T08:05:00"), us("2027-01-15T08:05:00"))
    assert (run.period_start_us, run.period_end_us) == (us("2027-01-15T08:00:00"), us("2027-01-15T08:05:00"))
    assert run.idempotency_key == idempotency_key("default", "s", 1, at("2027-01-15T08:05:00"))
    assert (run.payload, run.priority, run.version) == ('{"a": 1}', 3, 1)
    assert run.manifest_hash == runtime.sql("SELECT manifest_hash FROM $schedule")[0][0]


def test_the_last_success_is_handed_on_as_a_tick(runtime: Runtime) -> None:
    runtime.cron()
    minutes(runtime, 1)
    runtime.work()
    minutes(runtime, 2.5)
    run = runtime.runs()[-1]
    assert run.last_success_us == run.backfill_from_us == us("2027-01-15T08:01:00")


def test_jitter_moves_when_a_run_is_ready_and_nothing_else(runtime: Runtime) -> None:
    runtime.cron(jitter="10m")
    minutes(runtime, 1)
    (run,) = runtime.runs()
    assert us("2027-01-15T08:01:00") < run.ready_us < us("2027-01-15T08:11:00")
    assert run.tick_us == us("2027-01-15T08:01:00")
    assert run.idempotency_key == idempotency_key("default", "s", 1, at("2027-01-15T08:01:00"))
    assert runtime.ticks() == [("2027-01-15T08:01:00", 1, "run")]
    assert runtime.schedule()["cursor_us"] == us("2027-01-15T08:01:00")
    assert runtime.lease() is None


# --- overlap: running, queued and deferred runs count


@pytest.mark.parametrize(
    ("overlap", "waiting", "running"),
    [
        ("forbid", ["run", "overlap"], ["run", "overlap"]),
        ("queue", ["run", "run"], ["run", "run"]),
        ("allow_parallel", ["run", "run"], ["run", "run"]),
        ("cancel_previous", ["run", "run"], ["run", "run"]),
    ],
)
def test_overlap_policies(runtime: Runtime, overlap: str, waiting: list[str], running: list[str]) -> None:
    runtime.cron("waiting", overlap=overlap)
    minutes(runtime, 1, 2)
    assert runtime.kinds("waiting") == waiting
    for run in runtime.runs():
        runtime.store.cancel(run.id, tenant="default", by="test")
    runtime.cron("running", overlap=overlap)
    minutes(runtime, 3)
    while runtime.lease():
        pass
    minutes(runtime, 4)
    assert runtime.kinds("running") == running


def test_a_queue_keeps_the_newest_and_displaces_the_older(runtime: Runtime) -> None:
    runtime.cron(overlap="queue")
    minutes(runtime, 1)
    runtime.leased(start=True)
    minutes(runtime, 2, 3)
    assert runtime.states() == ["running", "cancelled overlap", "ready"]
    assert runtime.kinds() == ["run", "run", "run"], "a displaced run keeps its tick's disposition"


def test_cancel_previous_asks_the_running_one_to_stop_and_waits_for_it(runtime: Runtime) -> None:
    runtime.cron(overlap="cancel_previous")
    minutes(runtime, 1)
    leased = runtime.leased(start=True, ttl=300)
    minutes(runtime, 2)
    assert runtime.store.stops_asked(leased.lease) == {leased.run.id: "overlap"}
    assert runtime.lease() is None
    runtime.settle(leased, DEAD)
    assert runtime.leased().run.tick_us == us("2027-01-15T08:02:00")


def test_cancel_previous_does_not_wait_for_a_lease_that_has_expired(runtime: Runtime) -> None:
    runtime.cron(overlap="cancel_previous")
    minutes(runtime, 1)
    runtime.leased(start=True, ttl=10)
    minutes(runtime, 2)
    assert runtime.leased().run.tick_us == us("2027-01-15T08:02:00")


def test_a_deferred_run_counts_as_well(runtime: Runtime) -> None:
    runtime.cron()
    minutes(runtime, 1)
    leased = runtime.leased(start=True)
    later = runtime.now + timedelta(hours=1)
    runtime.settle(leased, Settlement(RunState.READY, Reason.RETRY, ready_at=later))
    minutes(runtime, 2)
    assert runtime.kinds() == ["run", "overlap"]


def test_the_queue_of_a_schedule_is_bounded_whatever_happens(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=3)
    minutes(runtime, *range(1, 20))
    assert sum(run.state == "ready" for run in runtime.runs()) == 3


# --- pause, halt, blackout, skip-next


def test_ticks_of_a_pause_are_recorded_as_paused(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel")
    minutes(runtime, 1)
    runtime.store.registry().pause("default", "s", until=None, note="x", actor="test")
    minutes(runtime, 2, 3)
    runtime.store.registry().resume("default", "s", actor="test")
    minutes(runtime, 4)
    assert runtime.kinds() == ["run", "paused", "paused", "run"]


def test_ticks_of_a_pause_that_is_over_are_still_recorded_as_paused(runtime: Runtime) -> None:
    """The ticker was down during the whole pause."""
    runtime.cron(overlap="allow_parallel", grace="1h")
    runtime.go_to("2027-01-15T08:00:30")
    runtime.store.registry().pause("default", "s", until=at("2027-01-15T08:02:30"), note="", actor="test")
    minutes(runtime, 4)
    assert [kind for _, count, kind in runtime.ticks() for _ in range(count)] == ["paused", "paused", "run", "run"]


def test_a_halt_pauses_every_schedule_of_the_tenant_and_no_other(runtime: Runtime) -> None:
    runtime.cron("a")
    runtime.cron("b")
    runtime.cron("c", tenant="other")
    runtime.store.registry().halt("default", note="", actor="test")
    minutes(runtime, 1)
    assert (runtime.kinds("a"), runtime.kinds("b"), runtime.kinds("c")) == (["paused"], ["paused"], ["run"])


def test_ticks_in_a_blackout_are_recorded_as_calendar(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel", calendar=("FRI 08:02-08:04",))
    minutes(runtime, 1, 2, 3, 4)
    assert runtime.kinds() == ["run", "calendar", "calendar", "run"]


def test_skip_next_leaves_out_as_many_as_asked_and_then_none(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel")
    runtime.store.registry().skip_next("default", "s", 2, actor="test")
    minutes(runtime, 1, 2, 3)
    assert runtime.kinds() == ["paused", "paused", "run"]


# --- budgets


def test_a_tick_without_money_is_a_recorded_skip(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron(overlap="allow_parallel", budget_usd_per_day="5")
    minutes(runtime, 1, 2, 3)
    assert runtime.kinds() == ["run", "run", "budget"]
    assert {run.reserved_micro for run in runtime.runs()} == {2_000_000}


def test_the_real_cost_takes_the_place_of_the_reservation(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron(budget_usd_per_day="3")
    minutes(runtime, 1)
    leased = runtime.leased(start=True)
    runtime.settle(leased, cost_micro=500_000)
    minutes(runtime, 2)
    assert runtime.kinds() == ["run", "run"]


def test_what_never_started_costs_nothing_and_what_did_costs_even_if_cancelled(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron(budget_usd_per_day="3")
    minutes(runtime, 1)
    runtime.store.cancel(runtime.runs()[0].id, tenant="default", by="ada")
    minutes(runtime, 2)
    leased = runtime.leased(start=True)
    runtime.settle(leased, Settlement(RunState.CANCELLED, Reason.CANCELLED))
    minutes(runtime, 3)
    assert runtime.kinds() == ["run", "run", "budget"]


def test_what_died_of_waiting_costs_nothing(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2", queue_timeout="1m"))
    runtime.cron(budget_usd_per_day="3")
    minutes(runtime, 1, 2)
    assert runtime.reap() == 1
    minutes(runtime, 3)
    assert runtime.kinds() == ["run", "overlap", "run"]


def test_runs_per_hour_are_limited(runtime: Runtime) -> None:
    runtime.cron(cron="*/10 * * * *", overlap="allow_parallel", parallel_max=100, max_runs_per_hour=3)
    minutes(runtime, *range(10, 130, 10))
    assert runtime.kinds() == ["run", "run", "run", "budget", "budget", "budget"] * 2


# --- downtime


def test_a_year_of_downtime_costs_a_few_rows_and_milliseconds(runtime: Runtime) -> None:
    runtime.cron(cron="* * * * * *", timezone="Europe/Berlin")
    runtime.tick()
    runtime.go_to("2028-01-15T08:00:00")
    began = time.process_time()  # ours alone: a busy machine says nothing about the code
    runtime.tick()
    assert time.process_time() - began < 2

    rows = runtime.ticks()
    assert len(rows) <= 4
    assert sum(count for _, count, _ in rows) == 365 * 86_400 + 3600, "and the hour that does not exist"
    assert {kind for _, _, kind in rows} == {"missed", "run", "overlap", "dst_gap"}
    missed = next(count for _, count, kind in rows if kind == "missed")
    assert missed > 365 * 86_400 - 100
    assert len(runtime.runs()) == 1
    runtime.pass_time(1)
    runtime.tick()
    assert runtime.kinds()[-1] == "overlap", "it goes on as if nothing had been"


def test_after_a_long_outage_catching_up_is_bounded_and_spread(runtime: Runtime) -> None:
    """Two hundred schedules wake after a day: starts a minute, runs and budget stay bounded."""
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="1"))
    for number in range(200):
        name = f"s{number:03d}"
        runtime.definitions.setdefault("default", {})[name] = ScheduleDefinition(
            name,
            "agent",
            cron="0 * * * *",
            timezone="UTC",
            missed="replay",
            catchup_max=3,
            stagger="10m",
            budget_usd_per_day="2",
        )
    runtime.apply()
    runtime.tick()
    runtime.go_to("2027-01-16T08:30:00")
    runtime.tick()
    ready = [run.ready_us for run in runtime.runs()]
    assert len(ready) <= 200 * 2
    assert max(sum(0 <= one - first < MINUTE_US for one in ready) for first in ready) < 60
    assert min(ready) >= runtime.rig.now_us()


def test_coalesce_makes_one_run_that_covers_all_since_the_last_success(runtime: Runtime) -> None:
    runtime.cron(cron="0 * * * *", missed="coalesce")
    runtime.tick_at("2027-01-15T09:00:00")
    runtime.work()
    runtime.tick_at("2027-01-15T13:30:00")
    run = runtime.runs()[-1]
    assert runtime.ticks()[1:] == [("2027-01-15T10:00:00", 3, "coalesced"), ("2027-01-15T13:00:00", 1, "run")]
    assert (run.period_start_us, run.tick_us) == (us("2027-01-15T09:00:00"), us("2027-01-15T13:00:00"))


def test_every_catch_up_run_names_a_slot_that_the_expression_matches(runtime: Runtime) -> None:
    """Wednesday's job is Wednesday's, also when it is caught up with on Friday."""
    runtime.cron(cron="0 9 * * 3", missed="replay", catchup_window="30d")
    runtime.tick()
    runtime.tick_at("2027-02-05T12:00:00")
    ticks = [at("2027-01-20T09:00:00"), at("2027-01-27T09:00:00"), at("2027-02-03T09:00:00")]
    assert [run.tick_us for run in runtime.runs()] == [us(tick.replace(tzinfo=None).isoformat()) for tick in ticks]


def test_a_weekly_schedule_runs_however_often_the_scheduler_restarts(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 * * 1")
    for step in range(4 * 15):
        runtime.go_to(at("2027-01-15T08:00:00") + timedelta(hours=6 * step, minutes=60))
        runtime.tick(runtime.another())
        if leased := runtime.lease():
            runtime.settle(leased)
    assert [run.tick_us for run in runtime.runs()] == [us("2027-01-18T09:00:00"), us("2027-01-25T09:00:00")]


def test_a_hundred_one_shots_at_one_instant_all_get_their_run(runtime: Runtime) -> None:
    for number in range(100):
        name = f"at{number:03d}"
        runtime.definitions.setdefault("default", {})[name] = ScheduleDefinition(
            name, "agent", at="2027-01-15T08:05:00Z"
        )
    runtime.apply()
    minutes(runtime, 5)
    assert len({run.schedule for run in runtime.runs()}) == 100
    assert runtime.store.next_due_us() is None
    for _ in range(3):
        assert runtime.lease() is not None
    assert sum(run.state == "ready" for run in runtime.runs()) == 97


def test_a_one_shot_in_the_past_ends_as_missed_and_does_not_stay_armed(runtime: Runtime) -> None:
    runtime.apply(ScheduleDefinition("s", "agent", at="2027-01-15T08:05:00Z"))
    minutes(runtime, 30)
    assert runtime.ticks() == [("2027-01-15T08:05:00", 1, "missed")]
    assert runtime.schedule()["due_us"] is None


# --- clocks


def test_a_clock_that_steps_back_fires_nothing_twice(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel", parallel_max=100)
    minutes(runtime, 1, 2, 3)
    for number in (0.5, 1, 2, 2.9, 3, 3.5):
        runtime.go_to(at("2027-01-15T08:00:00") + timedelta(minutes=number))
        runtime.tick()
    assert runtime.kinds() == ["run", "run", "run"]
    minutes(runtime, 4)
    assert runtime.kinds() == ["run", "run", "run", "run"]


def test_a_clock_that_jumps_ahead_an_hour_fires_the_ticks_of_that_hour_once(runtime: Runtime) -> None:
    runtime.cron(cron="*/20 * * * *", overlap="allow_parallel", grace="2h")
    minutes(runtime, 60)
    assert runtime.kinds() == ["run", "run", "run"]
    minutes(runtime, 0, 20, 40, 60)
    assert runtime.kinds() == ["run", "run", "run"]


# --- edits


@pytest.mark.parametrize("offset", [-61, -60, -59, -1, 0, 1, 30, 59, 60, 61])
@pytest.mark.parametrize("ticked", [True, False])
def test_an_edit_round_a_tick_never_fires_it_again_and_never_loses_it(
    runtime: Runtime, offset: float, *, ticked: bool
) -> None:
    """Only the prompt changes, at every offset round the tick of 09:00, seen by the ticker or not."""
    runtime.cron(cron="0 * * * *", overlap="allow_parallel", grace="10m")
    runtime.tick()
    runtime.go_to(at("2027-01-15T09:00:00") + timedelta(seconds=offset))
    if ticked:
        runtime.tick()
    runtime.apply(AgentDefinition("agent", command=("echo", "edited")))
    runtime.tick_at("2027-01-15T09:05:00", "2027-01-15T10:00:00")
    assert [slot for slot, _, _ in runtime.ticks()] == ["2027-01-15T09:00:00", "2027-01-15T10:00:00"]
    assert runtime.kinds() == ["run", "run"]
    assert len({run.tick_us for run in runtime.runs()}) == len(runtime.runs()) == 2


@pytest.mark.parametrize("offset", [-30, -1, 0, 1, 30])
def test_moving_a_cron_by_an_hour_reruns_nothing(runtime: Runtime, offset: float) -> None:
    """What has just run at nine is not made up for when nine becomes eight, nor again at ten."""
    runtime.cron(cron="0 9 * * *", overlap="allow_parallel")
    runtime.tick_at("2027-01-15T09:00:00")
    runtime.go_to(at("2027-01-15T09:00:00") + timedelta(seconds=max(0, offset)))
    runtime.cron(cron="0 8 * * *", overlap="allow_parallel")
    runtime.tick_at("2027-01-15T09:30:00")
    assert len(runtime.runs()) == 1
    runtime.cron(cron="0 10 * * *", overlap="allow_parallel")
    runtime.tick_at("2027-01-15T10:00:00")
    assert [run.version for run in runtime.runs()] == [1, 3]


def test_a_schedule_that_is_switched_off_makes_nothing_even_if_somebody_looks(runtime: Runtime) -> None:
    runtime.cron(enabled=False)
    runtime.sql("UPDATE $schedule SET due_us = 1")
    minutes(runtime, 1, 2)
    assert runtime.ticks() == []
    assert runtime.schedule()["due_us"] is None


def test_applying_the_same_again_changes_nothing(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    before = runtime.schedule()
    runtime.put()
    assert runtime.schedule() == before


def test_a_retired_schedule_makes_no_ticks_and_goes_on_from_now_when_it_comes_back(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel")
    runtime.cron("other", "0 0 1 1 *")
    minutes(runtime, 1)
    kept = runtime.definitions["default"].pop("s")
    runtime.put()
    minutes(runtime, 2, 3)
    assert runtime.kinds() == ["run"]
    runtime.apply(kept)
    minutes(runtime, 4)
    assert [slot[-5:] for slot, _, _ in runtime.ticks()] == ["01:00", "04:00"]


def test_two_tenants_with_the_same_names_do_not_meet(runtime: Runtime) -> None:
    runtime.cron("s")
    runtime.cron("s", tenant="other")
    minutes(runtime, 1)
    assert len(runtime.runs()) == len(runtime.runs(tenant="other")) == 1
    assert runtime.runs()[0].idempotency_key != runtime.runs(tenant="other")[0].idempotency_key
    assert {run.schedule for run in runtime.runs()} == {"s"}
    first, second = runtime.leased(), runtime.leased()
    assert {first.run.tenant, second.run.tenant} == {"default", "other"}, "they lease different things"
