"""Runs on demand obey the same admission, wait in the same queue, and are made once for each key."""

from typing import Any

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Busy, Invalid
from fencepost.model.occurrence import idempotency_key
from fencepost.operations.run_requests import Requested, cancel, discard, replay, request_run
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import DEAD, Runtime, at, new_id, together, us


def ask(runtime: Runtime, target: str = "s", **options: Any) -> Requested:  # noqa: ANN401  # of the request
    store = options.pop("store", runtime.store)
    return request_run(store, tenant="default", target=target, new_run_id=new_id, by="ada", **options)


def ticked(runtime: Runtime, **fields: Any) -> str:  # noqa: ANN401  # of the definition
    """Let a schedule make its run of 08:01, and return its id."""
    runtime.cron(**fields)
    runtime.tick_at("2027-01-15T08:01:00")
    return runtime.runs()[-1].id


# --- run now


def test_a_schedule_runs_now_with_its_own_payload_and_version(runtime: Runtime) -> None:
    runtime.cron(payload={"a": 1}, priority=4)
    asked = ask(runtime)
    run = runtime.run(asked.run.id)
    assert not asked.earlier
    assert (run.trigger, run.schedule, run.version, run.state) == ("manual", "s", 1, "ready")
    assert (run.payload, run.priority, run.tick_us, run.ready_us) == ('{"a": 1}', 4, None, runtime.rig.now_us())
    assert runtime.work().run.id == run.id
    assert runtime.audit("manual")[0]["schedule"] == "s"


def test_what_is_said_on_the_way_replaces_what_is_defined(runtime: Runtime) -> None:
    runtime.cron(payload={"a": 1})
    run = ask(runtime, payload={"b": 2}, priority=9).run
    assert (run.payload, run.priority) == ('{"b": 2}', 9)


def test_an_agent_runs_without_a_schedule(runtime: Runtime) -> None:
    runtime.apply()
    run = ask(runtime, "agent").run
    assert (run.agent, run.schedule, run.trigger) == ("agent", None, "manual")
    assert runtime.work().run.id == run.id


def test_a_name_that_is_not_known_is_refused_with_the_nearest(runtime: Runtime) -> None:
    runtime.cron("nightly-sweep")
    before = runtime.contents()
    with pytest.raises(Invalid, match="did you mean schedule 'nightly-sweep'"):
        ask(runtime, "nightly-swep")
    with pytest.raises(Invalid, match="did you mean agent 'agent'"):
        ask(runtime, "agnet")
    assert runtime.contents() == before


def test_a_retired_or_switched_off_schedule_is_refused_and_says_so(runtime: Runtime) -> None:
    runtime.cron("off", enabled=False)
    runtime.cron("gone")
    runtime.definitions["default"].pop("gone")
    runtime.put()
    with pytest.raises(Invalid, match="switched off"):
        ask(runtime, "off")
    with pytest.raises(Invalid, match="retired"):
        ask(runtime, "gone")


def test_another_tenants_schedule_is_not_known(runtime: Runtime) -> None:
    runtime.cron("theirs", tenant="other")
    with pytest.raises(Invalid, match="there is no schedule or agent"):
        ask(runtime, "theirs")


@pytest.mark.parametrize(("key", "priority"), [("", None), ("x" * 513, None), ("a\nb", None), (None, 10**7)])
def test_bad_input_is_refused_and_changes_nothing(runtime: Runtime, key: str | None, priority: int | None) -> None:
    runtime.cron()
    before = runtime.contents()
    with pytest.raises(Invalid):
        ask(runtime, key=key, priority=priority)
    assert runtime.contents() == before


# --- run now under each overlap policy


@pytest.mark.parametrize(
    ("overlap", "beside_waiting", "beside_running"),
    [("forbid", False, False), ("queue", False, True), ("allow_parallel", True, True), ("cancel_previous", True, True)],
)
def test_run_now_obeys_the_overlap_policy_by_refusing_up_front(
    runtime: Runtime, overlap: str, *, beside_waiting: bool, beside_running: bool
) -> None:
    ticked(runtime, overlap=overlap)
    for running, allowed in ((False, beside_waiting), (True, beside_running)):
        if running:
            for run in runtime.runs():
                cancel(runtime.store, run.id, tenant="default", by="ada")
            runtime.tick_at("2027-01-15T08:02:00")
            runtime.leased(start=True, ttl=300)
        before = runtime.contents()
        if allowed:
            assert not ask(runtime).earlier
        else:
            with pytest.raises(Busy, match="leaves no room beside run"):
                ask(runtime)
            assert runtime.contents() == before


