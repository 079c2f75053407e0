"""Many runs at a time: a turn settles what has ended and leases the next, each run by its own fence."""

import json
import os
from collections.abc import Sequence

import pytest

from fencepost.flow.run_recheck import recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Claim, Lease
from fencepost.model.new_run import NewRun
from fencepost.model.notice import Wish
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun, Report, Turned
from fencepost.stores.lane_facts import Hunch
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import Rig, claim
from tests.support.runtime import DEAD, MYSELF, SUCCEEDED, Runtime, new_id, together

BACK = Settlement(RunState.READY, Reason.LOST_BEFORE_START, uses_attempt=False)
AGENT = AgentDefinition("agent", engine="python", function="m:f", in_process=True)


@pytest.fixture(params=[False, True], ids=["cold", "expecting"])
def runtime(rig: Rig, request: pytest.FixtureRequest) -> Runtime:
    """A store whose lane expects nothing, or plain runs of its agent as the last time: right or wrong, all is the same."""
    found = Runtime(rig)
    found.apply(AGENT)
    if request.param:
        found.store._hunch = Hunch("default", ("agent",), plain=True)  # what a turn leaves behind
    return found


def queue(
    runtime: Runtime, number: int = 1, *, priority: int = 0, tenant: str = "default", lane: bool = True
) -> list[str]:
    """Queue runs of the agent alone, and return their ids."""
    if tenant not in runtime.agents:
        runtime.apply(AGENT, tenant=tenant)
    now_us = runtime.rig.now_us()
    (manifest, manifest_hash), *_ = runtime.sql("SELECT definition, hash FROM $agent WHERE tenant = ?", tenant)
    ids = [new_id() for _ in range(number)]
    for run_id in ids:
        runtime.store.enqueue_run(
            NewRun(
                id=run_id, tenant=tenant, agent="agent", schedule=None, version=None, trigger="manual",
                occurrence=None, tick_us=None, period_start_us=None, period_end_us=None, backfill_from_us=None,
                last_success_us=None, idempotency_key=run_id, manifest=manifest, manifest_hash=manifest_hash,
                payload="{}", resources=json.dumps([(tenant, f"run:{run_id}")]), lease_max=1, lines_up=False,
                priority=priority, ready_us=now_us, counted_us=now_us, in_process=lane,
            )
        )  # fmt: skip
    return ids


def wanted(
    limit: int = 100, *, starts: int = 100, lease_id: str = "", ttl: float = 30, again: bool = False
) -> LaneRequest:
    who = Claim(lease_id or os.urandom(8).hex(), "", (), "lane-1", ttl, MYSELF, label="lane")
    return LaneRequest(
        who, limit, starts, lambda run: tuple(json.loads(run.manifest).get("gates", ())), recheck_for, again
    )


def lease(runtime: Runtime, limit: int = 100, **options: object) -> Sequence[LeasedRun]:
    return runtime.store.turn((), (), wanted(limit, **options)).leased  # type: ignore[arg-type]


def ended(leased: LeasedRun, settlement: Settlement = SUCCEEDED, **options: bool) -> Ended:
    return Ended(leased, settlement, Report(settlement.state.value), **options)


def finish(runtime: Runtime, *leased: LeasedRun, settlement: Settlement = SUCCEEDED, close: bool = True) -> Turned:
    done = [ended(one, settlement) for one in leased]
    return runtime.store.turn(done, [leased[0].lease] if close else [], None)


def ids_of(leased: Sequence[LeasedRun]) -> list[str]:
    return [one.run.id for one in leased]


def leases(runtime: Runtime) -> list[str]:
    return [held.id for held in runtime.store.leases()]


def test_a_turn_settles_a_batch_and_leases_the_next(runtime: Runtime) -> None:
    ids = queue(runtime, 5)
    first = lease(runtime, 3)
    assert ids_of(first) == ids[:3]
    turned = runtime.store.turn([ended(one) for one in first], [first[0].lease], wanted(3))
    assert (ids_of(turned.leased), turned.lost) == (ids[3:], ())
    assert runtime.states() == ["succeeded"] * 3 + ["running"] * 2
    assert leases(runtime) == [turned.leased[0].lease.id]
    finish(runtime, *turned.leased)
    assert runtime.states() == ["succeeded"] * 5
    assert leases(runtime) == []


