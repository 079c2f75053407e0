"""`every` counts from the last end, whatever that was: it can neither stop nor spin."""

from datetime import timedelta

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.notice import Wish
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from tests.support.runtime import DEAD, SUCCEEDED, Runtime, at, us

CANCELLED = Settlement(RunState.CANCELLED, Reason.CANCELLED)
TEN = 600


def occurrences(runtime: Runtime) -> list[str]:
    return [str(run.occurrence) for run in runtime.runs()]


def test_the_first_is_due_at_apply_and_has_the_anchor_as_its_occurrence(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    assert occurrences(runtime) == ["every:anchor"]
    (run,) = runtime.runs()
    assert (run.trigger, run.tick_us) == ("every", us("2027-01-15T08:00:00"))


def test_the_first_waits_for_its_anchor(runtime: Runtime) -> None:
    runtime.every(anchor="2027-01-15T08:30:00Z")
    runtime.tick_at("2027-01-15T08:29:59")
    assert runtime.runs() == []
    runtime.tick_at("2027-01-15T08:30:00")
    assert len(runtime.runs()) == 1


def notices(runtime: Runtime) -> int:
    ((count,),) = runtime.sql("SELECT count(*) FROM $notice WHERE event = 'budget'")
    return int(count)


def test_a_tick_that_waits_for_its_budget_is_on_record_and_told_once_a_day(runtime: Runtime) -> None:
    runtime.store.notices().declare("default", "test", [Wish("me", "budget", "")])
    runtime.every(max_runs_per_hour=1)
    runtime.tick()
    runtime.work()
    for _ in range(20):
        runtime.pass_time(2 * TEN / 20)
        runtime.tick()

    (waiting,) = [entry for entry in runtime.audit() if "waits" in entry]
    assert waiting["waits"] == "budget"
    assert waiting["denied"] == ["1 run within an hour, of 1 allowed."]
    assert notices(runtime) == 1
    runtime.pass_time(3600)
    runtime.tick()
    assert len(runtime.runs()) == 2, "it has waited for its hour, and no more"


def test_a_budget_that_stays_used_up_is_told_again_the_next_day(runtime: Runtime) -> None:
    runtime.store.notices().declare("default", "test", [Wish("me", "budget", "")])
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="1"))
    runtime.every(budget_usd_per_month="1")
    runtime.tick()
    runtime.work()
    for _ in range(3 * 24):
        runtime.pass_time(3600)
        runtime.tick()

    assert len([entry for entry in runtime.audit() if "waits" in entry]) == 4, "today, and on each of three days"
    assert notices(runtime) == 4


def test_nothing_is_due_while_the_last_run_has_not_ended(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    for _ in range(5):
        runtime.pass_time(TEN)
        runtime.tick()
    assert len(runtime.runs()) == 1


@pytest.mark.parametrize("end", ["succeeded", "dead", "cancelled", "cancelled while queued", "lost", "waited too long"])
def test_the_next_is_due_after_the_end_however_it_ended(runtime: Runtime, end: str) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), queue_timeout="1h"))
    runtime.every()
    runtime.tick()
    (first,) = runtime.runs()
    if end == "cancelled while queued":
        runtime.store.cancel(first.id, tenant="default", by="ada")
    elif end == "waited too long":
        runtime.pass_time(3600)
        assert runtime.reap() == 1
    elif end == "lost":
        runtime.leased(start=True, ttl=5)
        runtime.pass_time(6)
        assert runtime.reap() == 1
    else:
        runtime.work({"succeeded": SUCCEEDED, "dead": DEAD, "cancelled": CANCELLED}[end])
    ended = runtime.now
    runtime.tick_at(ended + timedelta(seconds=TEN - 1))
    assert len(runtime.runs()) == 1, "it does not spin"
    runtime.tick_at(ended + timedelta(seconds=TEN))
    assert occurrences(runtime) == ["every:anchor", f"every:{first.id}"], "it does not stop"
    assert runtime.runs()[-1].tick_us == us((ended + timedelta(seconds=TEN)).replace(tzinfo=None).isoformat())


@pytest.mark.parametrize("reason", ["paused", "disabled"])
def test_a_run_that_was_cancelled_at_the_second_look_is_an_end_as_well(runtime: Runtime, reason: str) -> None:
    runtime.every()
    runtime.tick()
    if reason == "paused":
        runtime.store.registry().pause("default", "s", until=None, note="", actor="test")
    else:
        runtime.every(enabled=False)
    assert runtime.lease() is None
    assert runtime.states() == [f"cancelled {reason}"]
    runtime.pass_time(TEN)
    runtime.tick()
    assert len(runtime.runs()) == 1
    if reason == "paused":
        runtime.store.registry().resume("default", "s", actor="test")
    else:
        runtime.every()
    runtime.pass_time(30)
    runtime.tick()
    assert len(runtime.runs()) == 2


def test_a_crash_between_the_end_and_the_next_tick_loses_nothing(runtime: Runtime) -> None:
    """The end and the next due time are one transaction; whoever ticks next finds both, once."""
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.pass_time(TEN)
    for store in (runtime.another(), runtime.another()):
        runtime.tick(store)
    assert len(runtime.runs()) == 2


