"""Tick, run, cursor and audit row commit together or not at all, however many tickers there are."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.flow.ticker import Ticker, plan_of
from fencepost.model.definition import ScheduleDefinition
from fencepost.ports.ticks import Around, DueSchedule, TickPlan
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import PostgresRig, Rig
from tests.support.runtime import Runtime, at, new_id, together

SCHEDULES = 20
TICKERS = 8


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def test_tick_run_cursor_and_audit_are_there_together(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")

    (run,) = runtime.runs()
    assert runtime.ticks() == [("2027-01-15T08:01:00", 1, "run")]
    assert runtime.sql("SELECT run_id, occurrence FROM $tick") == [(run.id, run.occurrence)]
    assert run.occurrence == "UTC|2027-01-15T08:01:00|0"
    assert runtime.schedule()["cursor_us"] == runtime.rig.now_us()
    assert runtime.audit()[-1] == {"version": 1, "ticks": {"run": 1}, "runs": [run.id]}


def test_a_decision_that_raises_leaves_no_trace(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick()
    runtime.go_to("2027-01-15T08:01:00")
    before = runtime.contents()

    def fails(due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
        assert [plan_of(one, around, new_id) for one in due]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runtime.store.tick(10, fails)
    assert runtime.contents() == before


def test_rows_that_cannot_be_written_take_the_cursor_back_with_them(runtime: Runtime) -> None:
    """The run's id exists already: the last of the four writes fails."""
    runtime.cron("other")
    runtime.tick_at("2027-01-15T08:01:00")
    (taken,) = runtime.runs()
    runtime.cron("s")
    runtime.definitions["default"].pop("other")
    runtime.put()
    runtime.go_to("2027-01-15T08:02:00")
    before = runtime.contents()

    with pytest.raises(Exception, match=r"UNIQUE|duplicate|already exists|unique"):
        Ticker(runtime.store, lambda: taken.id).step()
    assert runtime.contents() == before
    runtime.tick()
    assert runtime.kinds("s") == ["run"]


