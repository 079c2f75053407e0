"""The outbox on both stores: a notice is written with what it tells of, and given to one deliverer at a time."""

import json

import pytest

from fencepost.flow.notary import Notary
from fencepost.model.errors import LeaseLost
from fencepost.model.notice import EVENTS, Delivery, Wish
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Report
from fencepost.stores.notices import SqlNotices
from tests.stores.rig import Rig
from tests.support.runtime import DEAD, TENANT, Runtime, together

OWNER = "/etc/fencepost.toml"
DAY = 24 * 3600


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    found = Runtime(rig)
    found.go_to("2027-01-15T08:00")
    found.cron("s")
    return found


@pytest.fixture
def notices(runtime: Runtime) -> SqlNotices:
    found = runtime.store.notices()
    found.declare(TENANT, OWNER, {Wish("ops", event) for event in EVENTS if event != "started"})
    return found


def claim(notices: SqlNotices, *, names: tuple[str, ...] = ("ops",), owner: str = OWNER) -> list[Delivery]:
    return notices.claim(TENANT, owner, names, limit=100, hold_seconds=60)


def events(notices: SqlNotices) -> list[str]:
    return [one.event for one in claim(notices)]


def worked(runtime: Runtime, settlement: Settlement) -> str:
    runtime.pass_time(60)
    runtime.tick()
    return runtime.work(settlement).run.id


def test_a_dead_run_is_told_with_its_facts_and_once(runtime: Runtime, notices: SqlNotices) -> None:
    run_id = worked(runtime, DEAD)
    (told,) = claim(notices)
    body = json.loads(told.body)
    assert (told.event, told.name, told.attempt) == ("dead", "ops", 1)
    assert (body["run_id"], body["schedule"], body["reason"]) == (run_id, "s", "exit_code")
    assert claim(notices) == []


@pytest.mark.parametrize(
    ("settlement", "event"),
    [
        (Settlement(RunState.SUCCEEDED), "succeeded"),
        (Settlement(RunState.DEAD, Reason.STALL_TIMEOUT), "stalled"),
        (Settlement(RunState.DEAD, Reason.FENCE_REGRESS), "fence_regress"),
        (Settlement(RunState.DEAD, Reason.BUDGET), "budget"),
        (Settlement(RunState.READY, Reason.RETRY), "failed"),
        (Settlement(RunState.READY, Reason.GATE_UNREACHABLE, uses_attempt=False, alarm=True), "gate"),
    ],
)
def test_each_end_has_its_word(runtime: Runtime, notices: SqlNotices, settlement: Settlement, event: str) -> None:
    worked(runtime, settlement)
    assert events(notices) == [event]


