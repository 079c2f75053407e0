"""A gate that is away, from the first run that it turns away to the person who is told: on both stores."""

import pytest

from fencepost.flow.closed_gate import closed_gate
from fencepost.model.notice import Wish
from fencepost.model.outcome import NotStarted, Outcome, Settlement
from fencepost.model.retry import RetryPolicy, settle
from fencepost.model.run import Reason, RunId, RunState
from fencepost.ports.runs import Ended, LeasedRun, Report
from tests.support.runtime import TENANT, Runtime

TURNED_AWAY = NotStarted(Reason.GATE_UNREACHABLE)
SAID = "fencepost: not started: git:/srv/site.git cannot be reached"


@pytest.fixture
def waiting(runtime: Runtime) -> Runtime:
    """A run that has waited for half an hour already, for something else than a gate."""
    runtime.go_to("2027-01-15T08:00")
    runtime.cron("s", overlap="queue")
    runtime.store.notices().declare(TENANT, "test.toml", {Wish("ops", "gate")})
    runtime.pass_time(60)
    runtime.tick()
    runtime.pass_time(1800)
    return runtime


def decided(runtime: Runtime, found: LeasedRun, outcome: Outcome) -> Settlement:
    run, now = found.run, runtime.now
    closed = closed_gate(outcome, lambda: runtime.store.attempts(run.id), now)
    return settle(outcome, run_id=RunId(run.id), attempt=run.attempt, retry=RetryPolicy(), now=now, closed=closed)


def turn_away(runtime: Runtime, *, minutes: float) -> None:
    """Let the run come to a closed gate, again and again, for so long."""
    end = runtime.now.timestamp() + minutes * 60
    while runtime.now.timestamp() < end:
        found = runtime.leased()
        settlement = decided(runtime, found, TURNED_AWAY)
        runtime.settle(found, settlement, "notstarted", last_log=SAID)
        assert settlement.ready_at is not None
        runtime.go_to(settlement.ready_at)


def told(runtime: Runtime) -> int:
    notices = runtime.store.notices()
    found = notices.claim(TENANT, "test.toml", ("ops",), limit=100, hold_seconds=60)
    for one in found:
        assert notices.sent(one)
    return len(found)


def test_a_gate_that_stays_closed_is_one_alarm_counted_from_the_first_refusal(waiting: Runtime) -> None:
    turn_away(waiting, minutes=4)
    assert (waiting.audit("alarm"), told(waiting)) == ([], 0), "it waited long, yet not for the gate"

    turn_away(waiting, minutes=180)
    [alarm] = waiting.audit("alarm")
    assert (alarm["reason"], alarm["last_log"], told(waiting)) == ("gate_unreachable", SAID, 1)


def test_once_it_has_started_the_next_outage_is_another_alarm(waiting: Runtime) -> None:
    turn_away(waiting, minutes=30)
    assert (len(waiting.audit("alarm")), told(waiting)) == (1, 1)
    waiting.work(Settlement(RunState.READY, Reason.RETRY))

    turn_away(waiting, minutes=4)
    assert (len(waiting.audit("alarm")), told(waiting)) == (1, 0)
    turn_away(waiting, minutes=30)
    assert (len(waiting.audit("alarm")), told(waiting)) == (2, 1)


def test_being_turned_away_many_times_does_not_count_as_being_lost(waiting: Runtime) -> None:
    turn_away(waiting, minutes=180)
    found = waiting.leased()
    waiting.pass_time(600)

    assert waiting.reap() == 1
    assert waiting.run(found.run.id).state == RunState.READY


def test_a_lanes_turn_puts_the_alarm_down_too(waiting: Runtime) -> None:
    turn_away(waiting, minutes=4)
    found = waiting.leased()
    waiting.pass_time(300)
    settlement = decided(waiting, found, TURNED_AWAY)
    ended = Ended(found, settlement, Report("notstarted", last_log=SAID), began=False)
    waiting.store.turn([ended], [], None)

    assert settlement.alarm
    assert [one["last_log"] for one in waiting.audit("alarm")] == [SAID]
    assert told(waiting) == 1