def test_run_now_may_say_its_own_policy(runtime: Runtime) -> None:
    ticked(runtime)
    with pytest.raises(Busy):
        ask(runtime)
    assert not ask(runtime, overlap="allow_parallel").earlier
    with pytest.raises(Invalid, match="did you mean"):
        ask(runtime, overlap="alow_parallel")
    with pytest.raises(Invalid, match="an agent"):
        ask(runtime, "agent", overlap="queue")


def test_cancel_previous_takes_the_waiting_tick_out_and_asks_the_running_one_to_stop(runtime: Runtime) -> None:
    first = ticked(runtime, overlap="cancel_previous")
    leased = runtime.leased(start=True, ttl=300)
    runtime.tick_at("2027-01-15T08:02:00")
    second = runtime.runs()[-1].id
    ask(runtime)
    assert runtime.run(first).stop == "overlap"
    assert runtime.run(second).reason == "overlap"
    assert runtime.lease() is None
    runtime.settle(leased, DEAD)
    assert runtime.leased().run.trigger == "manual"


def test_an_every_schedule_whose_run_was_displaced_goes_on(runtime: Runtime) -> None:
    runtime.every(overlap="cancel_previous")
    runtime.tick()
    ask(runtime)
    runtime.work()
    runtime.pass_time(700)
    runtime.tick()
    assert [run.trigger for run in runtime.runs()] == ["every", "manual", "every"]


def test_an_agents_line_is_full_at_a_thousand(runtime: Runtime) -> None:
    runtime.apply()
    first = ask(runtime, "agent").run.id
    columns = ", ".join(name for (name,) in _columns(runtime) if name not in ("id", "kept"))
    runtime.sql(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999) "
        f"INSERT INTO $run (id, {columns}) SELECT 'x' || i, {columns} FROM $run CROSS JOIN n WHERE id = ?",
        first,
    )
    before = runtime.contents()
    with pytest.raises(Busy, match="1,000 runs of this agent wait already"):
        ask(runtime, "agent")
    assert runtime.contents() == before
    runtime.work()
    assert not ask(runtime, "agent").earlier


def _columns(runtime: Runtime) -> list[tuple[str]]:
    if runtime.kind == "sqlite":
        return runtime.sql("SELECT name FROM pragma_table_info('run')")
    return runtime.sql(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'fencepost' AND table_name = 'run'"
    )


