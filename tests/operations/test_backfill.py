"""A backfill makes up for a range of ticks: bounded, in order, by the rules of their day, once under its name."""

from datetime import timedelta
from typing import Any

import pytest

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Busy, Invalid
from fencepost.operations.backfill import Backfilled, backfill
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import Runtime, at, new_id, together, us


def fill(runtime: Runtime, from_: str, until: str, **options: Any) -> Backfilled:  # noqa: ANN401  # of the backfill
    drawn = options.pop("new_run_id", new_id)
    store = options.pop("store", runtime.store)
    schedule = options.pop("schedule", "s")
    return backfill(
        store,
        tenant="default",
        schedule=schedule,
        from_=at(f"2027-01-{from_}"),
        until=at(f"2027-01-{until}"),
        new_run_id=drawn,
        by="ada",
        **options,
    )


def hourly(runtime: Runtime, **fields: Any) -> None:  # noqa: ANN401  # of the definition
    """Let an hourly schedule sleep from eight to thirty past noon."""
    runtime.cron(cron="0 * * * *", **fields)
    runtime.tick()
    runtime.tick_at("2027-01-15T12:30:00")
    assert runtime.kinds() == ["missed"]


def test_every_tick_of_the_range_gets_a_run_in_order(runtime: Runtime) -> None:
    hourly(runtime)
    made = fill(runtime, "15T09:00:00", "15T12:00:00")
    runs = runtime.runs()
    assert (made.ticks, list(made.run_ids)) == (3, [run.id for run in runs])
    assert [run.tick_us for run in runs] == [us(f"2027-01-15T{hour}:00:00") for hour in ("09", "10", "11")]
    assert {run.trigger for run in runs} == {"backfill"}
    assert [run.period_start_us for run in runs] == [us(f"2027-01-15T{hour}:00:00") for hour in ("08", "09", "10")]
    assert runtime.ticks() == [("2027-01-15T09:00:00", 4, "missed")], "the ticks keep what became of them"


def test_runs_are_staggered_and_first_in_first_out(runtime: Runtime) -> None:
    hourly(runtime, stagger="5m")
    fill(runtime, "15T09:00:00", "15T12:00:00")
    now = runtime.rig.now_us()
    assert [run.ready_us - now for run in runtime.runs()] == [0, 300_000_000, 600_000_000]
    runtime.pass_time(3600)
    order = []
    while leased := runtime.lease():
        order.append(leased.run.tick_us or 0)
        runtime.settle(leased)
    assert order == sorted(order)
    assert len(order) == 3


def test_without_a_stagger_the_oldest_tick_goes_first_all_the_same(runtime: Runtime) -> None:
    hourly(runtime)
    drawn = iter(["r2", "r3", "r1"])
    fill(runtime, "15T09:00:00", "15T12:00:00", stagger=timedelta(0), new_run_id=lambda: next(drawn))
    order = [runtime.work().run.tick_us or 0 for _ in range(3)]
    assert order == sorted(order)


def test_one_after_the_other_under_forbid(runtime: Runtime) -> None:
    hourly(runtime)
    fill(runtime, "15T09:00:00", "15T12:00:00", stagger=timedelta(0))
    runtime.leased()
    assert runtime.lease() is None


def test_the_same_backfill_again_adds_only_what_is_missing(runtime: Runtime) -> None:
    hourly(runtime)
    fill(runtime, "15T09:00:00", "15T11:00:00", name="repair")
    again = fill(runtime, "15T09:00:00", "15T12:30:00", name="repair")
    assert (again.ticks, len(again.run_ids), again.known) == (4, 2, 2)
    assert len(runtime.runs()) == 4
    assert fill(runtime, "15T09:00:00", "15T12:30:00", name="repair").run_ids == ()
    assert [run.requests for run in runtime.runs()] == [3, 3, 2, 2]


def test_another_backfill_makes_its_own_runs_with_their_own_keys(runtime: Runtime) -> None:
    hourly(runtime)
    fill(runtime, "15T09:00:00", "15T11:00:00", name="one")
    fill(runtime, "15T09:00:00", "15T11:00:00", name="two")
    assert len({run.idempotency_key for run in runtime.runs()}) == 4