def test_an_attempt_that_stood_still_is_told_although_another_follows(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.pass_time(60)
    runtime.tick()
    runtime.settle(runtime.leased(start=True), Settlement(RunState.READY, Reason.RESTART), "timedout", stalled=True)
    assert events(notices) == ["stalled"]


def test_nobody_who_wants_nothing_costs_a_row(runtime: Runtime) -> None:
    worked(runtime, DEAD)
    assert runtime.sql("SELECT count(*) FROM $notice") == [(0,)]


def test_only_the_schedules_that_were_named_are_told(runtime: Runtime) -> None:
    runtime.cron("other")
    notices = runtime.store.notices()
    notices.declare(TENANT, OWNER, {Wish("one", "dead", "other"), Wish("all", "dead")})
    runtime.pass_time(60)
    runtime.tick()
    runtime.work(DEAD)
    runtime.work(DEAD)
    told = sorted((one.name, json.loads(one.body)["schedule"]) for one in claim(notices, names=("one", "all")))
    assert told == [("all", "other"), ("all", "s"), ("one", "other")]


def test_tenants_do_not_hear_of_one_another(runtime: Runtime, notices: SqlNotices) -> None:
    notices.declare("stranger", OWNER, {Wish("ops", "dead")})
    worked(runtime, DEAD)
    assert notices.claim("stranger", OWNER, ("ops",), limit=10, hold_seconds=60) == []
    assert events(notices) == ["dead"]


def test_ticks_that_were_missed_are_one_notice(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.pass_time(3600)
    runtime.tick()
    (told,) = [one for one in claim(notices) if one.event == "missed"]
    assert json.loads(told.body)["count"] > 50


def test_two_tenants_whose_files_and_schedules_have_the_same_names_are_both_told(
    runtime: Runtime, notices: SqlNotices
) -> None:
    notices.declare("other", OWNER, {Wish("ops", "missed")})
    runtime.cron("s", tenant="other")
    runtime.pass_time(3600)
    runtime.tick()
    assert "missed" in events(notices)
    assert [one.event for one in notices.claim("other", OWNER, ("ops",), limit=9, hold_seconds=60)] == ["missed"]


def test_ticks_beyond_a_budget_are_told_once_a_day(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.cron("s", "0 * * * *", max_runs_per_hour=1)
    runtime.cron("dear", "*/30 * * * *", max_runs_per_hour=1, overlap="queue")
    told: list[str] = []
    for _ in range(26 * 2):
        runtime.pass_time(1_800)
        runtime.tick()
        while (leased := runtime.lease()) is not None:
            runtime.store.start_run(leased)
            runtime.settle(leased)
        for one in claim(notices):
            told += [one.event] if one.event == "budget" else []
            notices.sent(one)
    assert told == ["budget", "budget"], "26 hours from eight in the morning on touch two days"


def test_a_run_that_nobody_started_in_time_is_told(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.pass_time(60)
    runtime.tick()
    runtime.pass_time(3 * DAY)
    runtime.store.give_up_waiting(10)
    assert "dead" in events(notices)


def test_a_reaped_run_is_told(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.pass_time(60)
    runtime.tick()
    runtime.leased(ttl=10, start=True)
    runtime.pass_time(30)
    assert runtime.reap() == 1
    (told,) = claim(notices)
    assert (told.event, json.loads(told.body)["reason"]) == ("dead", "lost")


def test_a_settlement_that_is_refused_tells_nothing(runtime: Runtime, notices: SqlNotices) -> None:
    runtime.pass_time(60)
    runtime.tick()
    leased = runtime.leased(start=True)
    runtime.settle(leased, DEAD)
    with pytest.raises(LeaseLost):
        runtime.store.settle(leased.lease, DEAD, Report("other"), clean=True)
    assert events(notices) == ["dead"]


def test_the_start_is_told_before_the_end_and_the_end_waits_for_it(runtime: Runtime) -> None:
    notices = runtime.store.notices()
    notices.declare(TENANT, OWNER, {Wish("ops", "started"), Wish("ops", "succeeded")})
    worked(runtime, Settlement(RunState.SUCCEEDED))
    (start,) = claim(notices)
    assert start.event == "started"
    assert claim(notices) == [], "the end must not overtake the start"
    notices.sent(start)
    assert events(notices) == ["succeeded"]


def test_each_seal_of_the_audit_is_told(runtime: Runtime, notices: SqlNotices) -> None:
    worked(runtime, Settlement(RunState.SUCCEEDED))
    Notary(runtime.store.audit_chain(), b"k" * 32, runtime.store.clock_us, lambda _: None).step()
    told = [one for one in claim(notices) if one.event == "audit_head"]
    assert [json.loads(one.body)["number"] for one in told] == [1]


def test_what_a_dead_deliverer_had_is_taken_over_under_the_same_id(runtime: Runtime, notices: SqlNotices) -> None:
    worked(runtime, DEAD)
    (first,) = claim(notices)
    runtime.pass_time(61)
    (second,) = claim(notices)
    assert (second.id, second.attempt) == (first.id, 2)
    assert not notices.sent(first), "the one that was away has nothing to say any more"
    assert notices.sent(second)


def test_a_notice_that_failed_comes_back_at_its_time_and_dies_when_it_is_given_up(
    runtime: Runtime, notices: SqlNotices
) -> None:
    worked(runtime, DEAD)
    (one,) = claim(notices)
    assert notices.failed(one, "answered 500", again_in_seconds=30)
    assert claim(notices) == []
    runtime.pass_time(31)
    (again,) = claim(notices)
    assert notices.failed(again, "answered 410", again_in_seconds=None)
    runtime.pass_time(DAY)
    assert claim(notices) == []
    health = notices.health(TENANT)
    assert (health.dead, health.last_error) == (1, "ops: answered 410")


def test_what_was_given_up_can_be_tried_once_more(runtime: Runtime, notices: SqlNotices) -> None:
    worked(runtime, DEAD)
    (one,) = claim(notices)
    notices.failed(one, "answered 410", again_in_seconds=None)
    assert [(row.state, row.error) for row in notices.listed(TENANT, state="dead", limit=5)] == [
        ("dead", "answered 410")
    ]
    assert (notices.revive("stranger", "ops"), notices.revive(TENANT, "ops")) == (0, 1)
    (again,) = claim(notices)
    assert again.attempt == 2, "an earlier deliverer has nothing to say any more"


def test_targets_that_are_gone_get_nothing_and_others_keep_theirs(runtime: Runtime, notices: SqlNotices) -> None:
    notices.declare(TENANT, "other.toml", {Wish("ops", "dead")})
    worked(runtime, DEAD)
    notices.declare(TENANT, OWNER, set())
    assert events(notices) == []
    assert len(claim(notices, owner="other.toml")) == 1


def test_the_outbox_does_not_grow_for_ever(runtime: Runtime, notices: SqlNotices) -> None:
    worked(runtime, DEAD)
    runtime.pass_time(8 * DAY)
    assert not notices.forget(TENANT)
    assert (notices.health(TENANT).waiting, notices.health(TENANT).dead) == (0, 1)
    runtime.pass_time(31 * DAY)
    notices.forget(TENANT)
    assert runtime.sql("SELECT count(*) FROM $notice") == [(0,)]


def test_deliverers_that_come_together_share_what_is_due(runtime: Runtime, notices: SqlNotices) -> None:
    for _ in range(20):
        worked(runtime, DEAD)
    stores = [runtime.another() for _ in range(4)]
    taken: list[str] = []

    def take(number: int) -> None:
        taken.extend(
            one.id for one in stores[number].notices().claim(TENANT, OWNER, ("ops",), limit=8, hold_seconds=60)
        )

    together(take, range(4))
    assert len(taken) == len(set(taken))
    while more := claim(notices):
        taken.extend(one.id for one in more)
    assert len(set(taken)) == len(taken) == 20