def test_over_budget_is_refused_up_front(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron(budget_usd_per_day="3", overlap="allow_parallel")
    assert ask(runtime).run.reserved_micro == 2_000_000
    with pytest.raises(Busy, match="over its budget"):
        ask(runtime)


def test_a_pause_does_not_stop_what_a_person_asked_for_and_a_halt_makes_it_wait(runtime: Runtime) -> None:
    runtime.cron()
    runtime.store.registry().pause("default", "s", until=None, note="", actor="test")
    ask(runtime)
    runtime.store.registry().halt("default", note="", actor="test")
    assert runtime.lease() is None
    runtime.store.registry().unhalt("default", actor="test")
    assert runtime.leased().run.trigger == "manual"


# --- keys


def test_the_same_key_is_the_same_run_whatever_became_of_it(runtime: Runtime) -> None:
    runtime.cron()
    first = ask(runtime, key="k")
    again = ask(runtime, key="k")
    assert (again.run.id, again.earlier) == (first.run.id, True)
    runtime.work()
    later = ask(runtime, key="k")
    assert (later.run.id, later.run.state) == (first.run.id, "succeeded")
    assert "made this run before" in later.said
    assert len(runtime.runs()) == 1


def test_asking_again_writes_so_that_the_second_answer_is_as_durable_as_the_first(runtime: Runtime) -> None:
    runtime.cron()
    assert ask(runtime, key="k").run.requests == 1
    assert ask(runtime, key="k").run.requests == 2
    assert runtime.runs()[0].requests == 2


def test_a_key_belongs_to_what_it_was_said_for(runtime: Runtime) -> None:
    runtime.cron("a")
    runtime.cron("b")
    ids = {ask(runtime, target, key="k").run.id for target in ("a", "b", "agent")}
    assert len(ids) == 3


def test_a_key_is_found_again_though_the_policy_would_refuse(runtime: Runtime) -> None:
    runtime.cron()
    first = ask(runtime, key="k")
    with pytest.raises(Busy):
        ask(runtime, key="other")
    assert ask(runtime, key="k").run.id == first.run.id


def test_keys_make_one_run_however_many_ask_at_once(runtime: Runtime) -> None:
    runtime.apply()
    stores = [runtime.another() for _ in range(8)]
    ids: set[str] = set()

    def asks(store: RuntimeStore) -> None:
        for number in range(5):
            ids.add(ask(runtime, "agent", key=f"k{number}", store=store).run.id)

    together(asks, stores)
    assert len(ids) == len(runtime.runs()) == 5
    assert sum(run.requests for run in runtime.runs()) == 40


def test_forbid_admits_one_however_many_ask_at_once(runtime: Runtime) -> None:
    runtime.cron()
    stores = [runtime.another() for _ in range(8)]
    refused: list[Busy] = []

    def asks(store: RuntimeStore) -> None:
        try:
            ask(runtime, store=store)
        except Busy as busy:
            refused.append(busy)

    together(asks, stores)
    assert (len(runtime.runs()), len(refused)) == (1, 7)


# --- one tick again


def test_a_tick_that_succeeded_is_not_run_again(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    leased = runtime.leased(start=True)
    runtime.settle(leased, summary="all well")
    asked = ask(runtime, tick=at("2027-01-15T08:01:00"))
    assert (asked.run.id, asked.earlier, asked.run.summary) == (run_id, True, "all well")
    assert "--again" in asked.said


def test_a_tick_that_died_runs_again_with_its_period_and_its_key(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    runtime.work(DEAD)
    asked = ask(runtime, tick=at("2027-01-15T08:01:00"))
    old, new = runtime.run(run_id), asked.run
    assert not asked.earlier
    assert (new.tick_us, new.occurrence) == (old.tick_us, old.occurrence)
    assert (new.period_start_us, new.period_end_us) == (old.period_start_us, old.period_end_us)
    assert new.idempotency_key == old.idempotency_key
    assert runtime.kinds() == ["run"], "the tick keeps its disposition"
    runtime.work()
    assert ask(runtime, tick=at("2027-01-15T08:01:00")).run.id == new.id


def test_a_tick_runs_again_under_a_new_key_if_that_is_said(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    runtime.work()
    asked = ask(runtime, tick=at("2027-01-15T08:01:00"), again=True)
    assert asked.run.id != run_id
    assert asked.run.idempotency_key != runtime.run(run_id).idempotency_key
    assert "new idempotency key" in asked.said


def test_a_tick_that_made_no_run_can_be_run_by_hand(runtime: Runtime) -> None:
    runtime.cron(cron="*/5 * * * *")
    runtime.tick_at("2027-01-15T09:02:00")
    assert [kind for _, _, kind in runtime.ticks()] == ["missed"]
    run = ask(runtime, tick=at("2027-01-15T08:30:00")).run
    assert (run.period_start_us, run.period_end_us) == (us("2027-01-15T08:25:00"), us("2027-01-15T08:30:00"))
    assert run.idempotency_key == idempotency_key("default", "s", 1, at("2027-01-15T08:30:00"))
    assert run.occurrence == "UTC|2027-01-15T08:30:00|0"


def test_the_key_of_a_tick_is_that_of_its_version_and_what_runs_is_todays(runtime: Runtime) -> None:
    ticked(runtime)
    runtime.work(DEAD)
    runtime.apply(AgentDefinition("agent", command=("repaired",)))
    run = ask(runtime, tick=at("2027-01-15T08:01:00")).run
    assert run.idempotency_key == idempotency_key("default", "s", 1, at("2027-01-15T08:01:00"))
    assert run.version == 2
    assert "repaired" in run.manifest


@pytest.mark.parametrize(
    ("tick", "why"),
    [
        ("2027-01-15T08:01:30", "the nearest: 2027-01-15T08:01:00Z or 2027-01-15T08:02:00Z"),
        ("2027-01-15T09:00:00", "still to come"),
        ("2027-01-15T07:00:00", "did not exist"),
    ],
)
def test_an_instant_that_is_no_tick_is_refused_with_the_nearest(runtime: Runtime, tick: str, why: str) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:05:00")
    runtime.work()
    before = runtime.contents()
    with pytest.raises(Invalid, match=why):
        ask(runtime, tick=at(tick))
    assert runtime.contents() == before


def test_a_tick_whose_run_is_still_going_is_busy(runtime: Runtime) -> None:
    run_id = ticked(runtime, overlap="queue", queue_max=5)
    with pytest.raises(Busy, match=run_id):
        ask(runtime, tick=at("2027-01-15T08:01:00"))


def test_ticks_belong_to_schedules_and_again_to_ticks(runtime: Runtime) -> None:
    runtime.apply()
    with pytest.raises(Invalid, match="an agent"):
        ask(runtime, "agent", tick=at("2027-01-15T08:01:00"))
    with pytest.raises(Invalid, match="--tick"):
        ask(runtime, "agent", again=True)


# --- dead letters


def replayed(runtime: Runtime, run_id: str, **options: Any) -> Requested:  # noqa: ANN401
    return replay(runtime.store, run_id, tenant="default", new_run_id=new_id, by="ada", **options)


def test_a_replay_is_a_new_run_with_a_link_the_same_tick_and_its_own_key(runtime: Runtime) -> None:
    run_id = ticked(runtime, payload={"a": 1})
    runtime.work(DEAD)
    new, old = replayed(runtime, run_id).run, runtime.run(run_id)
    assert (new.trigger, new.origin, new.state) == ("replay", run_id, "ready")
    assert (new.tick_us, new.period_start_us, new.payload) == (old.tick_us, old.period_start_us, old.payload)
    assert new.idempotency_key != old.idempotency_key
    assert old.discarded_us is not None, "somebody has dealt with it"
    assert runtime.work().run.id == new.id
    assert runtime.run(run_id).state == "dead", "an end is an end"


def test_two_clicks_make_one_replay(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    runtime.work(DEAD)
    first, second = replayed(runtime, run_id), replayed(runtime, run_id)
    assert (second.run.id, second.earlier) == (first.run.id, True)
    runtime.work()
    assert replayed(runtime, run_id).earlier
    assert not replayed(runtime, run_id, again=True).earlier


def test_a_replay_that_died_can_be_made_once_more(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    runtime.work(DEAD)
    first = replayed(runtime, run_id).run.id
    runtime.work(DEAD)
    assert replayed(runtime, run_id).run.id != first
    assert runtime.run(first).discarded_us is None, "it is a dead letter of its own"


def test_a_replay_runs_what_is_defined_now_unless_asked_otherwise(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    runtime.work(DEAD)
    runtime.apply(AgentDefinition("agent", command=("repaired",)))
    now = replayed(runtime, run_id).run
    assert ("repaired" in now.manifest, now.version) == (True, 2)
    cancel(runtime.store, now.id, tenant="default", by="ada")
    then = replayed(runtime, run_id, as_then=True).run
    assert (then.manifest, then.version) == (runtime.run(run_id).manifest, 1)


def test_a_cancelled_one_shot_may_be_replayed(runtime: Runtime) -> None:
    runtime.apply(ScheduleDefinition("s", "agent", at="2027-01-15T08:01:00Z"))
    runtime.tick_at("2027-01-15T08:01:00")
    (run,) = runtime.runs()
    cancel(runtime.store, run.id, tenant="default", by="ada")
    assert replayed(runtime, run.id).run.tick_us == run.tick_us


@pytest.mark.parametrize(("end", "error"), [("ready", Busy), ("running", Busy), ("succeeded", Invalid)])
def test_what_is_not_dead_is_not_replayed(runtime: Runtime, end: str, error: type[Exception]) -> None:
    run_id = ticked(runtime)
    if end == "running":
        runtime.leased(start=True)
    elif end == "succeeded":
        runtime.work()
    with pytest.raises(error):
        replayed(runtime, run_id)
    with pytest.raises(Invalid, match="there is no run"):
        replayed(runtime, "nobody")


def test_an_agents_dead_letter_is_replayed_too(runtime: Runtime) -> None:
    runtime.apply()
    run_id = ask(runtime, "agent", payload={"a": 1}).run.id
    runtime.work(DEAD)
    new = replayed(runtime, run_id).run
    assert (new.schedule, new.payload, new.origin) == (None, '{"a": 1}', run_id)
    runtime.work()


def test_dead_letters_are_discarded_and_others_are_not(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    with pytest.raises(Invalid, match="not dead"):
        discard(runtime.store, run_id, tenant="default", by="ada")
    runtime.work(DEAD)
    assert discard(runtime.store, run_id, tenant="default", by="ada").discarded_us is not None
    assert discard(runtime.store, run_id, tenant="default", by="ada").discarded_us is not None
    with pytest.raises(Invalid, match="there is no run"):
        discard(runtime.store, "nobody", tenant="default", by="ada")


def test_cancelling_tells_what_became_of_the_run(runtime: Runtime) -> None:
    run_id = ticked(runtime)
    assert cancel(runtime.store, run_id, tenant="default", by="ada").state == "cancelled"
    assert cancel(runtime.store, run_id, tenant="default", by="ada").state == "cancelled"
    with pytest.raises(Invalid, match="there is no run"):
        cancel(runtime.store, "nobody", tenant="default", by="ada")
    runtime.tick_at("2027-01-15T08:02:00")
    leased = runtime.leased(start=True)
    assert cancel(runtime.store, leased.run.id, tenant="default", by="ada").stop == "cancelled"
