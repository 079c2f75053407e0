"""Starting and settling many runs in one transaction, each by its fence and the epoch of its lease, on both stores."""

import json
from datetime import timedelta
from typing import Any

import pytest

from fencepost.flow.run_recheck import recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import LeaseMoved, StoreUnavailable
from fencepost.model.notice import Wish
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Ended, LeasedRun, Report, Starting
from tests.stores.counted import counted_statements
from tests.stores.rig import Rig
from tests.stores.test_runs_lease import agent_run
from tests.support.runtime import DEAD, SUCCEEDED, Runtime

BACK = Settlement(RunState.READY, Reason.DRAINED, uses_attempt=False)
IMPOSSIBLE = 2**70  # no database has room for it


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def batch(runtime: Runtime, number: int, **fields: Any) -> list[LeasedRun]:  # noqa: ANN401  # of the claim
    """Lease so many runs of the agent alone."""
    for one in range(number):
        agent_run(runtime, ready_in=-100 + one)
    leased = runtime.lease_batch(**fields)
    assert len(leased) == number
    return leased


def scheduled(runtime: Runtime, *names: str, **fields: object) -> list[LeasedRun]:
    for name in names:
        runtime.cron(name, **fields)  # type: ignore[arg-type]
    runtime.tick_at("2027-01-15T08:01:00")
    return sorted(runtime.lease_batch(), key=lambda one: str(one.run.schedule))


def start(runtime: Runtime, leased: list[LeasedRun]) -> dict[str, str]:
    return runtime.store.start_runs([Starting(one.lease, one.run) for one in leased])


def ended(leased: LeasedRun, settlement: Settlement = SUCCEEDED, **fields: object) -> Ended:
    report = Report(settlement.state.value, **{key: fields.pop(key) for key in list(fields) if key in Report._fields})  # type: ignore[arg-type]
    return Ended(leased, settlement, report, **fields)  # type: ignore[arg-type]


def move(runtime: Runtime, leased: LeasedRun) -> LeasedRun:
    """Let another worker adopt a run, and return it as that worker has it."""
    runtime.sql("UPDATE $lease SET epoch = epoch + 1, keeper = 'another' WHERE id = ?", leased.lease.id)
    return leased._replace(lease=leased.lease._replace(epoch=leased.lease.epoch + 1))


def break_by_hand(runtime: Runtime, leased: LeasedRun) -> None:
    assert runtime.store.break_lease(
        next(held for held in runtime.store.leases() if held.id == leased.lease.id), why="test"
    )


# --- starting


def test_the_starts_of_a_batch_are_recorded_for_runs_attempts_and_leases(runtime: Runtime) -> None:
    leased = batch(runtime, 3)
    runtime.pass_time(1)
    starting = [Starting(one.lease, one.run, f"S{number}") for number, one in enumerate(leased)]
    assert runtime.store.start_runs(starting) == {}
    now_us = runtime.rig.now_us()
    assert {held.started_us for held in runtime.store.leases()} == {now_us}
    for number, one in enumerate(leased):
        (attempt,) = runtime.store.attempts(one.run.id)
        assert (attempt.started_us, attempt.session) == (now_us, f"S{number}")
        assert runtime.run(one.run.id).started_us == now_us
    assert runtime.store.start_runs([]) == {}


def test_what_is_not_ours_any_more_is_named_and_the_others_start(runtime: Runtime) -> None:
    broken, moved, reaped, good = batch(runtime, 4, ttl_seconds=30)
    break_by_hand(runtime, broken)
    mine = move(runtime, moved)
    runtime.sql("UPDATE $run SET fence = fence + 1 WHERE id = ?", reaped.run.id)
    assert start(runtime, [broken, moved, reaped, good]) == {
        broken.run.id: "lost",
        moved.run.id: "moved",
        reaped.run.id: "lost",
    }
    started = [one.run.id for one in (broken, moved, reaped, good) if runtime.run(one.run.id).started_us is not None]
    assert started == [good.run.id]
    assert [held.id for held in runtime.store.leases() if held.started_us is not None] == [good.lease.id]
    with pytest.raises(LeaseMoved, match="another worker"):
        runtime.store.start_run(moved)
    assert start(runtime, [mine]) == {}


def test_a_once_schedule_is_retired_by_a_batch_that_starts_it_and_not_by_one_that_lost_it(runtime: Runtime) -> None:
    kept, lost = scheduled(runtime, "kept", "lost", once=True)
    break_by_hand(runtime, lost)
    start(runtime, [kept, lost])
    assert (runtime.schedule("kept")["once_done"], runtime.schedule("lost")["once_done"]) == (True, False)
    assert runtime.schedule("kept")["due_us"] is None


def test_those_who_want_to_hear_of_starts_are_told_of_each_once(runtime: Runtime) -> None:
    notices = runtime.store.notices()
    notices.declare("default", "test.toml", {Wish("ops", "started")})
    leased = batch(runtime, 2)
    for _ in range(2):  # asked again after an unknown answer
        start(runtime, leased)
    told = notices.claim("default", "test.toml", ["ops"], limit=10, hold_seconds=60)
    assert sorted(one.subject for one in told) == sorted(f"run:{one.run.id}" for one in leased)


