"""Small plots tell every figure that they are given, on the day on which it was."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.drawing.plots import (
    by_day,
    by_hour,
    costs,
    dispositions,
    durations,
    outcomes,
    queue_depth,
    starts,
)
from fencepost.ports.charts import AttemptFact, DayFact, TickBin

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
START = 1_804_982_400_000_000  # a midnight in UTC
NOW = START + 30 * DAY
BUCKETS = by_day(START, NOW, UTC)
DAYS = st.lists(
    st.builds(
        lambda day, good, cancelled, dead, p50, more, cost: DayFact(day, good, cancelled, dead, p50, p50 + more, cost),
        st.integers(0, 29),
        *[st.integers(0, 900)] * 3,
        st.integers(0, 20 * HOUR),
        st.integers(0, 20 * HOUR),
        st.integers(0, 10**8),
    ),
    unique_by=lambda one: one.day,
)


@given(DAYS)
def test_money_is_neither_lost_nor_made(facts: list[DayFact]) -> None:
    plot = costs(facts, BUCKETS)
    drawn = sum(part.value for column in plot.columns for part in column.parts)
    assert drawn == pytest.approx(sum(one.cost_micro for one in facts) / SECOND)


@given(DAYS)
def test_every_column_stays_below_the_end_of_its_axis(facts: list[DayFact]) -> None:
    for plot in (costs(facts, BUCKETS), outcomes(facts, BUCKETS), durations(facts, BUCKETS)):
        assert [step.place for step in plot.steps][:: len(plot.steps) - 1] == [0.0, 1.0]
        assert len(plot.columns) == 30
        for column in plot.columns:
            assert all(0 <= part.low <= part.high <= 1 + 1e-9 for part in column.parts)
            assert all(before.high == after.low for before, after in zip(column.parts, column.parts[1:], strict=False))


def test_durations_have_a_unit_and_a_day_on_which_nothing_ended_says_so() -> None:
    plot = durations(
        [DayFact(0, 7, 1, 2, 300.0 * SECOND, 600.0 * SECOND, 0), DayFact(1, 0, 0, 0, None, None, 0)], BUCKETS
    )
    assert plot.unit == "min"
    assert "10 ended; p50 5 min, p95 10 min" in plot.columns[0].told
    assert [one.told.partition(": ")[2] for one in plot.columns[1:]] == ["no run ended"] * 29


def test_ticks_are_counted_by_what_became_of_them() -> None:
    bins = [
        TickBin(0, "run", 9),
        TickBin(29, "missed", 3),
        TickBin(31, "run", 1),
    ]
    plot = dispositions(bins, BUCKETS, ("run", "missed"))
    assert [(part.kind, part.value) for column in plot.columns for part in column.parts] == [("run", 9), ("missed", 3)]


def test_an_axis_is_as_high_as_what_is_drawn_and_not_as_what_is_left_out() -> None:
    plot = dispositions([TickBin(3, "run", 900), TickBin(3, "missed", 3)], BUCKETS, ("missed",))
    assert plot.steps[-1].text == "3"


def fact(
    run: str, made: float, began: float | None, *, number: int | None = 1, outcome: str | None = None
) -> AttemptFact:
    started = None if began is None else NOW + round(began * HOUR)
    row = (run, "s", "a", None, "running", None, NOW + round(made * HOUR), None, False, None)
    return AttemptFact(*row, number, 1, "w:1", started, None, outcome, None)


def test_the_queue_is_as_deep_as_at_its_deepest_moment() -> None:
    hours = by_hour(NOW, 24)
    facts = [fact("r1", -3.5, -2.5), fact("r2", -3.2, -3.1), fact("r3", -1, None, number=None)]
    depth = [sum(part.value for part in one.parts) for one in queue_depth(facts, hours, NOW).columns]
    assert depth[-6:] == [0, 2, 1, 0, 1, 1], "the last one begins now"


def test_an_attempt_after_a_lost_one_is_a_takeover() -> None:
    facts = [fact("r1", -3, -2.5, outcome="lost"), fact("r1", -3, -2.4, number=2), fact("r2", -2, -1.5)]
    plot = starts(facts, by_hour(NOW, 24))
    total: dict[str, float] = {}
    for column in plot.columns:
        for part in column.parts:
            total[part.kind] = total.get(part.kind, 0) + part.value
    assert total == {"start": 2, "takeover": 1}


@pytest.mark.parametrize(("date", "hours"), [("2027-03-28", 23), ("2027-10-31", 25), ("2027-10-30", 24)])
def test_the_last_day_is_as_long_as_its_clock_says(date: str, hours: int) -> None:
    noon = datetime.fromisoformat(f"{date}T12:00").replace(tzinfo=ZoneInfo("Europe/Berlin"))
    noon_us = round(noon.timestamp() * SECOND)
    edges = by_day(noon_us - 3 * DAY, noon_us + 1, ZoneInfo("Europe/Berlin")).edges
    assert edges[-1] - edges[-2] == hours * HOUR


@pytest.mark.parametrize(
    ("dollars", "axis"),
    [(9.5, ["$0", "$5", "$10"]), (4.0, ["$0", "$2", "$4"]), (0.6, ["$0.00", "$0.20", "$0.40", "$0.60"])],
)
def test_an_axis_of_money_has_cents_everywhere_or_nowhere(dollars: float, axis: list[str]) -> None:
    plot = costs([DayFact(0, 1, 0, 0, None, None, round(dollars * SECOND))], BUCKETS)
    assert [step.text for step in plot.steps] == axis
