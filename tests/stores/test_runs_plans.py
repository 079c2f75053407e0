"""The hot statements stay on their indexes: what they cost depends on what is due, not on what there is."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest

from fencepost.model.instants import FOREVER_US
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.postgres.store import open_store
from fencepost.stores.sqlite import dialect as sqlite
from fencepost.stores.sqlite.spans import SPANS
from tests.stores.rig import open_sqlite

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases

MANY = 20_000
FILL = """
INSERT INTO $schedule (tenant, name, version, hash, agent, definition, manifest, manifest_hash, source, trigger,
                       cursor_us, due_us, applied_us)
SELECT 't' || (n % 5), 's' || n, 1, '', 'agent', '{}', '{}', '', '', 'cron', 0, 9000000000000000 + n, 0 FROM n;
INSERT INTO $run (id, tenant, agent, schedule, version, trigger, idempotency_key, manifest, manifest_hash, payload,
                  resources, lease_max, lines_up, priority, rank, state, created_us, waiting_us, ready_us, place_us,
                  counted_us, give_up_us, fence, lease_id, origin, request_key, tick_us, occurrence, in_process)
SELECT 'r' || n, 't' || (n % 5), 'agent', 's' || n, 1, 'cron', '', '{}', '', '{}',
       '[["t0", "schedule:s' || n || '"]]', 1, FALSE, n % 3, -(n % 3), CASE WHEN n % 4 = 0 THEN 'succeeded' WHEN n % 20 = 1 THEN 'running' ELSE 'ready' END,
       n, n, n, n, n, 9000000000000000 + n, n, 'l' || n, 'o' || n, 'k' || n, n, 'o' || n, n % 7 = 0 FROM n;
INSERT INTO $attempt (run_id, number, fence, worker) SELECT 'r' || n, 1, n, 'w' FROM n;
INSERT INTO $past_common (tenant, number, hash, newest_us, agent, trigger, manifest_hash, resources, lease_max, lines_up,
                          priority, rank, attempt, resume, reserved_micro, in_process)
SELECT 't' || n, n, n, 0, 'agent', 'cron', '', '[]', 1, FALSE, 0, 0, 1, FALSE, 0, FALSE FROM n WHERE n <= 100;
INSERT INTO $past_run (id, tenant, schedule, created_us, tick_us, counted_us, fence, started, ended, common, occurrence, worker)
SELECT 'p' || n, 't' || (n % 5), 's' || n % 100, n, n, n, n, 1, 2, 1 + n % 100, 'p' || n, 'w' FROM n;
INSERT INTO $lease (id, tenant, resources, fence, run_id, label, host, machine, boot, pid_namespace, pid, pid_started,
                    ttl_ms, granted_us, $expires, keeper, keeper_socket)
SELECT 'l' || n, 't0', '[]', n, 'r' || n, '', 'h', 'm', 'b', 'p', n, '', 1000, 0, $over,
       CASE WHEN n % 40 = 1 THEN 'w' || n END, CASE WHEN n % 40 = 1 THEN '/s' END FROM n WHERE n % 20 = 1;
INSERT INTO $tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count, disposition,
                   run_id, tzdata, decided_us)