# --- settling


def test_each_run_of_a_batch_gets_its_own_end(runtime: Runtime) -> None:
    leased = batch(runtime, 4)
    start(runtime, leased)
    later = Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now + timedelta(seconds=60))
    done = [
        ended(leased[0], summary="said", log="path", last_log="the end", cost_micro=5, turns=2, usage='{"input": 1}'),
        ended(leased[1], DEAD, exit_code=3),
        ended(leased[2], later, exit_code=1),
        ended(leased[3], BACK, session="S"),
    ]
    assert runtime.store.settle_runs(done) == {}
    assert runtime.states() == ["succeeded", "dead exit_code", "ready retry", "ready drained"]
    assert runtime.store.leases() == []
    one, two, three, four = (runtime.run(each.run.id) for each in leased)
    assert (one.summary, one.log, one.cost_micro, one.ended_us) == ("said", "path", 5, runtime.rig.now_us())
    assert (two.exit_code, three.ready_us) == (3, runtime.rig.now_us() + 60_000_000)
    assert (three.attempt, four.attempt) == (1, 0)
    (attempt,) = runtime.store.attempts(one.id)
    assert (attempt.outcome, attempt.last_log, attempt.turns, attempt.usage) == (
        "succeeded",
        "the end",
        2,
        '{"input": 1}',
    )
    assert runtime.store.attempts(four.id)[0].session == "S"
    assert [row["state"] for row in runtime.audit("settle")] == ["succeeded", "dead", "ready", "ready"]
    again = runtime.lease_batch()
    assert [each.run.id for each in again] == [four.id]


def test_nothing_to_settle_is_nothing_to_do(runtime: Runtime) -> None:
    assert runtime.store.settle_runs([]) == {}


def test_what_was_lost_or_adopted_is_named_and_the_others_are_settled(runtime: Runtime) -> None:
    broken, moved, good = batch(runtime, 3)
    start(runtime, [broken, moved, good])
    break_by_hand(runtime, broken)
    mine = move(runtime, moved)
    lost = runtime.store.settle_runs([ended(one) for one in (broken, moved, good)])
    assert lost == {broken.run.id: "lost", moved.run.id: "moved"}
    assert runtime.states() == ["running", "running", "succeeded"]
    with pytest.raises(LeaseMoved, match="goes on there"):
        runtime.settle(moved)
    assert runtime.store.settle_runs([ended(mine)]) == {}
    assert runtime.states() == ["running", "succeeded", "succeeded"]


def test_a_known_end_is_settled_after_its_lease_has_run_out_if_nobody_else_has_it(runtime: Runtime) -> None:
    leased = batch(runtime, 2, ttl_seconds=5)
    start(runtime, leased)
    runtime.pass_time(3600)
    assert runtime.store.settle_runs([ended(one) for one in leased]) == {}
    assert runtime.states() == ["succeeded", "succeeded"]


def test_asking_again_after_an_unknown_answer_is_answered_as_settled(runtime: Runtime) -> None:
    leased = batch(runtime, 3)
    start(runtime, leased)
    done = [ended(one, exit_code=0, cost_micro=5) for one in leased]
    runtime.store.settle_runs(done)
    assert runtime.store.settle_runs(done) == {}
    assert [runtime.run(one.run.id).cost_micro for one in leased] == [5, 5, 5]
    assert len(runtime.audit("settle")) == 3
    other = [ended(one, DEAD, exit_code=1) for one in leased]
    assert set(runtime.store.settle_runs(other).values()) == {"lost"}


def test_part_of_a_batch_that_was_settled_before_is_settled_and_the_rest_follows(runtime: Runtime) -> None:
    first, second = scheduled(runtime, "a", "b")
    done = [ended(first), ended(second, DEAD)]
    runtime.store.settle_runs(done[:1])
    assert runtime.store.settle_runs(done) == {}
    assert runtime.states() == ["succeeded", "dead exit_code"]
    assert len(runtime.audit("settle")) == 2


def test_a_run_whose_processes_are_left_keeps_its_lease_as_lost_and_its_gates_as_owed(runtime: Runtime) -> None:
    clean, unclean = batch(runtime, 2, gates=("redis:x",))
    start(runtime, [clean, unclean])
    runtime.store.settle_runs([ended(clean, BACK), ended(unclean, BACK, clean=False)])
    (held,) = runtime.store.leases()
    assert (held.id, held.lost) == (unclean.lease.id, True)
    again = {one.run.id: one for one in runtime.lease_batch()}
    assert again[clean.run.id].predecessors == ()
    assert [one.id for one in again[unclean.run.id].predecessors] == [unclean.lease.id]
    assert again[unclean.run.id].lease.gates == ("redis:x",)