def test_every_run_of_a_batch_has_its_attempt_its_start_and_its_audit_rows(runtime: Runtime) -> None:
    (one, two) = queue(runtime, 2)
    leased = lease(runtime, starts=1)
    assert [run.started for run in leased] == [True, False]
    assert runtime.run(one).started_us is not None
    assert runtime.run(two).started_us is None
    runtime.store.start_run(leased[1])
    finish(runtime, *leased)
    for run_id in (one, two):
        (attempt,) = runtime.store.attempts(run_id)
        assert (attempt.number, attempt.fence, attempt.outcome) == (1, leased[0].lease.fence, "succeeded")
        assert attempt.started_us is not None
        assert attempt.ended_us is not None
    (granted,), (settled,) = runtime.audit("lease"), runtime.audit("settle")
    assert (granted["attempt"], granted["manifest_hash"]) == (1, runtime.run(one).manifest_hash)
    assert (settled["state"], settled["reason"], settled["attempt"]) == ("succeeded", None, 1)
    assert granted["runs"] == settled["runs"] == [one, two]


def test_the_audit_of_one_run_shows_what_was_decided_about_its_batch(runtime: Runtime) -> None:
    (one, two) = queue(runtime, 2)
    finish(runtime, *lease(runtime))
    (three,) = queue(runtime, 1)
    finish(runtime, *lease(runtime))
    look = runtime.store.reads("default")
    for run_id in (one, two, three):
        assert [row.verb for row in look.audit(subject=f"run:{run_id}", limit=9)] == ["settle", "lease", "manual"]
    assert [row.subject for row in look.audit(subject=f"run:{three}", limit=9)] == [f"run:{three}"] * 3


def test_a_run_that_only_wants_itself_needs_no_row_of_a_resource_and_gets_a_higher_fence_each_time(
    runtime: Runtime,
) -> None:
    (run_id,) = queue(runtime, 1)
    (first,) = lease(runtime)
    assert runtime.sql("SELECT 1 FROM $resource WHERE name = ?", f"run:{run_id}") == []
    runtime.store.turn([ended(first, BACK, began=False)], [first.lease], None)
    runtime.sql("UPDATE $run SET fence = fence + 1000000000 WHERE id = ?", run_id)  # as if the clock had gone back
    (second,) = lease(runtime)
    assert second.lease.fence > first.lease.fence + 1000000000


def test_those_who_want_to_hear_of_it_are_told_of_each_run_of_a_batch(runtime: Runtime) -> None:
    notices = runtime.store.notices()
    notices.declare("default", "test.toml", {Wish("ops", "dead")})
    ids = queue(runtime, 3)
    finish(runtime, *lease(runtime), settlement=DEAD)
    told = notices.claim("default", "test.toml", ["ops"], limit=10, hold_seconds=60)
    assert sorted(one.subject for one in told) == [f"run:{run_id}" for run_id in sorted(ids)]


def test_the_fence_of_a_batch_is_above_every_earlier_fence_of_its_runs(runtime: Runtime) -> None:
    queue(runtime, 2)
    first = lease(runtime)
    runtime.store.turn([ended(one, BACK, began=False) for one in first], [first[0].lease], None)
    second = lease(runtime)
    assert ids_of(second) == ids_of(first)
    assert second[0].lease.fence > first[0].lease.fence


def test_a_run_that_was_leased_again_is_not_settled_and_the_others_are(runtime: Runtime) -> None:
    (one, two) = queue(runtime, 2)
    leased = lease(runtime, starts=0, ttl=5)
    runtime.pass_time(6)
    assert runtime.reap() == 2
    again = lease(runtime, 1)
    assert ids_of(again) == [one]
    turned = runtime.store.turn([ended(run, DEAD) for run in leased] + [ended(again[0])], [again[0].lease], None)
    assert turned.lost == (one, two)
    assert runtime.states() == ["succeeded", "ready lost_before_start"]


def test_a_batch_whose_lease_was_broken_settles_nothing(runtime: Runtime) -> None:
    (one,) = queue(runtime, 1)
    leased = lease(runtime)
    (held,) = runtime.store.leases()
    assert runtime.store.break_lease(held, why="by hand")
    assert finish(runtime, *leased).lost == (one,)
    assert runtime.run(one).state == "running"
    assert runtime.reap() == 1


