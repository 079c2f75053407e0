"""Old records go, counted; whatever anything still rests on stays."""

from datetime import timedelta
from typing import Any

import pytest

from fencepost.flow.pruner import ORDER, Pruner
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.run import Reason
from fencepost.operations.backfill import backfill
from fencepost.operations.prove import prove
from fencepost.operations.run_requests import discard, replay, request_run
from fencepost.ports.pruning import PrunePlace
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import DEAD, SUCCEEDED, TENANT, Runtime, at, new_id, together, us

DAY = timedelta(days=1)


def prune(runtime: Runtime, kept_for: timedelta = 90 * DAY, batch: int = 7, *, dry: bool = False) -> dict[str, int]:
    """Go through everything once; return how many of each kind have gone."""
    place: PrunePlace | None = PrunePlace()
    gone = dict.fromkeys(ORDER, 0)
    for _ in range(10_000):
        if place is None:
            return gone
        page = Pruner(runtime.store, TENANT, kept_for, batch, dry).step(place)
        gone[place.what] += page.gone
        place = page.next
    raise AssertionError("the pass does not end")


def days(runtime: Runtime, number: int, **fields: Any) -> None:  # noqa: ANN401  # of the definition
    """Let a schedule run once a day for so many days, each run with success."""
    runtime.cron(cron="0 9 * * *", **fields)
    for _ in range(number):
        next_day(runtime)


def next_day(runtime: Runtime) -> None:
    runtime.go_to((runtime.now + DAY).replace(hour=9, minute=0, second=0, microsecond=0))
    runtime.tick()
    while leased := runtime.lease():
        runtime.store.start_run(leased)
        runtime.settle(leased)


def count(runtime: Runtime, table: str) -> int:
    return int(runtime.sql(f"SELECT count(*) FROM ${table}")[0][0])


def tallies(runtime: Runtime, schedule: str = "s") -> dict[str, int]:
    return {f"{one.kind} {one.name}": one.number for one in runtime.store.tallies(TENANT, schedule)}


def prove_clean(runtime: Runtime) -> int:
    proof = prove(runtime.store, tenant=TENANT)
    assert proof.holds, proof
    return proof.totals()["accounted"]


def test_old_runs_go_with_all_that_is_theirs_and_are_counted(runtime: Runtime) -> None:
    days(runtime, 20, overlap="allow_parallel")
    runtime.pass_time(80 * 86400 + 7200)
    runtime.tick()
    before = tallies(runtime)
    gone = prune(runtime)
    assert gone == {"leases": 0, "runs": 10, "ticks": 11, "pauses": 0, "logs": 0}, (
        "the tick before the first day was missed"
    )
    assert count(runtime, "run") == count(runtime, "attempt") == 10
    assert [
        name for (name,) in runtime.sql("SELECT name FROM $resource WHERE name <> 'schedule:s' ORDER BY name")
    ] == sorted(f"run:{run.id}" for run in runtime.runs())
    assert tallies(runtime) == before, "pruning forgets no number"
    assert prune(runtime) == {"leases": 0, "runs": 0, "ticks": 0, "pauses": 0, "logs": 0}


def test_the_proof_begins_at_the_watermark_and_says_so(runtime: Runtime) -> None:
    days(runtime, 20)
    runtime.pass_time(80 * 86400 + 7200)
    runtime.tick()
    everything = prove_clean(runtime)
    prune(runtime)
    assert prove_clean(runtime) == everything - 11
    (one,) = prove(runtime.store, tenant=TENANT).schedules
    assert one.pruned_until_us == us("2027-01-25T09:00:00")


def test_a_pass_can_be_killed_between_any_two_pages_and_nothing_is_lost_or_told_wrong(runtime: Runtime) -> None:
    runtime.cron(cron="0 */6 * * *", overlap="queue", queue_max=3)
    for _ in range(6):
        next_day(runtime)
    runtime.pass_time(95 * 86400 + 7200)
    runtime.tick()
    before = tallies(runtime)
    place: PrunePlace | None = PrunePlace()
    while place is not None:
        place = Pruner(runtime.store, TENANT, 90 * DAY, 3).step(place).next
        assert tallies(runtime) == before
        prove_clean(runtime)


