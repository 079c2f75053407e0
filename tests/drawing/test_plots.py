"""Small plots tell every figure that they are given, on the day on which it was."""

from datetime import UTC
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
    percentile,
    queue_depth,
    starts,
)
from fencepost.ports.charts import AttemptFact, SpanFact, TickBin

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
START = 1_804_982_400_000_000  # a midnight in UTC
NOW = START + 30 * DAY
BUCKETS = by_day(START, NOW, UTC)
SPANS = st.lists(
    st.builds(
        lambda at, took, cost, state: SpanFact(START + at, START + at, START + at + took, cost, state),
        st.integers(0, 30 * DAY - 1),
        st.integers(0, 20 * HOUR),
        st.none() | st.integers(0, 10**8),
        st.sampled_from(("succeeded", "dead", "cancelled")),
    ),
    max_size=60,
)


@given(SPANS)
def test_money_is_neither_lost_nor_made(spans: list[SpanFact]) -> None:
    plot = costs(spans, BUCKETS)
    drawn = sum(part.value for column in plot.columns for part in column.parts)
    assert drawn == pytest.approx(sum(one.cost_micro or 0 for one in spans) / SECOND)


@given(SPANS)
def test_every_column_stays_below_the_end_of_its_axis(spans: list[SpanFact]) -> None:
    for plot in (costs(spans, BUCKETS), outcomes(spans, BUCKETS), durations(spans, BUCKETS)):
        assert [step.place for step in plot.steps][:: len(plot.steps) - 1] == [0.0, 1.0]
        assert len(plot.columns) == 30
        for column in plot.columns:
            assert all(0 <= part.low <= part.high <= 1 + 1e-9 for part in column.parts)
            assert all(before.high == after.low for before, after in zip(column.parts, column.parts[1:], strict=False))


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_percentile_was_measured_and_rises(values: list[float]) -> None:
    assert percentile(values, 50) in values
    assert min(values) <= percentile(values, 50) <= percentile(values, 95) <= max(values)


def test_half_of_ten_are_below_the_median_and_durations_have_a_unit() -> None:
    assert (percentile([*range(1, 11)], 50), percentile([*range(1, 11)], 95)) == (5, 10)
    spans = [SpanFact(START, START, START + minutes * 60 * SECOND, None, "succeeded") for minutes in range(1, 11)]
    plot = durations(spans, BUCKETS)
    assert plot.unit == "min"
    assert "10 ended; p50 5 min, p95 10 min" in plot.columns[0].told


def test_a_day_is_the_schedules_own() -> None:
    berlin = by_day(START, NOW, ZoneInfo("Europe/Berlin"))
    late = SpanFact(START + 23 * HOUR + HOUR // 2, START, START, 5, "succeeded")  # half past midnight there
    (day,) = [at for at, column in enumerate(costs([late], berlin).columns) if column.parts]
    assert berlin.names[day] == berlin.names[berlin.find(START + DAY) or 0]


def test_ticks_are_counted_by_what_became_of_them() -> None:
    bins = [
        TickBin("a", "run", 0, 7),
        TickBin("b", "run", 0, 2),
        TickBin("a", "missed", 29, 3),
        TickBin("a", "run", 31, 1),
    ]
    plot = dispositions(bins, BUCKETS, ("run", "missed"))
    assert [(part.kind, part.value) for column in plot.columns for part in column.parts] == [("run", 9), ("missed", 3)]


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
    assert depth[-6:] == [0, 2, 1, 1, 1, 1][-6:] or depth[hours.find(NOW - 3 * HOUR - HOUR // 2) or 0] == 2
    assert depth[hours.find(NOW - 30 * 60 * SECOND) or 0] == 1


def test_an_attempt_after_a_lost_one_is_a_takeover() -> None:
    facts = [fact("r1", -3, -2.5, outcome="lost"), fact("r1", -3, -2.4, number=2), fact("r2", -2, -1.5)]
    plot = starts(facts, by_hour(NOW, 24))
    total: dict[str, float] = {}
    for column in plot.columns:
        for part in column.parts:
            total[part.kind] = total.get(part.kind, 0) + part.value
    assert total == {"start": 2, "takeover": 1}