def test_late_is_not_missed(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.pass_time(30 * 24 * 3600)
    runtime.tick()
    assert len(runtime.runs()) == 2
    assert runtime.kinds() == ["run", "run"]


def test_a_pause_makes_it_wait_and_the_resumption_lets_it_go_once(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.store.registry().pause("default", "s", until=None, note="", actor="test")
    for _ in range(8):
        runtime.pass_time(TEN)
        runtime.tick()
    assert len(runtime.runs()) == 1
    runtime.store.registry().resume("default", "s", actor="test")
    runtime.pass_time(15)
    runtime.tick()
    assert len(runtime.runs()) == 2


def test_it_waits_behind_a_run_that_somebody_asked_for(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.sql("UPDATE $run SET state = 'running', lease_id = NULL")
    runtime.pass_time(TEN)
    runtime.tick()
    assert len(runtime.runs()) == 1
    runtime.sql("UPDATE $run SET state = 'succeeded'")
    runtime.pass_time(15)
    runtime.tick()
    assert len(runtime.runs()) == 2


def test_an_edit_neither_repeats_nor_stops_it(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.every(every="20m")
    runtime.pass_time(TEN)
    runtime.tick()
    assert len(runtime.runs()) == 1
    runtime.pass_time(TEN)
    runtime.tick()
    assert len(runtime.runs()) == 2


def test_an_edit_while_its_run_is_going_neither_repeats_nor_stops_it(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    leased = runtime.leased(start=True, ttl=3600)
    runtime.every(every="20m")
    runtime.tick()
    assert len(runtime.runs()) == 1
    runtime.settle(leased)
    runtime.pass_time(2 * TEN)
    runtime.tick()
    assert len(runtime.runs()) == 2


def test_it_goes_on_after_a_time_as_something_else(runtime: Runtime) -> None:
    """every → cron, where its waiting run is displaced → every: the chain is not broken."""
    runtime.every()
    runtime.tick()
    (first,) = runtime.runs()
    runtime.cron(overlap="cancel_previous")
    runtime.tick_at("2027-01-15T08:01:00")
    assert runtime.run(first.id).reason == "overlap"
    runtime.work()
    runtime.every()
    runtime.pass_time(TEN)
    runtime.tick()
    assert occurrences(runtime)[-1] == f"every:{first.id}"


def test_retired_and_revived_it_goes_on(runtime: Runtime) -> None:
    runtime.every()
    runtime.cron("other", "0 0 1 1 *")
    runtime.tick()
    leased = runtime.leased(start=True, ttl=3600)
    kept = runtime.definitions["default"].pop("s")
    runtime.put()
    runtime.settle(leased)
    runtime.pass_time(TEN)
    runtime.tick()
    assert len(runtime.runs("s")) == 1
    runtime.apply(kept)
    runtime.tick()
    assert len(runtime.runs("s")) == 2


def test_it_stops_at_its_end(runtime: Runtime) -> None:
    runtime.every(end="2027-01-15T08:10:00Z")
    runtime.tick()
    runtime.work()
    runtime.tick_at("2027-01-15T08:30:00")
    assert len(runtime.runs()) == 1


def test_a_clock_that_steps_back_does_not_repeat_it(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.tick_at("2027-01-15T08:10:00")
    runtime.work()
    runtime.go_to(at("2027-01-15T08:00:00"))
    runtime.tick()
    runtime.tick_at("2027-01-15T08:10:00", "2027-01-15T08:19:59")
    assert len(runtime.runs()) == 2


def test_a_tick_that_comes_soon_is_looked_at_when_it_comes_and_no_later(runtime: Runtime) -> None:
    runtime.every(every="3s")
    runtime.tick()
    runtime.work()
    runtime.every(every="3s", jitter="1s")
    runtime.tick()
    assert runtime.schedule()["due_us"] == us("2027-01-15T08:00:03")


def test_aligned_to_its_start_it_keeps_the_rhythm_that_cron_cannot_say(runtime: Runtime) -> None:
    runtime.every(every="45m", align="start", anchor="2027-01-15T08:00:00Z")
    for tick in ("08:00:00", "08:45:00", "09:30:00", "10:15:00"):
        runtime.tick_at(f"2027-01-15T{tick}")
        runtime.work()
    assert [run.tick_us for run in runtime.runs()] == [
        us(f"2027-01-15T{tick}") for tick in ("08:00:00", "08:45:00", "09:30:00", "10:15:00")
    ]


def test_a_tick_that_a_run_outlasts_is_left_out_of_the_rhythm(runtime: Runtime) -> None:
    runtime.every(every="45m", align="start", anchor="2027-01-15T08:00:00Z")
    runtime.tick()
    leased = runtime.leased(start=True)
    runtime.pass_time(50 * 60)
    runtime.settle(leased, SUCCEEDED)
    runtime.tick_at("2027-01-15T09:29:59")
    assert len(runtime.runs()) == 1
    runtime.tick_at("2027-01-15T09:30:00")
    assert len(runtime.runs()) == 2