def test_a_turn_whose_answer_was_lost_can_be_asked_again(runtime: Runtime) -> None:
    ids = queue(runtime, 3)
    first = lease(runtime, 2)
    done = [ended(one) for one in first]
    runtime.store.turn(done, [first[0].lease], wanted(2, lease_id="lease-x"))
    turned = runtime.store.turn(done, [first[0].lease], wanted(2, lease_id="lease-x", again=True))
    assert (ids_of(turned.leased), turned.lost) == (ids[2:], ())
    assert turned.leased[0].started
    assert len(runtime.store.attempts(ids[2])) == 1
    assert finish(runtime, *turned.leased).lost == ()
    assert runtime.store.turn((), (), wanted(2, lease_id="lease-x", again=True)).leased == ()


def test_a_turn_says_that_the_store_is_another_one(runtime: Runtime) -> None:
    queue(runtime, 1)
    runtime.sql("UPDATE $meta SET value = 'other' WHERE key = 'store_id'")
    try:
        with pytest.raises(StoreUnavailable, match="restored as other"):
            lease(runtime)
    finally:
        runtime.sql("UPDATE $meta SET value = ? WHERE key = 'store_id'", runtime.store.facts().id)


def test_what_never_began_goes_back_unharmed(runtime: Runtime) -> None:
    (one,) = queue(runtime, 1)
    before = runtime.run(one)
    (leased,) = lease(runtime)
    runtime.store.turn([ended(leased, BACK, began=False)], [leased.lease], None)
    after = runtime.run(one)
    assert (after.state, after.attempt, after.started_us, after.place_us) == ("ready", 0, None, before.place_us)
    assert runtime.store.attempts(one)[0].started_us is None
    assert ids_of(lease(runtime)) == [one]


def test_a_retry_that_was_asked_to_stop_ends_instead(runtime: Runtime) -> None:
    (one,) = queue(runtime, 1)
    (leased,) = lease(runtime)
    runtime.store.cancel(one, tenant="default", by="me")
    assert runtime.store.stops_asked(leased.lease) == {one: "cancelled"}
    finish(runtime, leased, settlement=Settlement(RunState.READY, Reason.RETRY, ready_at=runtime.now))
    assert runtime.states() == ["cancelled cancelled"]


def test_a_halted_tenant_gets_no_batch(runtime: Runtime) -> None:
    queue(runtime, 2)
    now_us = runtime.rig.now_us()
    runtime.sql(
        "INSERT INTO $pause (tenant, schedule, since_us, until_us, note, by_whom) VALUES ('default', '', ?, ?, '', '')",
        now_us - 1, now_us + 10**12,
    )  # fmt: skip
    assert lease(runtime) == ()
    assert runtime.states() == ["ready", "ready"]


def test_a_batch_ends_what_has_waited_too_long_and_what_is_no_longer_defined(runtime: Runtime) -> None:
    queue(runtime, 1)
    runtime.pass_time(86_401)
    (late,) = queue(runtime, 1)
    assert ids_of(lease(runtime)) == [late]
    assert runtime.states() == ["dead queue_timeout", "running"]
    queue(runtime, 1)
    runtime.sql("UPDATE $agent SET retired_us = 1")
    assert lease(runtime) == ()
    assert runtime.states()[-1] == "cancelled disabled"


def test_a_batch_is_of_one_tenant_and_tenants_take_turns(runtime: Runtime) -> None:
    queue(runtime, 4)
    queue(runtime, 4, tenant="other")
    turns = [lease(runtime, 2)[0].run.tenant for _ in range(4)]
    assert turns == ["default", "other", "default", "other"]


def test_priority_goes_before_age_in_a_batch(runtime: Runtime) -> None:
    queue(runtime, 1)
    (urgent,) = queue(runtime, 1, priority=5)
    assert ids_of(lease(runtime)) == [urgent]


def test_lanes_and_ordinary_workers_do_not_take_each_others_runs(runtime: Runtime) -> None:
    (lane,) = queue(runtime, 1)
    (apart,) = queue(runtime, 1, lane=False)
    assert (runtime.store.lane_ready(10), runtime.store.agenda(10).ready) == (1, 1)
    assert runtime.leased().run.id == apart
    assert ids_of(lease(runtime)) == [lane]
    assert runtime.lease() is None