@pytest.mark.parametrize("stale", ["version", "cursor_us", "last_run"])
def test_a_ticker_that_decided_on_what_has_changed_since_writes_nothing(runtime: Runtime, stale: str) -> None:
    runtime.cron()
    runtime.go_to("2027-01-15T08:01:00")
    before = runtime.contents()
    wrong: Any = {"version": 2, "cursor_us": 17, "last_run": "r-other"}[stale]

    def late(due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
        plans = [plan_of(one, around, new_id) for one in due]
        return [plan._replace(due=plan.due._replace(**{stale: wrong})) for plan in plans]

    assert runtime.store.tick(10, late) == 0
    assert runtime.contents() == before


def test_a_retired_schedule_is_left_alone_by_a_ticker_that_had_read_it_before(runtime: Runtime) -> None:
    runtime.cron()
    runtime.cron("other", "0 0 1 1 *")
    runtime.go_to("2027-01-15T08:01:00")
    kept: list[TickPlan] = []

    def keep(due: Sequence[DueSchedule], around: Around) -> list[TickPlan]:
        kept.extend(plan_of(one, around, new_id) for one in due)
        return []

    runtime.store.tick(10, keep)
    runtime.definitions["default"].pop("s")
    runtime.put()
    runtime.cron("due-now")
    runtime.go_to("2027-01-15T08:02:00")
    assert runtime.store.tick(10, lambda _due, _around: kept) == 0
    assert runtime.runs() == []


def test_an_occurrence_that_is_known_is_not_repeated_whoever_moves_the_cursor_back(runtime: Runtime) -> None:
    runtime.cron(overlap="queue", queue_max=10)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    runtime.sql("UPDATE $schedule SET cursor_us = cursor_us - 120000000, due_us = 1")
    runtime.tick()
    assert runtime.kinds() == ["run", "run"]
    assert len(runtime.runs()) == 2


def test_asking_again_adds_nothing(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    before = runtime.contents()
    assert runtime.tick() == 0
    assert runtime.contents() == before


def test_one_schedule_that_cannot_be_decided_stops_nobody_else(runtime: Runtime) -> None:
    runtime.cron("broken")
    runtime.cron("sound")
    runtime.tick()
    definition = '{"agent":"agent","cron":"* * * * *","name":"broken","timezone":"Europe/Nowhere"}'
    runtime.sql("UPDATE $schedule SET definition = ? WHERE name = 'broken'", definition)
    runtime.tick_at("2027-01-15T08:01:00")

    assert runtime.kinds("sound") == ["run"]
    assert runtime.kinds("broken") == []
    assert "Europe/Nowhere" in runtime.audit()[-1].get("trouble", "") + runtime.audit()[-2].get("trouble", "")
    runtime.tick_at("2027-01-15T08:02:00")
    assert sum("trouble" in entry for entry in runtime.audit()) == 1


def test_the_cost_of_a_step_is_bounded_and_the_rest_comes_next(runtime: Runtime) -> None:
    for number in range(7):
        runtime.definitions.setdefault("default", {})[f"s{number}"] = ScheduleDefinition(
            f"s{number}", "agent", cron="* * * * *", timezone="UTC"
        )
    runtime.apply()
    runtime.tick()
    runtime.go_to("2027-01-15T08:01:00")
    assert [Ticker(runtime.store, new_id, batch_max=3).step() for _ in range(4)] == [3, 3, 1, 0]
    assert len(runtime.runs()) == 7


def test_next_due_is_the_soonest_tick_of_all(runtime: Runtime) -> None:
    assert runtime.store.next_due_us() is None
    runtime.cron("a", "30 9 * * *")
    runtime.cron("b", "15 9 * * *")
    assert runtime.store.next_due_us() == 1_800_000_000_000_000 + 75 * 60 * 1_000_000
    assert runtime.store.clock_us() == runtime.rig.now_us()


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)  # nobody listens to a file
def test_workers_that_listen_are_told_when_a_run_was_committed(runtime: Runtime) -> None:
    assert isinstance(runtime.rig, PostgresRig)
    runtime.cron()
    runtime.tick()
    with psycopg.connect(runtime.rig.url, autocommit=True) as listener:
        listener.execute("LISTEN fencepost")
        runtime.tick_at("2027-01-15T08:01:00")
        heard = list(listener.notifies(timeout=5, stop_after=1))
        assert [one.channel for one in heard] == ["fencepost"]
        assert runtime.runs()[0].state == "ready"
        runtime.pass_time(1)
        runtime.tick()
        assert list(listener.notifies(timeout=0.05, stop_after=1)) == []


def crowd(runtime: Runtime) -> None:
    for number in range(SCHEDULES):
        name = f"s{number:02d}"
        runtime.definitions.setdefault("default", {})[name] = ScheduleDefinition(
            name, "agent", cron="* * * * *", timezone="UTC", overlap="allow_parallel", parallel_max=100
        )
    runtime.apply()
    runtime.tick()


def tick_all(store: RuntimeStore) -> None:
    while Ticker(store, new_id, batch_max=3).step():
        pass


def test_eight_tickers_at_once_make_each_occurrence_once(runtime: Runtime) -> None:
    crowd(runtime)
    stores = [runtime.another() for _ in range(TICKERS)]
    for minute in range(1, 4):
        runtime.go_to(at("2027-01-15T08:00:00") + timedelta(minutes=minute))
        together(tick_all, stores)
        runtime.tick()  # what was locked by another when its last look was taken
    found = runtime.sql("SELECT schedule, occurrence FROM $run")
    assert len(found) == len(set(found)) == SCHEDULES * 3
    assert runtime.sql("SELECT count(*) FROM $tick WHERE disposition = 'run'") == [(SCHEDULES * 3,)]


TICKER = """
import os, sys
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.stores.runtime import RuntimeStore
url, mark = sys.argv[1:3]
if url.startswith("sqlite:"):
    from fencepost.stores.sqlite.store import Opening
    opening = Opening(url[7:], clock=SystemClock(), boot="boot", network_kind=lambda _: None, busy_ms=30_000)
    opened = opening.open(new_id="x")
else:
    from fencepost.stores.postgres.store import open_store
    opened = open_store(url, new_id="x", allow_lossy=True)
store = RuntimeStore(opened)
made = 0
def new_id():
    global made
    made += 1
    if mark.startswith("kill") and made == int(mark[4:]):
        os.kill(os.getpid(), 9)
    return os.urandom(8).hex()
print("ready", flush=True)
sys.stdin.readline()
while Ticker(store, new_id, batch_max=5).step():
    pass
"""


def ticker(url: str, mark: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", TICKER, url, mark],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def url_of(runtime: Runtime) -> str:
    return f"sqlite:{runtime.rig.path}" if runtime.kind == "sqlite" else runtime.rig.url  # type: ignore[attr-defined]


def test_tickers_that_are_killed_in_the_middle_lose_nothing_and_double_nothing(runtime: Runtime) -> None:
    """Three real processes; two are killed while they decide, the third finishes what they left."""
    for number in range(SCHEDULES):
        name = f"s{number:02d}"
        runtime.definitions.setdefault("default", {})[name] = ScheduleDefinition(
            name, "agent", at="2023-11-14T22:20:00Z", grace="3650d", catchup_window="3660d"
        )
    runtime.go_to("2023-11-14T22:13:20")
    runtime.apply()
    if runtime.kind == "postgresql":
        runtime.go_to("2027-01-15T08:00:00")  # this server's clock is moved by hand
    doomed = [ticker(url_of(runtime), "kill2"), ticker(url_of(runtime), "kill7")]
    for process in doomed:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in doomed:
        process.communicate("go\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
    left = ticker(url_of(runtime))
    left.communicate("go\n", timeout=60)
    assert left.returncode == 0

    found = runtime.sql("SELECT schedule, occurrence FROM $run")
    assert len(found) == len(set(found)) == SCHEDULES
    assert runtime.sql("SELECT count(*) FROM $tick WHERE disposition = 'run'") == [(SCHEDULES,)]


def test_the_runs_in_a_ticks_way_are_recorded_with_it(runtime: Runtime) -> None:
    runtime.cron(grace="10m", overlap="allow_parallel", parallel_max=2)
    runtime.go_to("2027-01-15T08:04:30")
    runtime.tick()

    rows = runtime.sql("SELECT count, disposition, run_id, behind FROM $tick ORDER BY tick_us")
    made = [str(run_id) for _, kind, run_id, _ in rows if kind == "run"]
    skipped = [(count, json.loads(behind)) for count, kind, _, behind in rows if kind == "overlap"]
    assert len(made) == 2
    assert skipped, "there were more ticks than may run at once"
    assert all(behind == made for _, behind in skipped)
