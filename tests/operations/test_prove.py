"""`prove` finds what is missing or double by counting in another way; a healthy store gives it nothing to find."""

import time
from datetime import timedelta
from typing import Any

import pytest

from fencepost.flow import tick_rows
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.proof import TenantProof
from fencepost.operations.prove import prove
from tests.support.runtime import DEAD, Runtime, at, us


def proof(runtime: Runtime, **window: str) -> TenantProof:
    instants = {name: at(text) for name, text in window.items()}
    return prove(runtime.store, tenant="default", **instants)  # type: ignore[arg-type]


def totals(runtime: Runtime, **window: str) -> tuple[int, ...]:
    """Owed, accounted, pending, missing, doubled."""
    return tuple(proof(runtime, **window).totals().values())


def lived(runtime: Runtime, **fields: Any) -> None:  # noqa: ANN401  # of the definition
    """Live through ten minutes of a schedule that ticks every minute."""
    runtime.cron(overlap="allow_parallel", parallel_max=100, **fields)
    for minute in range(1, 11):
        runtime.tick_at(f"2027-01-15T08:{minute:02d}:00")


# --- nothing to find


def test_a_healthy_store_owes_nothing(runtime: Runtime) -> None:
    lived(runtime)
    assert totals(runtime) == (10, 10, 0, 0, 0)
    assert proof(runtime).holds


def test_the_last_words_are_those_that_scripts_rely_on(runtime: Runtime) -> None:
    lived(runtime)
    assert proof(runtime).totals() == {"owed": 10, "accounted": 10, "pending": 0, "missing": 0, "doubled": 0}


def test_every_kind_of_disposition_is_an_account(runtime: Runtime) -> None:
    runtime.cron(missed="coalesce", calendar=("FRI 08:30-08:40",))
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00", "2027-01-15T08:02:30")
    runtime.store.registry().pause("default", "s", until=at("2027-01-15T08:05:00"), note="", actor="test")
    runtime.tick_at("2027-01-15T08:06:00")
    runtime.work()
    runtime.store.registry().skip_next("default", "s", 1, actor="test")
    runtime.tick_at("2027-01-15T08:07:00", "2027-01-15T08:50:00")
    assert {"run", "overlap", "paused", "coalesced", "calendar"} <= set(runtime.kinds())
    assert totals(runtime) == (50, 50, 0, 0, 0)


def test_what_lies_beyond_the_cursor_is_pending_with_the_cursors_age(runtime: Runtime) -> None:
    lived(runtime)
    runtime.go_to("2027-01-15T08:13:30")
    (found,) = proof(runtime).schedules
    assert (found.owed, found.pending, found.missing) == (13, 3, 0)
    assert found.cursor_age_seconds == pytest.approx(210)
    assert found.holds


