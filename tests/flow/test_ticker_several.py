"""Schedules with several triggers through the ticker, on both stores: one run per instant, all accounted for."""

from dataclasses import replace

import pytest

from fencepost.model.definition import ScheduleDefinition
from fencepost.operations.prove import prove
from tests.support.runtime import Runtime, at


def several(**fields: object) -> ScheduleDefinition:
    values: dict[str, object] = {"timezone": "Europe/Berlin", "overlap": "allow_parallel", "parallel_max": 50}
    return ScheduleDefinition("s", "agent", **{**values, **fields})  # type: ignore[arg-type]


def proven(runtime: Runtime) -> dict[str, int]:
    found = prove(runtime.store, tenant="default")
    assert found.holds, found
    return found.totals()


def test_each_instant_makes_one_run_and_is_of_the_trigger_that_asked(runtime: Runtime) -> None:
    runtime.go_to("2026-06-01T06:59")
    runtime.apply(several(cron=("0 9 * * *", "30 9 * * *"), at=("2026-06-01T07:00:00Z", "2026-06-01T07:15:00Z")))
    runtime.tick_at("2026-06-01T07:00", "2026-06-01T07:15", "2026-06-01T07:30", "2026-06-01T07:45")
    assert [(run.trigger, run.occurrence) for run in runtime.runs("s")] == [
        ("cron", "Europe/Berlin|2026-06-01T09:00:00|0"),
        ("at", "UTC|2026-06-01T07:15:00|0"),
        ("cron", "Europe/Berlin|2026-06-01T09:30:00|0"),
    ]
    assert proven(runtime) == {"owed": 3, "accounted": 3, "pending": 0, "missing": 0, "doubled": 0}


def test_a_period_begins_at_the_tick_before_whichever_trigger_that_was(runtime: Runtime) -> None:
    runtime.go_to("2026-06-01T06:59")
    runtime.apply(several(cron=("0 9 * * *", "30 9 * * *")))
    runtime.tick_at("2026-06-01T07:00", "2026-06-01T07:30")
    first, second = runtime.runs("s")
    assert second.period_start_us == first.tick_us


@pytest.mark.parametrize("missed", ["skip", "coalesce", "replay"])
def test_a_week_off_over_a_clock_change_is_accounted_for(runtime: Runtime, missed: str) -> None:
    runtime.go_to("2026-03-25T12:00")
    runtime.apply(several(cron=("*/15 * * * *", "30 2 * * *"), at=("2026-03-29T00:37:00Z",), missed=missed))
    runtime.tick_at("2026-04-01T12:01")
    totals = proven(runtime)
    assert totals["owed"] == 7 * 96 + 1 + 4  # the last are slots that do not exist on the 29th


def test_a_fold_fires_each_expression_by_its_own_policy(runtime: Runtime) -> None:
    runtime.go_to("2026-10-24T22:00")
    runtime.apply(several(cron=("30 * * * *", "45 2 * * *")))
    for minute in ("00:30", "00:45", "01:30", "01:45"):
        runtime.tick_at(f"2026-10-25T{minute}")
    slots = [run.occurrence for run in runtime.runs("s") if run.occurrence and "T02" in run.occurrence]
    assert [one.partition("|")[2] for one in slots] == [
        "2026-10-25T02:30:00|0",
        "2026-10-25T02:45:00|0",
        "2026-10-25T02:30:00|1",
    ]
    proven(runtime)


def test_an_edit_that_adds_a_trigger_fires_nothing_again_and_loses_nothing(runtime: Runtime) -> None:
    runtime.go_to("2026-06-01T06:59")
    runtime.apply(several(cron="0 * * * *"))
    runtime.tick_at("2026-06-01T07:00")
    runtime.go_to("2026-06-01T07:10")
    known = runtime.definitions["default"]["s"]
    runtime.apply(replace(known, cron=("0 * * * *", "5 * * * *", "20 * * * *"), at=("2026-06-01T07:08:00Z",)))
    runtime.tick_at("2026-06-01T07:20", "2026-06-01T08:00")
    assert [run.occurrence for run in runtime.runs("s")] == [
        f"Europe/Berlin|2026-06-01T{time}:00|0" for time in ("09:00", "09:20", "10:00")
    ]
    runtime.apply(replace(known, cron="0 * * * *", at=()))
    proven(runtime)


def test_a_list_of_instants_that_was_written_a_moment_too_late_still_runs(runtime: Runtime) -> None:
    runtime.go_to("2026-06-01T07:00:20")
    runtime.apply(several(at=("2026-06-01T06:00:00Z", "2026-06-01T07:00:00Z", "2026-06-01T07:10:00Z")))
    runtime.tick()
    runtime.tick_at("2026-06-01T07:10", "2026-06-01T07:20")
    assert [run.tick_us for run in runtime.runs("s")] == [
        int(at(text).timestamp() * 1e6) for text in ("2026-06-01T07:00", "2026-06-01T07:10")
    ]
    assert runtime.schedule("s")["due_us"] is None
    proven(runtime)