SELECT 't0', 's1', 'o' || n, 1, '', '', n, n, 1, CASE WHEN n % 50 = 0 THEN 'overlap' ELSE 'run' END, 'r' || n, '', 0 FROM n;
"""
KEYS = json.dumps([["t0", "s5"], ["t1", "s6"]])
VALUES: dict[str, Any] = {
    "tenant": "t1",
    "rank": -1,
    "passed": "[]",
    "turns": "[]",
    "apart": "[]",
    "limit": 20,
    "schedule": "s1",
    "schedules": KEYS,
    "occurrences": json.dumps([["t0", "s1", "o1"]]),
    "since_us": 5,
    "within_us": 5,
    "id": "r1",
    "fence": 5,
    "counted_us": 7,
    "timed": True,
    "run_id": "r1",
    "name": "s1",
    "target": "s1",
    "request_key": "k1",
    "origin": "o1",
    "tick_us": 5,
    "lease_id": "l",
    "itself": '"t1"',
    "worker": "w",
    "exit_code": 0,
    "outcome": "succeeded",
    "runs": json.dumps(
        {"ids": [["r1"]], "given": [{"lease_id": "l", "fence": 5, "worker": "w", "started": True, "number": 1}]}
    ),
    "starting": json.dumps({"r1": {"fence": 5, "session": None}}),
    "ended": json.dumps(
        {"ids": [["r1"]], "given": [{"lease_id": "l", "fence": 5, "state": "dead", "refund": 0, "resume": False}]}
    ),
    "keeper": "w5",
    "agent": "agent",
    "from_us": 0,
    "until_us": 50,
    "after_us": 0,
    "after": "",
    "ids": json.dumps(["r1", "r2"]),
    "state": "dead",
    "disposition": "",
    "before_us": 50,
    "enough": -1,
    "before_schedule": "",
    "before": "",
    "bin_us": 10,
    "kept": True,
    "before_id": "",
    "project": "",
    "decided_us": 90,
    "edges": "[0, 20, 50]",
    "day_us": 5,
    "month_us": 5,
    "hour_us": 5,
    "prefix": "p77",
    "beyond": "p78",
    "live": False,
    "at_us": 7,
    "horizon_us": MANY,
    "spending_us": MANY,
    "ended_us": MANY,
    "newest": "",
}
HOT = {
    "due_schedules": "schedule_due",
    "coming_schedules": "schedule_due",
    "next_due": "schedule_due",
    "live_runs": "run_live",
    "spending": "run_counted run_by_tick",
    "ready_lines": "run_apart",
    "line_heads": "run_apart",
    "lane_next": "run_lane",
    "lane_take": "run_lane",
    "lane_lines": "run_lane",
    "lane_heads": "run_lane",
    "take_runs": "run_pkey",
    "settle_runs": "run_pkey",
    "settle_batch": "run_pkey",
    "end_batch": "attempt_pkey",
    "lock_runs": "run_pkey",
    "try_runs": "run_pkey",
    "runs_named": "run_pkey",
    "start_runs": "run_pkey",
    "start_attempts": "attempt_pkey",
    "end_attempts": "attempt_pkey",
    "sessions_of": "attempt_pkey",
    "runs_of_lease": "run_running",
    "stops_asked": "run_running",
    "stops_asked_of": "lease_kept",
    "running_beside": "run_live run_running",
    "agents_of": "run_pkey",
    "definitions_of": "schedule_pkey",
    "lock_schedules_of": "schedule_pkey",
    "try_schedules_of": "schedule_pkey",
    "note_ends": "schedule_pkey",
    "spending_beside": "run_counted run_by_tick",
    "next_ready": "run_soonest",
    "overdue_runs": "run_overdue",
    "asked_again": "run_of_request",
    "runs_of_origin": "run_by_origin",
    "runs_of_tick": "run_by_tick",
    "attempt_of": "attempt_pkey",
    "history_ticks": "tick_by_time",
    "look_dead": "run_died",
    "look_skips": "tick_skips",
    "look_skipped": "tick_skips",
    "chart_ticks": "tick_skips",
    "chart_tick_bins": "tick_decided",
    "chart_days": "run_counted run_by_tick run_of_tick",
    "look_spending": "run_counted run_by_tick",
    "look_ticks": "tick_by_time",
}
# The same among those that were moved: what both forms are asked for is looked up in each.
PAST = {
    "look_runs": "past_run_by_age past_run_by_tick past_run_counted",
    "runs": "past_run_by_age past_run_by_tick past_run_counted",
    "look_ended": "past_run_by_age",
    "look_prefix": "past_run_pkey",
    "look_named_runs": "past_run_pkey",
    "look_attempts": "past_run_pkey",
    "look_alive": "past_run_by_age past_run_by_tick past_run_counted",
    "look_spending": "past_run_counted past_run_by_tick",
    "attempts": "past_run_pkey",
    "past_run": "past_run_pkey",
    "touch_past_run": "past_run_pkey",
    "runs_of_tick": "past_run_by_tick past_run_counted",
    "spending": "past_run_counted past_run_by_tick",
    "spending_beside": "past_run_counted past_run_by_tick",
    "chart_days": "past_run_counted past_run_by_tick",
    "runless_ticks": "past_run_pkey",
    "tickless_runs": "past_run_by_tick past_run_counted",
    "every_links": "past_run_by_tick past_run_counted",
    "first_starts": "past_run_by_tick past_run_counted",
    "tallies": "past_run_by_tick past_run_counted",
    "prune_run_page": "past_run_by_age",
    "prune_tick_page": "past_run_pkey",
    "past_to_prune": "past_run_pkey",
    "past_attempts_to_prune": "past_run_pkey",
    "drop_past_runs": "past_run_pkey",
    "past_misfits": "past_run_pkey",
    "past_page": "run_by_age",
    "meter_asked_again": "past_run_asked_again",
    "chart_attempts": "past_run_by_age past_run_counted past_run_by_tick",
    "chart_made": "past_run_by_age past_run_counted past_run_by_tick",
    "chart_bins": "past_run_by_age past_run_counted past_run_by_tick",
    "chart_bins_of_projects": "past_run_by_age past_run_counted past_run_by_tick",
    "chart_bins_of_workers": "past_run_by_age past_run_counted past_run_by_tick",
}
LISTS = ("look_runs", "runs", "look_ended", "prune_run_page")
NEWEST = {"before_us": MANY, "state": "", "schedule": "", "agent": "", "kept": False}
# PostgreSQL keeps what waits and what runs in tables of their own.
MOVED = {
    "run_live": "ready_of_schedule running_of_schedule",
    "run_apart": "ready_pkey",
    "run_lane": "ready_pkey",
    "run_running": "running_pkey",
    "run_live run_running": "running_of_schedule",
    "run_soonest": "ready_later",
    "run_overdue": "ready_overdue",
    "run_died": "dead_pkey run_pkey",
}


# What figures cost depends on what came lately, and not on what there is.
LATELY = {
    **VALUES,
    "tenant": "t0",
    "after_us": MANY - 10,
    "since_us": MANY - 10,
    "from_us": MANY - 10,
    "until_us": FOREVER_US,
}
FIGURES = {
    "meter_runs": "run_by_age",
    "meter_lost": "run_by_age",
    "meter_tokens": "run_by_age",
    "meter_asked_again": "run_asked_again",
    "meter_ticks": "tick_decided",
    "fold_run_cut": "run_by_age",
    "fold_runs": "run_by_age",
    "fold_tick_cut": "tick_decided",
    "chart_attempts": "run_by_age run_counted run_by_tick run_of_tick",
    "chart_made": "run_by_age run_counted run_by_tick run_of_tick",
    "chart_bins": "run_by_age run_counted run_by_tick run_of_tick",
    "chart_bins_of_projects": "run_by_age run_counted run_by_tick run_of_tick",
    "chart_bins_of_workers": "run_by_age run_counted run_by_tick run_of_tick",
}


@pytest.fixture(scope="module")
def server(postgres_server: "PostgresDatabases") -> Iterator[psycopg.Connection]:
    url = postgres_server.create_database()
    open_store(url, new_id="plans", allow_lossy=True).close()
    with psycopg.connect(url, autocommit=True) as connection:
        series = f"generate_series(1, {MANY}) AS n"
        filling = FILL.replace("$expires", "expires_us").replace("$over", "0").replace("$", "fencepost.")
        connection.execute(re.sub(r"FROM n\b", f"FROM {series}", filling).encode())
        connection.execute("ANALYZE")
        connection.execute("SET plan_cache_mode = force_custom_plan")
        yield connection
    postgres_server.drop_database(url)


@pytest.mark.parametrize("name", [*HOT, *FIGURES])
def test_postgresql_uses_the_index(server: psycopg.Connection, name: str) -> None:
    statement = postgres.STATEMENTS[name]
    row = server.execute(b"EXPLAIN (FORMAT JSON) " + statement, LATELY if name in FIGURES else VALUES).fetchone()
    assert row
    nodes = list(flattened(row[0][0]["Plan"]))
    scanned = [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"]
    large = {"run", "ready", "running", "tick", "attempt"} | (set() if name in FIGURES else {"schedule"})
    assert not large & set(scanned), scanned
    wanted = FIGURES.get(name) or MOVED.get(HOT[name], HOT[name])
    assert set(wanted.split()) & {node.get("Index Name") for node in nodes}


def test_postgresql_reads_of_the_moved_only_what_is_asked_for(server: psycopg.Connection) -> None:
    for name, wanted in PAST.items():
        values = {**VALUES, **(LATELY if name in FIGURES else {"state": "", "kept": False})}
        row = server.execute(b"EXPLAIN (FORMAT JSON) " + postgres.STATEMENTS[name], values).fetchone()
        assert row
        nodes = list(flattened(row[0][0]["Plan"]))
        scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
        assert not {"past_run", "run", "attempt"} & scanned, (name, scanned)
        assert set(wanted.split()) & {node.get("Index Name") for node in nodes}, name


@pytest.mark.parametrize("name", LISTS)
def test_postgresql_reads_no_more_of_both_forms_than_a_page(server: psycopg.Connection, name: str) -> None:
    statement = b"EXPLAIN (ANALYZE, FORMAT JSON) " + postgres.STATEMENTS[name]
    row = server.execute(statement, {**VALUES, **NEWEST}).fetchone()
    assert row
    read = {
        node["Relation Name"]: node["Actual Rows"] * node["Actual Loops"]
        for node in flattened(row[0][0]["Plan"])
        if node.get("Index Name") in ("run_by_age", "past_run_by_age")
    }
    assert set(read) == {"run", "past_run"}
    assert sum(read.values()) <= 4 * VALUES["limit"], read


@pytest.mark.parametrize(
    ("name", "column"), [("due_schedules", "due_us"), ("line_heads", "place_us"), ("next_ready", "ready_us")]
)
def test_postgresql_reads_the_clock_once_and_stops_where_the_future_begins(
    server: psycopg.Connection, name: str, column: str
) -> None:
    row = server.execute(b"EXPLAIN (FORMAT JSON) " + postgres.STATEMENTS[name], VALUES).fetchone()
    assert row
    conditions = [node.get("Index Cond", "") for node in flattened(row[0][0]["Plan"])]
    assert any(column in condition for condition in conditions), conditions


@pytest.mark.parametrize(
    "name",
    [
        "lane_next",
        "lane_take",
        "lane_heads",
        "try_runs",
        "take_runs",
        "lock_runs",
        "start_runs",
        "start_attempts",
        "settle_runs",
        "end_attempts",
        "settle_batch",
        "end_batch",
        "running_beside",
        "stops_asked",
        "live_runs",
    ],
)
def test_a_plan_that_postgresql_made_while_there_was_nothing_never_reads_everything(
    postgres_server: "PostgresDatabases", name: str
) -> None:
    url = postgres_server.create_database()
    open_store(url, new_id="empty", allow_lossy=True).close()
    with psycopg.connect(url) as connection:
        for setting in re.findall(rb"SET LOCAL enable_\w+ = off", postgres.begin_writing_directly(postgres.QUICK)):
            connection.execute(setting)
        row = connection.execute(b"EXPLAIN (FORMAT JSON) " + postgres.STATEMENTS[name], VALUES).fetchone()
    postgres_server.drop_database(url)
    assert row
    nodes = list(flattened(row[0][0]["Plan"]))
    large = {"run", "ready", "running", "attempt"}
    looks = [node for node in nodes if node.get("Relation Name") in large and "Scan" in node["Node Type"]]
    for look in looks:
        assert look["Node Type"] != "Seq Scan"
        assert look["Node Type"] in ("Bitmap Heap Scan", "Tid Scan") or "Index Cond" in look, look


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "state.db"
    store = open_sqlite(path)
    connection: apsw.Connection = store.dialect._connection
    numbers = f"WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY})"
    filling = FILL.replace("$expires", "expires_boot, expires_ns").replace("$over", "'b', 0").replace("$", "")
    for statement in filling.strip().split(";"):
        if statement.strip():
            connection.execute(f"{numbers} {statement}")
    connection.execute("ANALYZE")
    yield connection
    store.close()


@pytest.mark.parametrize("name", [*HOT, *FIGURES])
def test_sqlite_uses_the_index(file: apsw.Connection, name: str) -> None:
    text, *_ = sqlite.STATEMENTS[name].split(";\n")
    plan = [str(row[-1]) for row in file.execute(f"EXPLAIN QUERY PLAN {text}", VALUES)]
    scans = [line for line in plan if re.match(r"SCAN (run|schedule|tick|attempt|other)\b(?! USING)", line)]
    assert scans == [], plan
    named = FIGURES.get(name) or HOT[name]
    wanted = [f"INDEX {index} " for index in named.split()]
    if named.endswith("_pkey"):
        wanted = ["PRIMARY KEY", "sqlite_autoindex"]
    assert any(index in line for index in wanted for line in plan), plan


@pytest.mark.parametrize("name", SPANS)
def test_sqlite_reads_no_more_than_a_span(file: apsw.Connection, name: str) -> None:
    values = {**VALUES, "first": "a", "last": "b", "now_us": 5}
    plan = [str(row[-1]) for row in file.execute(f"EXPLAIN QUERY PLAN {SPANS[name]}", values)]
    assert any(re.search(r"PRIMARY KEY \((run_)?id>\? AND (run_)?id<\?\)", line) for line in plan), plan


def test_sqlite_reads_of_the_moved_only_what_is_asked_for(file: apsw.Connection) -> None:
    for name, named in PAST.items():
        plan = [str(row[-1]) for row in file.execute(f"EXPLAIN QUERY PLAN {sqlite.STATEMENTS[name]}", VALUES)]
        scans = [line for line in plan if re.match(r"SCAN (past_run|run|attempt)\b(?! USING)", line)]
        assert scans == [], (name, plan)
        wanted = (
            ["past_run USING PRIMARY KEY"] if named == "past_run_pkey" else [f"INDEX {one}" for one in named.split()]
        )
        assert any(index in line for index in wanted for line in plan), (name, plan)


def test_sqlite_counts_who_waits_without_looking_at_each(file: apsw.Connection) -> None:
    plan = file.execute(f"EXPLAIN QUERY PLAN {sqlite.STATEMENTS['waiting_of_agent']}", VALUES)
    assert any("COVERING INDEX run_live" in str(row[-1]) for row in plan)


@pytest.mark.parametrize(
    "name",
    [
        "ready_lines",
        "line_heads",
        "lane_lines",
        "lane_heads",
        "due_schedules",
        "coming_schedules",
        "next_ready",
        "next_due",
        "overdue_runs",
        *LISTS,
        *("look_prefix", "look_named_runs", "look_attempts", "attempts", "runs_of_tick", "past_run", "past_to_prune"),
        *("past_misfits", "look_spending", "spending", "spending_beside"),
    ],
)
def test_sqlite_takes_few_steps_among_many_rows(file: apsw.Connection, name: str) -> None:
    """A plan may name the right index and still walk along all of it."""
    hundreds = 0

    def step() -> bool:
        nonlocal hundreds
        hundreds += 1
        return False

    file.set_progress_handler(step, 100)
    try:
        file.execute(sqlite.STATEMENTS[name], {**VALUES, **(NEWEST if name in LISTS else {})}).fetchall()
    finally:
        file.set_progress_handler(None)
    assert hundreds < 100


def flattened(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from flattened(child)
