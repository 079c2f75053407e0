"""Runs that are not changed any more go into a narrow form, and every question is answered as before."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fencepost.drawing.timeline import By
from fencepost.flow.pruner import Pruner
from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.model.instants import format_instant, from_us
from fencepost.model.retention import MOVED_AFTER, SPENDING_KEPT_FOR
from fencepost.operations import store_maintenance
from fencepost.operations.board import look_around
from fencepost.operations.chart import View, chart
from fencepost.operations.overview import glance
from fencepost.operations.prove import prove
from fencepost.operations.recorded_ticks import timeline
from fencepost.operations.run_list import list_past, show_any
from fencepost.operations.run_queries import Filter, list_dead, list_live
from fencepost.operations.run_requests import request_run
from fencepost.operations.schedule_plots import now_plots, schedule_plots, tick_plots
from fencepost.operations.skipped_ticks import skips
from fencepost.operations.why import why
from fencepost.ports.pruning import PastPlace, PrunePlace
from fencepost.service import chores
from fencepost.stores import past_runs
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite import dialect as sqlite
from tests.stores.test_audit_packs import compacts_until
from tests.support.month import Month
from tests.support.month_cast import OTHERS
from tests.support.runtime import DEAD, TENANT, Runtime, at, new_id, open_runtime, together

FOLDER = Path(past_runs.__file__).parent
DAY_US = 86_400_000_000
TENANTS = (TENANT, OTHERS)


@pytest.fixture(params=["sqlite", "postgresql"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    with open_runtime(request.param, tmp_path, lambda: str(request.getfixturevalue("conformance_url"))) as found:
        yield found


def move_all(store: RuntimeStore, limit: int = past_runs.PAGE) -> int:
    """Count what can be counted, and move what can be moved."""
    for tenant in store.past_runs().movable():
        while store.metering().fold(tenant):
            pass
    place: PastPlace | None = PastPlace()
    moved = 0
    while place is not None:
        page = store.past_runs().move(place, limit)
        moved, place = moved + page.moved, page.next
    return moved


def a_month(runtime: Runtime) -> None:
    """Let some days go by in which everything happens, and then so much time that most of it is past."""
    Month(runtime).play(at("2027-03-13T12:00"))
    runtime.pass_time(70 * 86_400)


def answers(runtime: Runtime, *, tenants: tuple[str, ...] = TENANTS) -> dict[str, object]:
    """Ask everything that may be asked of the history."""
    store, found = runtime.store, dict[str, object]()
    for tenant in tenants:
        look = store.reads(tenant)
        everything = look.runs(limit=100_000)
        names = [one.name for one in look.schedules(limit=1_000)]
        middle = everything[len(everything) // 2]
        tell = {f"{tenant} {name}": one for name, one in lists(store, tenant, middle.created_us, middle.id).items()}
        found |= tell
        for run in everything:
            found[f"show {run.id}"] = show_any(store, tenant, run.id)
            found[f"again {run.id}"] = store.run(run.id, tenant=tenant), store.attempts(run.id)
            found[f"cancel {run.id}"] = None if run.ended_us is None else store.cancel(run.id, tenant=tenant, by="ada")
        found[f"named {tenant}"] = look.named_runs(run.id for run in everything)
        found[f"like {tenant}"] = look.runs_like("r", limit=50)
        for name in names:
            found |= {f"{tenant} {name} {what}": one for what, one in of_schedule(store, tenant, name).items()}
        for view in views(middle.created_us):
            found[f"chart {tenant} {view}"] = chart(store, tenant, view)
    rows = runtime.rig.store.care().export(lambda snapshot: list(snapshot.rows))
    found["backup"] = sorted(json.dumps([name, row], sort_keys=True) for name, row in rows if name != "meta")
    return found


def lists(store: RuntimeStore, tenant: str, at_us: int, run_id: str) -> dict[str, object]:
    pages = {
        f"page {state} {before}": list_past(store, tenant, Filter(state=state, before=before), limit=20)
        for state in ("", "succeeded", "dead", "cancelled")
        for before in (Filter().before, (at_us, run_id))
    }
    figures = store.metering().figures(tenant)
    return {
        **pages,
        "runs": store.runs(tenant=tenant, limit=100_000),
        "dead": list_dead(store, tenant, limit=100),
        "live": list_live(store, tenant, limit=100),
        "ended": store.reads(tenant).ended(limit=30),
        "since": store.reads(tenant).runs(since_us=at_us, limit=1_000),
        "glance": glance(store, tenant, schedules=20),
        "board": look_around(store, tenant),
        "skips": skips(store, tenant, limit=100),
        "proof": prove(store, tenant=tenant),
        "figures": figures,
        "plots": (tick_plots(store, tenant), now_plots(store, tenant)),
        "prunable": store_maintenance.prune(store, tenant=tenant, kept_for=timedelta(days=4), dry=True),
        "agenda": store.agenda(100),
    }


def of_schedule(store: RuntimeStore, tenant: str, name: str) -> dict[str, object]:
    look = store.reads(tenant)
    ticks = look.ticks(name, limit=1_000)
    some = [format_instant(from_us(one.tick_us)) for one in ticks[::7]]
    keys = json.dumps([(tenant, name)])
    counted = {"tenant": tenant, "schedule": name, "since_us": 0, "timed": True}
    return {
        "runs": look.runs(schedule=name, limit=40),
        "timeline": timeline(store, tenant, name, limit=100),
        "why": [why(store, tenant, name, when) for when in (None, *some)],
        "tallies": store.tallies(tenant, name),
        "alive": [look.alive_at(name, one.tick_us + 1, limit=9) for one in ticks[::5]],
        "plots": schedule_plots(store, tenant, name, ""),
        "spent": [
            look.spent(name, day_us=since_us, month_us=since_us, hour_us=since_us, timed=True)
            for since_us in (0, ticks[-1].tick_us if ticks else 0)
        ],
        "spending": ask(store, "spending", schedules=keys, since_us=0, timed=True),
        "beside": ask(store, "spending_beside", **counted, id="", counted_us=0),
        "of ticks": [ask(store, "runs_of_tick", tenant=tenant, schedule=name, tick_us=one.tick_us) for one in ticks],
        "history": store.history(tenant, name, from_us=0, until_us=1 << 62),
    }


def ask(store: RuntimeStore, statement: str, **values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401  # of the statement
    return sorted(store.dialect.read(lambda tx: tx.rows(statement, **values)), key=repr)


def views(at_us: int) -> list[View]:
    return [
        View(span=span, until_us=at_us + DAY_US, by=by, **only)
        for span in ("1d", "14d")
        for by in By
        for only in ({}, {"schedule": "inbox-triage"}, {"project": "shop"})
    ]


def test_every_question_is_answered_the_same_while_runs_are_moved(runtime: Runtime) -> None:
    a_month(runtime)
    store = runtime.another()
    for tenant in TENANTS:
        while store.metering().fold(tenant):
            pass
    before, can = answers(runtime), store.past_runs().movable()
    first = store.past_runs().move(PastPlace(), 60)
    assert 20 < first.moved < 60
    assert differences(before, answers(runtime)) == {}

    moved = first.moved + move_all(store)
    assert moved == pytest.approx(sum(can.values()), abs=0.2 * moved)
    assert runtime.sql("SELECT count(*) FROM $past_run") == [(moved,)]
    assert runtime.sql("SELECT count(*) FROM $run WHERE state = 'succeeded'")[0][0] < moved / 4
    assert differences(before, answers(runtime)) == {}


def differences(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    return {name: (one, after.get(name)) for name, one in before.items() if after.get(name) != one}


def some_runs(runtime: Runtime, number: int = 12, **fields: Any) -> None:  # noqa: ANN401  # of the schedule
    """Let a schedule run so often, and let it be past."""
    runtime.cron("s", "0 * * * *", missed="replay", catchup_max=99, catchup_window="9d", overlap="queue", **fields)
    runtime.pass_time(number * 3_600)
    runtime.tick()
    for _ in range(number):
        runtime.pass_time(60)
        leased = runtime.leased(start=True)
        runtime.settle(leased, summary=f"did {leased.run.id}", usage='{"input": 3}')
    runtime.pass_time(MOVED_AFTER.total_seconds() + 3_600)


def asked(runtime: Runtime, **fields: Any) -> str:  # noqa: ANN401  # of the request
    return request_run(runtime.store, tenant=TENANT, target="agent", new_run_id=new_id, by="ada", **fields).run.id


def test_what_may_still_be_asked_of_a_run_keeps_it_where_it_is(runtime: Runtime) -> None:
    agent = AgentDefinition("agent", command=("true",), max_attempts=3, on_lost="restart", queue_timeout="999d")
    runtime.apply(agent)
    keyed, dead, retried = asked(runtime, key="k"), asked(runtime), asked(runtime)
    runtime.work()
    runtime.work(DEAD)
    runtime.leased(start=True, ttl=5)
    runtime.pass_time(60)
    assert runtime.reap() == 1
    runtime.pass_time(600)
    assert runtime.work().run.id == retried
    dear, plain, newest = asked(runtime), asked(runtime), asked(runtime)
    runtime.settle(runtime.leased(start=True), cost_micro=5)
    runtime.work()
    runtime.work()
    runtime.pass_time(3_600)
    waiting = asked(runtime)
    assert move_all(runtime.store) == 0, "nothing has ended for long enough"

    runtime.pass_time(MOVED_AFTER.total_seconds())
    assert move_all(runtime.store) == 2
    assert moved_ids(runtime) == {plain, newest}
    runtime.pass_time(SPENDING_KEPT_FOR.total_seconds())
    assert move_all(runtime.store) == 1
    assert moved_ids(runtime) == {plain, newest, dear}
    assert runtime.work().run.id == waiting
    assert {run.id for run in runtime.runs()} == {keyed, dead, retried, dear, plain, newest, waiting}


def test_a_run_that_would_not_come_back_as_it_is_stays(runtime: Runtime) -> None:
    some_runs(runtime)
    odd, odder, *_ = (run.id for run in runtime.runs())
    runtime.sql("UPDATE $run SET period_start_us = 5, tick_us = NULL WHERE id = ?", odd)
    runtime.sql("UPDATE $attempt SET cost_micro = 7 WHERE run_id = ?", odder)
    before = runtime.runs()

    assert move_all(runtime.store) == 9
    assert not {odd, odder} & moved_ids(runtime)
    assert runtime.runs() == before


def test_the_newest_run_of_a_tenant_stays_and_its_turn_with_it(runtime: Runtime) -> None:
    some_runs(runtime)
    assert move_all(runtime.store) == 11
    assert runtime.sql("SELECT count(*) FROM $run") == [(1,)]


def test_a_tick_that_succeeded_is_found_and_is_asked_for_again(runtime: Runtime) -> None:
    some_runs(runtime)
    first = runtime.runs()[0]
    assert move_all(runtime.store) == 11
    figures = runtime.store.metering().figures(TENANT)

    def again() -> Any:  # noqa: ANN401
        assert first.tick_us is not None
        tick = from_us(first.tick_us)
        return request_run(runtime.store, tenant=TENANT, target="s", tick=tick, new_run_id=new_id, by="ada")

    found = again()
    assert (found.run.id, found.run.summary, found.earlier) == (first.id, f"did {first.id}", True)
    assert again().run.requests == 3
    assert runtime.run(first.id).requests == 3
    assert runtime.store.metering().figures(TENANT).sums.asked_again == figures.sums.asked_again + 2
    prune(runtime.store)
    assert runtime.store.run(first.id, tenant=TENANT) is None
    assert runtime.store.metering().figures(TENANT).sums.asked_again == figures.sums.asked_again + 2


def prune(store: RuntimeStore, kept_for: timedelta = timedelta(days=1)) -> int:
    place: PrunePlace | None = PrunePlace()
    gone = 0
    while place is not None:
        page = Pruner(store, TENANT, kept_for, batch_max=3).step(place)
        gone, place = gone + page.gone, page.next
    return gone


def test_what_was_moved_is_pruned_with_all_that_is_its(runtime: Runtime) -> None:
    some_runs(runtime)
    ids = {run.id for run in runtime.runs()}
    assert move_all(runtime.store) == 11
    prune(runtime.store, timedelta(days=2, hours=1, minutes=6))
    kept = moved_ids(runtime)
    assert 3 < len(kept) < 9
    assert runtime.sql("SELECT count(*) FROM $manifest") == [(1,)]
    tallies = {one.name: (one.number, one.pruned) for one in runtime.store.tallies(TENANT, "s") if one.kind == "run"}
    assert tallies == {"succeeded": (12, 11 - len(kept))}

    told = {run_id for (run_id,) in runtime.sql("SELECT run_id FROM $old_log")}
    assert told == ids - kept - {run_id for (run_id,) in runtime.sql("SELECT id FROM $run")}
    runtime.pass_time(9 * 86_400)
    prune(runtime.store)
    assert moved_ids(runtime) == set()
    for table in ("past_common", "run", "attempt", "manifest"):
        assert runtime.sql(f"SELECT count(*) FROM ${table}") == [(0,)], table


def test_movers_pruners_and_requests_do_not_get_into_each_others_way(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_runs, "PAGE", 2)
    some_runs(runtime, 30)
    runs = runtime.runs()
    while runtime.store.metering().fold(TENANT):
        pass
    before = runtime.store.metering().figures(TENANT)

    refused: list[str] = []

    def work(one: tuple[str, RuntimeStore]) -> None:
        what, store = one
        for run in runs[:20] if what == "ask" else ():
            tick = from_us(run.tick_us or 0)
            try:
                request_run(store, tenant=TENANT, target="s", tick=tick, new_run_id=new_id, by="ada")
            except FencepostError as error:
                refused.append(str(error))
        if what == "move":
            move_all(store, 2)
        if what == "prune":
            prune(store, timedelta(days=2, hours=1, minutes=15))

    together(work, [(what, runtime.another()) for what in ("move", "prune", "ask", "move", "ask", "move")])
    assert [words for words in refused if "pruned" not in words] == []
    after = runtime.store.metering().figures(TENANT)
    assert (after.runs, after.ended, after.tokens) == (before.runs, before.ended, before.tokens)
    left = runtime.runs()
    assert [run._replace(requests=1) for run in left] == [one for one in runs if one.id in {run.id for run in left}]
    assert 5 < len(left) < 25
    ((plain,),) = runtime.sql("SELECT count(*) FROM $run")
    assert len(moved_ids(runtime)) == len(left) - plain
    assert [len(runtime.store.attempts(run.id)) for run in runs if run in left] == [1] * len(
        [run for run in runs if run in left]
    )


def moved_ids(runtime: Runtime) -> set[str]:
    return {str(run_id) for (run_id,) in runtime.sql("SELECT id FROM $past_run")}


def test_a_store_that_was_not_told_is_left_as_it_is(runtime: Runtime) -> None:
    """An older program may open it, and would take what was moved for lost."""
    some_runs(runtime)
    store, chore = runtime.another(), chores.packing()
    chore.step(store)
    assert store_maintenance.compact(store, dry=True).runs == 0, "nothing was counted yet"
    assert (moved_ids(runtime), needs(runtime)) == (set(), 1)

    told: list[tuple[int, int]] = []
    assert store_maintenance.compact(store, progress=lambda done, of: told.append((done, of))).runs == 11
    assert told[0] == (11, 11)
    assert needs(runtime) == past_runs.SCHEMA
    some_runs(runtime)
    while store.metering().fold(TENANT):
        pass
    for _ in range(3):
        chore.step(store)
    assert len(moved_ids(runtime)) > 20


def needs(runtime: Runtime) -> int:
    return int(runtime.sql("SELECT value FROM $meta WHERE key = 'schema_needs'")[0][0])


def test_the_program_that_a_moved_store_needs_is_the_one_with_the_table() -> None:
    for kind in ("sqlite", "postgres"):
        assert (FOLDER / kind / "migrations" / f"{past_runs.SCHEMA:04d}_past_runs.sql").exists()


def test_an_older_program_that_is_still_at_work_takes_no_definition_away(runtime: Runtime) -> None:
    """It sees no run that rests on it; so does this one, but for a trigger."""
    some_runs(runtime)
    move_all(runtime.store)
    runtime.pass_time(9 * 86_400)
    runtime.sql("DELETE FROM $run")
    runtime.sql("DELETE FROM $manifest")
    assert all(run.manifest for run in runtime.runs())
    runtime.sql("DELETE FROM $past_run")
    runtime.sql("DELETE FROM $manifest")
    assert runtime.sql("SELECT count(*) FROM $manifest") == [(0,)]


def test_a_backup_has_plain_runs_and_a_restored_store_can_be_compacted_again(runtime: Runtime, tmp_path: Path) -> None:
    some_runs(runtime)
    before = runtime.runs(), [runtime.store.attempts(run.id) for run in runtime.runs()]
    assert move_all(runtime.store) == 11
    file = str(tmp_path / "backup")
    store_maintenance.backup(runtime.rig.store, file)
    store_maintenance.restore(runtime.rig.store, file, confirm=lambda _: True)
    assert moved_ids(runtime) == set()
    assert (runtime.runs(), [runtime.store.attempts(run.id) for run in runtime.runs()]) == before
    assert move_all(runtime.store) == 11
    assert (runtime.runs(), [runtime.store.attempts(run.id) for run in runtime.runs()]) == before


def test_a_tenant_takes_its_moved_runs_along(runtime: Runtime, tmp_path: Path) -> None:
    some_runs(runtime)
    before = runtime.runs(), [runtime.store.attempts(run.id) for run in runtime.runs()]
    assert move_all(runtime.store) == 11
    file = str(tmp_path / "backup")
    store_maintenance.send_away(runtime.rig.store, file, tenant=TENANT, by="ada")
    (tmp_path / "there").mkdir()
    with open_runtime("sqlite", tmp_path / "there") as there:
        store_maintenance.restore(there.rig.store, file, confirm=lambda _: True, by="ada")
        assert (there.runs(), [there.store.attempts(run.id) for run in there.runs()]) == before
    store_maintenance.restore(runtime.rig.store, file, confirm=lambda _: True, by="ada")
    assert moved_ids(runtime) == set()
    assert (runtime.runs(), [runtime.store.attempts(run.id) for run in runtime.runs()]) == before


def test_a_full_disk_moves_nothing_and_is_survived(tmp_path: Path) -> None:
    with open_runtime("sqlite", tmp_path) as runtime:
        some_runs(runtime, 60)
        while runtime.store.metering().fold(TENANT):
            pass
        before = runtime.runs()
        ((pages,),) = runtime.sql("PRAGMA page_count")
        runtime.sql(f"PRAGMA max_page_count = {pages}")
        runtime.sql("PRAGMA cache_spill = ON")
        with pytest.raises(StoreUnavailable, match="full; nothing was changed"):
            move_all(runtime.store)
        assert moved_ids(runtime) == set()
        assert runtime.runs() == before
        runtime.sql(f"PRAGMA max_page_count = {pages * 9}")
        assert move_all(runtime.store) == 59
        assert runtime.runs() == before


def test_a_compaction_that_is_killed_again_and_again_loses_no_run(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/state.db"
    with open_runtime("sqlite", tmp_path) as runtime:
        some_runs(runtime, 2)
        copies(runtime, 9_000)
        before, attempts = runtime.runs(), runtime.sql("SELECT * FROM attempt_seen ORDER BY run_id")
        kills = 0
        while not compacts_until(url, grown(runtime)):
            kills += 1
            assert runtime.runs() == before
            assert runtime.sql("SELECT * FROM attempt_seen ORDER BY run_id") == attempts
        assert runtime.runs() == before
        assert len(moved_ids(runtime)) > 8_000
    assert kills >= 3


def copies(runtime: Runtime, number: int) -> None:
    """Copy the first run so often, each a while earlier, a year before any clock of this test."""
    columns = [str(name) for (name,) in runtime.sql("SELECT name FROM pragma_table_info('run')")]
    own = {
        "id": "'c' || n",
        "idempotency_key": "lower(hex(randomblob(32)))",
        "occurrence": "'o' || n",
        "fence": "fence - n",
    }
    values = [own.get(name, f"{name} - n - {365 * DAY_US}" if name.endswith("_us") else name) for name in columns]
    series = f"WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {number})"
    first = "(SELECT * FROM run ORDER BY created_us, id LIMIT 1)"
    runtime.sql(f"{series} INSERT INTO run ({', '.join(columns)}) SELECT {', '.join(values)} FROM n, {first}")
    runtime.sql(
        "INSERT INTO attempt (run_id, number, fence, worker, started_us, ended_us, outcome) "
        "SELECT id, 1, fence, 'w', started_us, ended_us, state FROM run WHERE id LIKE 'c%'"
    )
    while runtime.store.metering().fold(TENANT):
        pass


def grown(runtime: Runtime) -> Callable[[], bool]:
    """Return a way to ask whether more is moved than at first."""
    first = len(moved_ids(runtime))
    return lambda: len(moved_ids(runtime)) > first


# What these read is never moved: it lives or waits, has a key or an origin, is dead, or is in no meter yet. Some go together
# with one about past runs; and a trigger keeps what `prune_manifests` asks for.
PLAIN_ONLY = {
    "agents_of",
    "attempt_of",
    "begun_of_lease",
    "count_past",
    "definitions_of",
    "drop_moved_attempts",
    "drop_moved_runs",
    "fold_attempts",
    "fold_run_cut",
    "fold_runs",
    "fold_stragglers",
    "forget_lost",
    "lane_heads",
    "lane_lines",
    "lane_next",
    "lane_ready",
    "lane_take",
    "line_heads",
    "live_runs",
    "lock_run",
    "lock_runs",
    "lock_schedules_of",
    "look_dead",
    "look_health",
    "look_live",
    "look_replays",
    "lost_runs",
    "meter_live",
    "meter_lost",
    "meter_runs",
    "meter_tokens",
    "newest_run",
    "next_ready",
    "next_ready_after",
    "next_tenant_with_runs",
    "note_session",
    "overdue_runs",
    "past_page",
    "project_line",
    "prune_attempts",
    "prune_manifests",
    "prune_runs",
    "put_checkpoint",
    "put_completion",
    "ready_count",
    "ready_lines",
    "run",
    "running_beside",
    "runs_named",
    "runs_of_lease",
    "runs_of_origin",
    "sessions_of",
    "stops_asked",
    "stops_asked_of",
    "try_runs",
    "try_schedules_of",
    "waiting_of_agent",
}


@pytest.mark.parametrize("kind", [sqlite, postgres])
def test_a_statement_that_reads_only_one_form_is_about_runs_that_are_never_moved(kind: Any) -> None:  # noqa: ANN401
    """A new one stands in this list, or reads `run_seen`, `attempt_seen` or both tables."""
    found = set()
    for name, text in (kind.STATEMENTS.complete() if kind is sqlite else kind.STATEMENTS).items():
        words = text.decode() if isinstance(text, bytes) else text
        reads = set(re.findall(r"(?:FROM|JOIN) (?:fencepost\.)?(run|run_fact|attempt)\b", words))
        if reads and not re.search(r"past_(run|plain|attempt)", words):
            found.add(name)
    assert found <= PLAIN_ONLY