def test_a_window_cuts_ranges_exactly(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick()
    runtime.tick_at("2027-01-15T10:00:30")
    assert runtime.kinds()[0] == "missed"
    assert totals(runtime) == (120, 120, 0, 0, 0)
    assert totals(runtime, from_="2027-01-15T08:30:00", until="2027-01-15T09:00:00") == (30, 30, 0, 0, 0)
    assert totals(runtime, from_="2027-01-15T09:30:00") == (31, 31, 0, 0, 0)
    assert totals(runtime, until="2027-01-15T08:00:30") == (0, 0, 0, 0, 0)


def test_edits_at_any_time_leave_nothing_to_find(runtime: Runtime) -> None:
    crons = ["* * * * *", "*/2 * * * *", "* * * * *", "30 * * * *", "*/7 * * * *"]
    for number, cron in enumerate(crons):
        runtime.cron(cron=cron, overlap="allow_parallel", parallel_max=100)
        runtime.tick_at(
            *(at("2027-01-15T08:00:00") + timedelta(seconds=number * 400 + step) for step in (95, 130, 333))
        )
    assert proof(runtime).holds
    assert totals(runtime)[0] > 5


def test_retired_switched_off_and_spent_schedules_owe_nothing_more(runtime: Runtime) -> None:
    runtime.cron("retired")
    runtime.cron("off")
    runtime.cron("spent", once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    while leased := runtime.lease():
        runtime.store.start_run(leased)
    runtime.definitions["default"].pop("retired")
    runtime.cron("off", enabled=False)
    runtime.tick_at("2027-01-15T08:30:00")
    assert totals(runtime) == (3, 3, 0, 0, 0)


def test_a_spent_schedule_that_is_edited_owes_nothing_until_it_is_armed_again(runtime: Runtime) -> None:
    runtime.cron(once=True)
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.work()
    runtime.cron(once=True, priority=1)
    runtime.tick_at("2027-01-15T08:05:00")
    assert totals(runtime) == (1, 1, 0, 0, 0)
    runtime.cron(cron="*/2 * * * *", once=True)
    assert totals(runtime) == (1, 1, 0, 0, 0)
    runtime.tick_at("2027-01-15T08:06:00")
    assert totals(runtime) == (2, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("zone", "start", "gap"),
    [
        ("Europe/Berlin", "2027-03-27T12:00:00", 60),
        ("Australia/Lord_Howe", "2026-10-03T00:00:00", 30),
        ("America/St_Johns", "2026-10-31T12:00:00", 0),
        ("America/New_York", "2026-10-31T12:00:00", 0),
    ],
)
@pytest.mark.parametrize("dst_gap", ["skip", "shift"])
def test_days_on_which_clocks_change_add_up(runtime: Runtime, zone: str, start: str, gap: int, dst_gap: str) -> None:
    runtime.go_to(at(start))
    runtime.cron(timezone=zone, dst_gap=dst_gap)
    runtime.cron("fixed", "30 1,2,3 * * *", timezone=zone, dst_gap=dst_gap)
    runtime.tick()
    for hour in range(1, 49):
        runtime.go_to(at(start) + timedelta(hours=hour))
        runtime.tick()
    whole, fixed = sorted(proof(runtime).schedules, key=lambda one: -one.owed)
    assert (whole.owed, whole.accounted) == (2 * 1440 + (gap if dst_gap == "skip" else 0),) * 2
    assert (fixed.holds, whole.holds, whole.pending + fixed.pending) == (True, True, 0)


def test_a_year_of_seconds_is_proved_in_seconds(runtime: Runtime) -> None:
    runtime.cron(cron="* * * * * *", timezone="Europe/Berlin")
    runtime.tick()
    runtime.go_to("2028-01-15T08:00:00")
    runtime.tick()
    began = time.process_time()  # ours alone: a busy machine says nothing about the code
    assert totals(runtime) == (365 * 86_400 + 3600, 365 * 86_400 + 3600, 0, 0, 0)
    assert time.process_time() - began < 10


def test_one_shots_are_owed_once(runtime: Runtime) -> None:
    runtime.apply(ScheduleDefinition("utc", "agent", at="2027-01-15T08:05:00Z"))
    runtime.apply(ScheduleDefinition("wall", "agent", at="2027-01-15T09:06:00", timezone="Europe/Berlin"))
    runtime.tick_at("2027-01-15T08:04:00")
    assert totals(runtime) == (0, 0, 0, 0, 0)
    runtime.tick_at("2027-01-15T08:05:00", "2027-01-15T08:06:00")
    assert totals(runtime) == (2, 2, 0, 0, 0)
    runtime.go_to("2027-02-15T08:06:00")
    assert totals(runtime) == (2, 2, 0, 0, 0)


def test_every_is_a_chain_without_a_break(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    for end in range(4):
        runtime.work() if end % 2 else runtime.work(DEAD)
        runtime.pass_time(600)
        runtime.tick()
    assert totals(runtime) == (5, 5, 0, 0, 0)
    runtime.work()
    assert totals(runtime) == (5, 5, 0, 0, 0)
    runtime.pass_time(700)
    assert totals(runtime) == (6, 5, 1, 0, 0)


def test_a_new_tzdata_is_no_reason_for_alarm(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_rows, "tzdata_version", lambda: "1999a")
    lived(runtime, timezone="Europe/Berlin")
    assert totals(runtime) == (10, 10, 0, 0, 0)


def test_slots_that_a_new_tzdata_has_moved_are_recognised(runtime: Runtime) -> None:
    """What was decided by an older release has other instants, and the same slots."""
    lived(runtime, timezone="Europe/Berlin")
    runtime.sql(
        "UPDATE $tick SET tick_us = tick_us - 3600000000, tick_until_us = tick_until_us - 3600000000, tzdata = '1999a'"
    )
    assert totals(runtime) == (10, 10, 0, 0, 0)


def test_nothing_is_proved_about_a_schedule_that_never_was(runtime: Runtime) -> None:
    runtime.cron("nightly")
    with pytest.raises(Invalid, match="did you mean 'nightly'"):
        prove(runtime.store, tenant="default", schedule="nightli")
    assert prove(runtime.store, tenant="nobody").schedules == ()
    with pytest.raises(Invalid, match="swap them"):
        proof(runtime, from_="2027-01-15T09:00:00", until="2027-01-15T08:00:00")


def test_one_schedule_can_be_proved_alone(runtime: Runtime) -> None:
    runtime.cron("a")
    runtime.cron("b")
    runtime.tick_at("2027-01-15T08:01:00")
    found = prove(runtime.store, tenant="default", schedule="a")
    assert [one.schedule for one in found.schedules] == ["a"]


# --- what somebody has broken by hand


def found(runtime: Runtime) -> list[tuple[str, str | None]]:
    """Return what is wrong, and where."""
    findings = [one for schedule in proof(runtime).schedules for one in schedule.findings]
    return [(one.kind.value, None if one.at_us is None else str(one.at_us)) for one in findings]


def test_a_deleted_tick_is_missed(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql("DELETE FROM $tick WHERE tick_us = ?", us("2027-01-15T08:04:00"))
    assert totals(runtime) == (10, 9, 0, 1, 1), "and its run belongs to no tick"
    assert ("missing", str(us("2027-01-15T08:04:00"))) in found(runtime)
    assert not proof(runtime).holds


def test_a_deleted_range_is_missed_with_its_number(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick()
    runtime.tick_at("2027-01-15T10:00:30")
    runtime.sql("DELETE FROM $tick WHERE disposition = 'missed'")
    assert totals(runtime) == (120, 1, 0, 119, 0)


def test_a_range_that_says_a_wrong_number_is_found(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick()
    runtime.tick_at("2027-01-15T10:00:30")
    runtime.sql("UPDATE $tick SET count = count - 7 WHERE disposition = 'missed'")
    assert totals(runtime)[3] == 7


def test_a_deleted_run_is_missed(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql("DELETE FROM $run WHERE tick_us = ?", us("2027-01-15T08:04:00"))
    assert totals(runtime) == (10, 9, 0, 1, 0)
    assert found(runtime) == [("missing", str(us("2027-01-15T08:04:00")))]


def test_a_tick_that_is_recorded_twice_is_found(runtime: Runtime) -> None:
    lived(runtime)
    columns = "slot, slot_until, tick_us, tick_until_us, count, into_us, tzdata, decided_us, tenant, schedule, version"
    runtime.sql(
        f"INSERT INTO $tick (occurrence, disposition, {columns}) SELECT occurrence || '-again', 'missed', {columns} "
        "FROM $tick WHERE tick_us = ?",
        us("2027-01-15T08:04:00"),
    )
    assert totals(runtime) == (10, 10, 0, 0, 1)
    assert found(runtime) == [("doubled", str(us("2027-01-15T08:04:00")))]


def test_a_tick_that_nobody_owed_is_found(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql(
        "UPDATE $tick SET tick_us = tick_us + 30000000, tick_until_us = tick_until_us + 30000000 WHERE tick_us = ?",
        us("2027-01-15T08:04:00"),
    )
    assert totals(runtime)[3:] == (1, 1)


def test_a_second_run_for_a_tick_is_found(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql("UPDATE $run SET occurrence = 'UTC|1999|0' WHERE tick_us = ?", us("2027-01-15T08:04:00"))
    assert totals(runtime) == (10, 10, 0, 0, 1)


def test_a_cursor_that_was_moved_ahead_by_hand_is_found(runtime: Runtime) -> None:
    lived(runtime)
    moved = us("2027-01-15T08:20:30")
    runtime.sql("UPDATE $schedule SET cursor_us = ?, due_us = ?", moved, us("2027-01-15T08:21:00"))
    runtime.tick_at("2027-01-15T08:21:00")
    assert totals(runtime) == (21, 11, 0, 10, 0)


def test_a_cursor_that_was_moved_back_by_hand_heals(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql("UPDATE $schedule SET cursor_us = ?, due_us = 1", us("2027-01-15T08:05:30"))
    runtime.tick()
    assert totals(runtime) == (10, 10, 0, 0, 0)


@pytest.mark.parametrize("due_us", [None, us("2027-01-16T00:00:00")])
def test_a_schedule_that_nobody_will_look_at_is_not_just_pending(runtime: Runtime, due_us: int | None) -> None:
    """Enabled, with a next run in the future, yet dead: within one interval it is told."""
    lived(runtime)
    runtime.sql("UPDATE $schedule SET due_us = ?", due_us)
    runtime.go_to("2027-01-15T08:11:00")
    assert totals(runtime) == (11, 10, 0, 1, 0)


def test_a_schedule_whose_row_is_gone_is_told(runtime: Runtime) -> None:
    lived(runtime)
    runtime.sql("DELETE FROM $schedule")
    runtime.go_to("2027-01-15T08:11:00")
    assert totals(runtime)[3] > 0


def test_an_every_schedule_that_stopped_is_told(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    runtime.work()
    runtime.sql("UPDATE $schedule SET due_us = NULL")
    runtime.pass_time(600)
    assert totals(runtime) == (2, 1, 0, 1, 0)


def test_an_every_chain_with_a_hole_is_told(runtime: Runtime) -> None:
    runtime.every()
    runtime.tick()
    for _ in range(3):
        runtime.work()
        runtime.pass_time(600)
        runtime.tick()
    second = runtime.runs()[1]
    runtime.sql("DELETE FROM $tick WHERE occurrence = ?", second.occurrence)
    assert totals(runtime) == (4, 3, 0, 1, 1)


def test_whichever_single_record_is_deleted_the_proof_does_not_hold(runtime: Runtime) -> None:
    """A schedule looked healthy, with a next run in the future, and the row behind it was gone."""
    runtime.cron("cron", overlap="allow_parallel")
    runtime.every("every", "1m")
    for minute in range(1, 5):
        runtime.tick_at(f"2027-01-15T08:{minute:02d}:00")
        while leased := runtime.lease():
            runtime.store.start_run(leased)
            runtime.settle(leased)
    assert proof(runtime).holds
    tables = {"tick": "schedule, occurrence", "run": "id", "schedule": "name"}
    for table, columns in tables.items():
        for key in runtime.sql(f"SELECT {columns} FROM ${table} ORDER BY {columns}"):
            assert holds_without(runtime, table, columns, key) is False, f"{table} {key}"
    assert proof(runtime).holds


def holds_without(runtime: Runtime, table: str, columns: str, key: tuple[object, ...]) -> bool:
    """Delete one row, prove, and put it back."""
    where = " AND ".join(f"{column} = ?" for column in columns.split(", "))
    runtime.sql(f"CREATE TABLE $kept AS SELECT * FROM ${table} WHERE {where}".replace("?", "'{}'").format(*key))
    runtime.sql(f"DELETE FROM ${table} WHERE {where}", *key)
    held = proof(runtime).holds
    runtime.sql(f"INSERT INTO ${table} SELECT * FROM $kept")
    runtime.sql("DROP TABLE $kept")
    return held