def test_what_never_began_goes_back_unharmed_although_its_start_is_on_record(runtime: Runtime) -> None:
    (leased,) = batch(runtime, 1)
    start(runtime, [leased])
    runtime.store.settle_runs([ended(leased, BACK, began=False)])
    run = runtime.run(leased.run.id)
    assert (run.state, run.attempt, run.started_us) == ("ready", 0, None)
    assert runtime.store.attempts(run.id)[0].started_us is None


def test_a_run_that_was_asked_to_stop_does_not_come_back(runtime: Runtime) -> None:
    leased = batch(runtime, 2)
    runtime.store.cancel(leased[0].run.id, tenant="default", by="ada")
    runtime.store.settle_runs([ended(one, BACK) for one in leased])
    assert runtime.states() == ["cancelled cancelled", "ready drained"]


def test_a_schedule_learns_from_every_end_of_a_batch(runtime: Runtime) -> None:
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=9, pause_on_failure=3)
    runtime.every("e", "10m")
    runtime.tick()
    runtime.pass_time(4)
    runtime.tick()
    leased = runtime.lease_batch()
    many = [one for one in leased if one.run.schedule == "p"]
    (every,) = [one for one in leased if one.run.schedule == "e"]
    good, *bad = many
    assert len(bad) >= 3
    runtime.store.settle_runs([ended(good), ended(every), *(ended(one, DEAD) for one in bad)])
    learned = runtime.schedule("p")
    assert (learned["failures"], learned["last_success_us"]) == (len(bad), good.run.tick_us)
    assert len(runtime.sql("SELECT note FROM $pause WHERE schedule = 'p'")) == len(bad) - 2
    assert runtime.schedule("e")["last_ended_us"] == runtime.rig.now_us()
    assert runtime.schedule("e")["due_us"] == runtime.rig.now_us() + 600_000_000


def test_slots_and_places_of_a_batch_are_free_again(runtime: Runtime) -> None:
    for name in "abc":
        runtime.cron(name, concurrency_key="k", concurrency=2)
    runtime.tick_at("2027-01-15T08:01:00")
    first = runtime.store.lease_runs(runtime.offers(runtime.runs()), recheck_for)
    assert len(first) == 2
    runtime.store.settle_runs([ended(one) for one in first])
    assert len(runtime.lease_batch()) == 1


# --- what a store does not take


def test_one_row_that_the_store_refuses_is_split_off_and_the_others_are_settled(runtime: Runtime) -> None:
    leased = batch(runtime, 7)
    bad = leased[3]
    done = [ended(one, exit_code=IMPOSSIBLE if one is bad else 0) for one in leased]
    answers = runtime.store.settle_runs(done)
    assert list(answers) == [bad.run.id]
    assert answers[bad.run.id].startswith("failed: ")
    assert runtime.states().count("succeeded") == 6
    assert runtime.run(bad.run.id).state == "running"
    with pytest.raises(StoreUnavailable, match="does not take"):
        runtime.settle(bad, exit_code=IMPOSSIBLE)
    assert runtime.store.settle_runs([ended(bad)]) == {}


@pytest.mark.parametrize("text", ["a\0b", "half a pair \ud800", "\U0001f40c"])
def test_words_that_no_database_takes_do_not_keep_a_run_from_its_end(runtime: Runtime, text: str) -> None:
    (leased,) = batch(runtime, 1)
    report = Report("succeeded", summary=text, last_log=text, log=text, usage=json.dumps(text))
    assert runtime.store.settle_runs([Ended(leased, SUCCEEDED, report)]) == {}
    assert runtime.run(leased.run.id).summary == text.replace("\0", "?").replace("\ud800", "?")


# --- what it costs


def test_starting_and_settling_fifty_takes_as_many_statements_as_two(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",)))
    runtime.cron("p", "* * * * * *", overlap="allow_parallel", parallel_max=99)
    runtime.tick()
    runtime.pass_time(30)
    runtime.tick()
    for _ in range(25):
        agent_run(runtime)
    leased = sorted(runtime.lease_batch(gates=("file:/x",)), key=lambda one: one.run.id)
    few, many = [leased[0], leased[-1]], leased[1:-1][:50]
    assert len(many) == 50
    numbers = []
    for some in (few, many):
        with counted_statements(monkeypatch) as seen:
            assert start(runtime, some) == {}
        number = len(seen)
        with counted_statements(monkeypatch) as seen:
            assert runtime.store.settle_runs([ended(one, DEAD) for one in some]) == {}
        numbers.append((number, len(seen)))
    assert numbers[0] == numbers[1]
    assert numbers[0] <= (8, 15)


def test_nothing_is_left_of_a_run_that_has_ended_but_its_records(runtime: Runtime) -> None:
    leased = batch(runtime, 2)
    start(runtime, leased)
    runtime.store.settle_runs([ended(one) for one in leased])
    assert runtime.sql("SELECT name FROM $resource WHERE lease_id IS NOT NULL") == []
    assert runtime.sql("SELECT count(*) FROM $lease") == [(0,)]