def test_under_forbid_a_batch_has_one_run_of_a_schedule(runtime: Runtime) -> None:
    runtime.cron("s", overlap="queue", queue_max=5)
    runtime.cron("t")
    runtime.tick_at("2027-01-15T08:01", "2027-01-15T08:02")
    lease(runtime)  # makes the rows of resources that have none yet
    leased = lease(runtime)
    assert sorted(str(one.run.schedule) for one in leased) == ["s", "t"]
    assert lease(runtime) == ()
    finish(runtime, *leased)
    (rest,) = lease(runtime)
    assert rest.run.schedule == "s"
    assert rest.lease.fence > leased[0].lease.fence
    finish(runtime, rest)
    assert runtime.schedule("s")["last_success_us"] == rest.run.tick_us
    assert runtime.schedule("s")["failures"] == 0


def test_a_batch_keeps_to_parallel_max(runtime: Runtime) -> None:
    runtime.cron("s", overlap="allow_parallel", parallel_max=2)
    runtime.tick_at("2027-01-15T08:01", "2027-01-15T08:02", "2027-01-15T08:03")
    leased = lease(runtime)
    assert len(leased) == 2
    finish(runtime, leased[0], close=False)
    assert leases(runtime) == [leased[0].lease.id]


def test_a_paused_schedule_has_its_runs_cancelled_in_a_batch_too(runtime: Runtime) -> None:
    runtime.cron("s", overlap="allow_parallel", parallel_max=2)
    runtime.tick_at("2027-01-15T08:01")
    now_us = runtime.rig.now_us()
    runtime.sql(
        "INSERT INTO $pause (tenant, schedule, since_us, until_us, note, by_whom) VALUES ('default', 's', ?, ?, '', '')",
        now_us - 1, now_us + 10**12,
    )  # fmt: skip
    assert lease(runtime) == ()
    assert runtime.states() == ["cancelled paused"]


def test_a_run_after_a_loss_names_its_predecessor_and_is_not_started_at_once(runtime: Runtime) -> None:
    (one,) = queue(runtime, 1)
    (leased,) = lease(runtime, starts=0, ttl=5)
    runtime.pass_time(6)
    runtime.reap()
    (again,) = lease(runtime)
    assert [held.id for held in again.predecessors] == [leased.lease.id]
    assert (again.run.id, again.started, again.run.attempt) == (one, False, 1)


def test_a_run_with_gates_is_not_started_before_they_are_raised(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", engine="python", function="m:f", in_process=True, gates=("file:/x",)))
    queue(runtime, 1)
    (leased,) = lease(runtime)
    assert (leased.lease.gates, leased.started) == (("file:/x",), False)
    runtime.store.start_run(leased)
    finish(runtime, leased)
    assert runtime.sql("SELECT owed_gates FROM $resource WHERE name = ?", f"run:{leased.run.id}") == [("[]",)]


def test_a_held_resource_keeps_a_run_out_of_the_batch(runtime: Runtime) -> None:
    runtime.cron("s")
    runtime.tick_at("2027-01-15T08:01")
    lease(runtime)
    mine = runtime.store.acquire(claim("schedule:s", id="other"))
    assert lease(runtime) == ()
    runtime.store.release(mine.lease, clean=True)  # type: ignore[union-attr]
    assert len(lease(runtime)) == 1


def test_many_lanes_lease_every_run_once(runtime: Runtime) -> None:
    ids = queue(runtime, 60)
    seen: list[str] = []

    def work(store: RuntimeStore) -> None:
        done: Sequence[LeasedRun] = ()
        closing: list[Lease] = []
        for _ in range(200):
            turned = store.turn([ended(one) for one in done], closing, wanted(7))
            assert turned.lost == ()
            done, closing = turned.leased, [turned.leased[0].lease] if turned.leased else []
            seen.extend(ids_of(done))
            if not done:
                return

    stores = [runtime.another() for _ in range(3)]
    together(work, stores)
    for store in stores:
        store.close()
    assert sorted(seen) == sorted(ids)
    assert set(runtime.states()) == {"succeeded"}
    assert leases(runtime) == []