def test_a_dry_pass_counts_and_changes_nothing(runtime: Runtime) -> None:
    days(runtime, 5)
    runtime.pass_time(200 * 86400 + 7200)
    runtime.tick()
    before = runtime.contents()
    told = prune(runtime, dry=True)
    assert runtime.contents() == before
    assert told["runs"] == 5
    assert prune(runtime)["runs"] == 5


def test_a_dead_letter_stays_until_somebody_has_dealt_with_it_and_then_as_long_as_all_others(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 * * *")
    runtime.tick_at("2027-01-16T09:00:00")
    letter = runtime.work(DEAD).run.id
    runtime.pass_time(400 * 86400 + 7200)
    runtime.tick()
    prune(runtime)
    assert [run.id for run in runtime.runs()] == [letter]
    assert runtime.kinds()[0] == "run", "its tick stays with it"
    discard(runtime.store, letter, tenant=TENANT, by="ada")
    prune(runtime)
    assert [run.id for run in runtime.runs()] == [letter], "from the day on which it was dealt with"
    runtime.pass_time(91 * 86400 + 7200)
    prune(runtime)
    assert runtime.runs() == []
    assert tallies(runtime)["run dead"] == 1


def test_what_was_replayed_goes_before_its_replay(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 * * *")
    runtime.tick_at("2027-01-16T09:00:00")
    letter = runtime.work(DEAD).run.id
    again = replay(runtime.store, letter, tenant=TENANT, new_run_id=new_id, by="ada").run.id
    runtime.work()
    runtime.sql("UPDATE $run SET discarded_us = ? WHERE id = ?", us("2027-06-01T00:00:00"), letter)
    runtime.go_to("2027-07-01T00:00:00")
    prune(runtime)
    assert {run.id for run in runtime.runs()} == {letter, again}, "else it could be replayed a second time"
    runtime.go_to("2028-01-01T00:00:00")
    prune(runtime)
    prune(runtime)
    assert runtime.runs() == []


def test_an_effect_that_a_person_has_to_look_into_keeps_its_run(runtime: Runtime) -> None:
    runtime.sql("DELETE FROM $ledger")
    days(runtime, 2)
    first, second = (run.id for run in runtime.runs())
    entry = (
        "INSERT INTO $ledger (tenant, scope, key, run_id, lease_id, fence, call, state, begun_us, asked_fence)"
        " VALUES ('default', ?, 'mail', ?, 'l', 1, 'c', ?, 0, 1)"
    )
    runtime.sql(entry, f"run:{first}", first, "in_progress")
    runtime.sql(entry, f"run:{second}", second, "completed")
    runtime.sql(entry, "", second, "completed")
    runtime.pass_time(100 * 86400 + 7200)
    prune(runtime)
    assert [run.id for run in runtime.runs()] == [first]
    kept = runtime.sql("SELECT scope FROM $ledger ORDER BY scope")
    assert [scope for (scope,) in kept] == ["", f"run:{first}"]
    runtime.sql("DELETE FROM $ledger")


def test_what_has_not_ended_stays_however_old_it_is(runtime: Runtime) -> None:
    runtime.cron("waits", cron="0 9 * * *")
    runtime.cron("works", cron="0 9 * * *")
    runtime.tick_at("2027-01-16T09:00:00")
    leased = runtime.leased(start=True, ttl=400 * 86400)
    runtime.store.put_checkpoint(leased.lease, "{}")
    runtime.pass_time(300 * 86400 + 7200)
    assert prune(runtime)["runs"] == 0
    assert count(runtime, "checkpoint") == 1
    runtime.settle(leased)
    assert prune(runtime)["runs"] == 0, "it has ended just now"
    runtime.pass_time(91 * 86400 + 7200)
    assert prune(runtime)["runs"] == 1
    assert count(runtime, "checkpoint") == 0


def test_what_a_budget_counts_stays_for_as_long_as_it_counts(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="2"))
    runtime.cron(cron="0 9 * * *", budget_usd_per_month="2.5")
    runtime.tick_at("2027-01-16T09:00:00")
    leased = runtime.leased(start=True)
    runtime.settle(leased, cost_micro=2_000_000)
    runtime.go_to("2027-01-31T09:00:00")
    runtime.tick()
    prune(runtime, 2 * DAY)
    assert runtime.kinds()[-1] == "budget"
    assert len(runtime.runs()) == 1, "the month is not over"
    runtime.go_to("2027-04-01T00:00:00")
    runtime.tick()
    prune(runtime, 2 * DAY)
    assert us("2027-01-16T09:00:00") not in {run.tick_us for run in runtime.runs()}


def test_once_stays_done_for_the_auditor_too(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 * * *", once=True)
    runtime.tick_at("2027-01-16T09:00:00")
    runtime.work()
    runtime.go_to("2027-02-01T00:00:00")
    runtime.cron(cron="0 9 * * *", once=True, priority=5)
    runtime.go_to("2027-09-01T00:00:00")
    runtime.tick()
    assert prune(runtime)["runs"] == 1
    prove_clean(runtime)
    assert runtime.tick() == 0


def test_every_goes_on_after_its_last_run_is_gone(runtime: Runtime) -> None:
    runtime.every(every="200d")
    runtime.tick()
    first = runtime.work().run.id
    runtime.pass_time(150 * 86400 + 7200)
    runtime.tick()
    assert prune(runtime)["runs"] == 1
    prove_clean(runtime)
    runtime.pass_time(51 * 86400 + 7200)
    runtime.tick()
    assert [run.occurrence for run in runtime.runs()] == [f"every:{first}"]
    runtime.work()
    runtime.pass_time(100 * 86400 + 7200)
    prune(runtime)
    prove_clean(runtime)


def test_a_pruned_tick_is_never_made_again_by_an_edit_or_a_file_that_was_emptied(runtime: Runtime) -> None:
    days(runtime, 10, missed="replay", catchup_window="3650d", catchup_max=1000)
    runtime.definitions[TENANT]["once"] = ScheduleDefinition("once", "agent", at="2027-01-27T00:00:00Z")
    runtime.apply()
    next_day(runtime)
    next_day(runtime)
    runtime.definitions[TENANT]["s"] = ScheduleDefinition("s", "agent", every="1000d")
    runtime.put()
    runtime.go_to("2027-09-01T12:00:00")
    runtime.tick()
    while leased := runtime.lease():
        runtime.settle(leased)
    prune(runtime)
    known = {run.id for run in runtime.runs()}
    for text in ("0 9 * * *", "30 9 * * *", "0 9 * * *"):
        runtime.definitions[TENANT].clear()
        runtime.put()
        runtime.definitions[TENANT]["once"] = ScheduleDefinition("once", "agent", at="2027-01-27T00:00:00Z", priority=3)
        runtime.cron(cron=text, missed="replay", catchup_window="3650d", catchup_max=1000)
        runtime.tick()
    assert {run.id for run in runtime.runs()} == known
    prove_clean(runtime)


def test_ticks_beside_the_cursor_stay_for_whoever_has_a_new_tzdata(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 16 1 *")
    runtime.tick_at("2027-01-16T09:00:00")
    runtime.work()
    runtime.go_to("2027-12-01T00:00:00")
    assert prune(runtime) == {"leases": 0, "runs": 1, "ticks": 0, "pauses": 0, "logs": 0}
    assert len(runtime.ticks()) == 1
    prove_clean(runtime)


def test_a_pruned_tick_is_run_by_hand_only_if_that_is_said(runtime: Runtime) -> None:
    days(runtime, 10)
    runtime.pass_time(100 * 86400 + 7200)
    runtime.tick()
    prune(runtime)

    def ask(*, again: bool) -> str:
        tick = at("2027-01-17T09:00:00")
        run = request_run(
            runtime.store, tenant=TENANT, target="s", tick=tick, again=again, new_run_id=new_id, by="ada"
        ).run
        return f"{run.trigger} {run.occurrence}"

    with pytest.raises(Invalid, match=r"up to 2027-01-2\dT09:00:00Z were pruned.*--again"):
        ask(again=False)
    assert ask(again=True) == "manual UTC|2027-01-17T09:00:00|0"
    prove_clean(runtime)


def test_a_backfill_over_pruned_ticks_is_refused_unless_that_is_said(runtime: Runtime) -> None:
    days(runtime, 10)
    runtime.pass_time(100 * 86400 + 7200)
    runtime.tick()
    prune(runtime)

    def fill(start: str, *, again: bool = False) -> int:
        made = backfill(
            runtime.store,
            tenant=TENANT,
            schedule="s",
            from_=at(start),
            until=at("2027-02-01T00:00:00"),
            again=again,
            new_run_id=new_id,
            by="ada",
        )
        return len(made.run_ids)

    before = runtime.contents()
    with pytest.raises(Invalid, match="were pruned"):
        fill("2027-01-16T00:00:00")
    assert runtime.contents() == before
    assert fill("2027-01-26T00:00:00") == 6
    assert fill("2027-01-16T00:00:00", again=True) == 16
    assert {run.trigger for run in runtime.runs() if run.state == "ready"} == {"backfill"}
    prove_clean(runtime)


def test_a_key_is_known_for_as_long_as_its_run_is_kept(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",)))

    def ask() -> str:
        return request_run(runtime.store, tenant=TENANT, target="agent", key="k", new_run_id=new_id, by="a").run.id

    first = ask()
    runtime.work()
    runtime.pass_time(89 * 86400 + 7200)
    prune(runtime)
    assert ask() == first
    runtime.pass_time(2 * 86400 + 7200)
    prune(runtime)
    assert ask() != first
    assert tallies(runtime, "") == {"run succeeded": 1}


def test_pauses_go_when_they_are_over_and_nothing_of_their_time_is_undecided(runtime: Runtime) -> None:
    registry = runtime.store.registry()
    runtime.cron(cron="0 9 * * *")
    registry.pause(TENANT, "s", until=at("2027-01-20T00:00:00"), note="", actor="ada")
    registry.halt(TENANT, note="", actor="ada")
    runtime.go_to("2027-01-18T00:00:00")
    registry.unhalt(TENANT, actor="ada")
    registry.pause(TENANT, "s", until=None, note="for good", actor="ada")
    runtime.go_to("2028-01-01T00:00:00")
    assert prune(runtime)["pauses"] == 0, "the ticker was away all the time"
    runtime.tick()
    assert set(runtime.kinds()) == {"paused"}
    assert prune(runtime)["pauses"] == 2
    assert [note for (note,) in runtime.sql("SELECT note FROM $pause")] == ["for good"]


def test_the_fence_of_a_forgotten_resource_stays_below_every_new_one(runtime: Runtime) -> None:
    days(runtime, 3, overlap="allow_parallel")
    runtime.rig.step_wall(50)
    highest = runtime.store.care().highest()
    runtime.sql("UPDATE $resource SET fence = ? WHERE name <> ''", highest + 10**13)
    runtime.pass_time(100 * 86400 + 7200)
    runtime.tick()
    prune(runtime)
    assert count(runtime, "resource") == 0
    assert runtime.store.care().highest() >= highest + 10**13
    next_day(runtime)
    assert all((run.fence or 0) > highest + 10**13 for run in runtime.runs())


@pytest.mark.parametrize(("lost_again", "resources"), [(True, 1), (False, 0)])
def test_a_lost_lease_keeps_the_resource_for_as_long_as_it_is_kept_itself(
    runtime: Runtime, *, lost_again: bool, resources: int
) -> None:
    runtime.cron(cron="0 9 * * *", overlap="allow_parallel")
    runtime.tick_at("2027-01-16T09:00:00")
    lost = runtime.leased(ttl=5, start=True)
    runtime.pass_time(60)
    runtime.reap()
    assert runtime.run(lost.run.id).reason == Reason.LOST
    discard(runtime.store, lost.run.id, tenant=TENANT, by="ada")
    runtime.pass_time(100 * 86400 + 7200)
    if lost_again:
        runtime.sql(f"UPDATE $lease SET lost_us = {runtime.store.clock_us()} RETURNING id")
    prune(runtime)
    assert runtime.runs() == []
    assert count(runtime, "resource") == resources


def test_two_pruners_at_once_count_everything_once(runtime: Runtime) -> None:
    days(runtime, 30)
    runtime.pass_time(100 * 86400 + 7200)
    runtime.tick()
    before = tallies(runtime)

    def work(store: RuntimeStore) -> None:
        place: PrunePlace | None = PrunePlace()
        while place is not None:
            place = Pruner(store, TENANT, 90 * DAY, 4).step(place).next

    together(work, [runtime.another() for _ in range(3)])
    assert tallies(runtime) == before
    assert runtime.runs() == []
    prove_clean(runtime)


def test_each_worker_is_told_which_logs_on_its_disk_are_no_longer_on_record(runtime: Runtime) -> None:
    days(runtime, 3)
    runtime.pass_time(100 * 86400 + 7200)
    prune(runtime)
    logs = runtime.store.old_logs("tower", 10)
    assert len(logs) == 3
    assert runtime.store.old_logs("elsewhere", 10) == []
    runtime.store.forget_old_logs("tower", logs[:2])
    assert runtime.store.old_logs("tower", 10) == logs[2:]
    runtime.pass_time(91 * 86400)
    assert prune(runtime)["logs"] == 1, "nobody has come for it"


def test_another_tenants_records_are_left_alone(runtime: Runtime) -> None:
    runtime.cron(cron="0 9 * * *", tenant="other")
    runtime.tick_at("2027-01-16T09:00:00")
    runtime.settle(runtime.leased(start=True), SUCCEEDED)
    runtime.pass_time(300 * 86400 + 7200)
    assert prune(runtime) == {"leases": 0, "runs": 0, "ticks": 0, "pauses": 0, "logs": 0}
    assert len(runtime.runs(tenant="other")) == 1


def test_no_table_of_runs_is_forgotten(runtime: Runtime) -> None:
    """Whoever adds a table about runs has to say what becomes of it when they go."""
    if runtime.kind == "sqlite":
        found = runtime.sql(
            "SELECT one.name FROM sqlite_schema AS one, pragma_table_info(one.name) AS each"
            " WHERE one.type = 'table' AND each.name = 'run_id'"
        )
    else:
        found = runtime.sql(
            "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
            " WHERE columns.table_schema = 'fencepost' AND column_name = 'run_id' AND table_type = 'BASE TABLE'"
        )
    go_with_their_run = {"attempt", "checkpoint", "completion", "ledger", "delivery", "gathering", "unfolded"}
    have_rules_of_their_own = {"tick", "lease", "waiter", "old_log"}
    assert {str(name) for (name,) in found} == go_with_their_run | have_rules_of_their_own


def test_a_lease_that_was_lost_long_ago_is_let_go_and_its_gates_are_owed_as_before(runtime: Runtime) -> None:
    """As of a container that is gone: nobody there will ever see its processes dead."""
    runtime.cron(cron="0 9 * * *")
    runtime.go_to("2027-01-16T09:00:00")
    runtime.tick()
    lost = runtime.leased(ttl=5)
    runtime.store.release(lost.lease, clean=False)
    before = runtime.sql("SELECT name, fence, owed_gates FROM $resource ORDER BY name")

    runtime.pass_time(86_400 * 2)
    assert prune(runtime, 3 * DAY)["leases"] == 0
    assert [held.id for held in runtime.store.leases()] == [lost.lease.id]
    runtime.pass_time(86_400 * 2)
    assert prune(runtime, 3 * DAY, dry=True)["leases"] == 1
    assert prune(runtime, 3 * DAY)["leases"] == 1

    assert runtime.store.leases() == []
    assert runtime.sql("SELECT name, fence, owed_gates FROM $resource ORDER BY name") == before


def test_however_short_records_are_kept_a_lease_that_was_lost_today_stays(runtime: Runtime) -> None:
    """A worker of its machine may come back and end what is left."""
    runtime.cron(cron="0 9 * * *")
    runtime.go_to("2027-01-16T09:00:00")
    runtime.tick()
    runtime.store.release(runtime.leased(ttl=5).lease, clean=False)
    runtime.pass_time(3600)

    assert prune(runtime, timedelta(seconds=1))["leases"] == 0