def test_the_same_backfill_asked_for_by_many_at_once_is_made_once(runtime: Runtime) -> None:
    hourly(runtime)
    stores = [runtime.another() for _ in range(6)]

    def fills(store: RuntimeStore) -> None:
        fill(runtime, "15T09:00:00", "15T12:00:00", store=store)

    together(fills, stores)
    assert len(runtime.runs()) == 3


def test_each_tick_runs_with_the_version_that_was_in_force_then(runtime: Runtime) -> None:
    runtime.cron(cron="0 * * * *")
    runtime.tick()
    runtime.tick_at("2027-01-15T10:30:00")
    runtime.apply(AgentDefinition("agent", command=("second",)))
    runtime.tick_at("2027-01-15T12:30:00")
    fill(runtime, "15T08:00:00", "15T13:00:00")
    assert [(run.version, "second" in run.manifest) for run in runtime.runs()] == [
        (1, False),
        (1, False),
        (2, True),
        (2, True),
    ]
    assert len({run.manifest_hash for run in runtime.runs()}) == 2


def test_an_expression_that_was_another_one_then_gives_the_ticks_of_then(runtime: Runtime) -> None:
    runtime.cron(cron="0 * * * *")
    runtime.tick()
    runtime.tick_at("2027-01-15T10:30:00")
    runtime.cron(cron="45 * * * *")
    runtime.tick_at("2027-01-15T12:30:00")
    fill(runtime, "15T08:00:00", "15T13:00:00")
    ticks = ["09:00", "10:00", "10:45", "11:45"]
    assert [run.tick_us for run in runtime.runs()] == [us(f"2027-01-15T{tick}:00") for tick in ticks]


def test_with_current_the_rules_of_today_hold_for_all_of_it(runtime: Runtime) -> None:
    runtime.cron(cron="0 * * * *")
    runtime.tick()
    made = fill(runtime, "14T00:00:00", "14T03:00:00", current=True)
    assert len(made.run_ids) == 3
    assert fill(runtime, "14T00:00:00", "14T03:00:00").ticks == 0, "it did not exist then"


def test_nothing_beyond_the_cursor_is_filled(runtime: Runtime) -> None:
    hourly(runtime)
    runtime.go_to("2027-01-15T15:30:00")
    assert fill(runtime, "15T12:00:00", "15T15:00:00").ticks == 1


def test_too_many_are_refused_with_their_number(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-16T08:00:00")
    before = runtime.contents()
    with pytest.raises(Invalid, match="1,440 ticks"):
        fill(runtime, "15T08:00:00", "16T09:00:00")
    with pytest.raises(Invalid, match="more than 5"):
        fill(runtime, "15T08:00:00", "15T09:00:00", limit=5)
    assert runtime.contents() == before


def test_a_line_that_would_be_too_long_is_refused_before_anything_is_made(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-16T08:00:00")
    assert len(fill(runtime, "15T08:00:00", "15T18:00:00").run_ids) == 599
    before = runtime.contents()
    with pytest.raises(Busy, match="would wait behind"):
        fill(runtime, "15T18:00:00", "16T04:00:00")
    assert runtime.contents() == before
    assert fill(runtime, "15T08:00:00", "15T18:00:00").known == 599, "asking for the same again is no new line"


def test_budgets_hold_for_backfills(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), budget_usd="1"))
    hourly(runtime, budget_usd_per_day="2")
    with pytest.raises(Busy, match="over its budget"):
        fill(runtime, "15T09:00:00", "15T12:00:00")
    assert len(fill(runtime, "15T09:00:00", "15T11:00:00").run_ids) == 2


def test_what_has_no_ticks_beforehand_is_refused(runtime: Runtime) -> None:
    runtime.every("e")
    for schedule, why in (("e", "not known beforehand"), ("agent", "is an agent"), ("ee", "did you mean schedule 'e'")):
        with pytest.raises(Invalid, match=why):
            fill(runtime, "15T08:00:00", "15T09:00:00", schedule=schedule)
    with pytest.raises(Invalid, match="swap them"):
        fill(runtime, "15T09:00:00", "15T08:00:00", schedule="e")


def test_a_missed_one_shot_can_be_filled(runtime: Runtime) -> None:
    runtime.apply(ScheduleDefinition("s", "agent", at="2027-01-15T09:00:00Z"))
    runtime.tick_at("2027-01-15T12:00:00")
    assert len(fill(runtime, "15T08:00:00", "15T10:00:00").run_ids) == 1
