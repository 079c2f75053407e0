"""Scales keep the order of time, and their labels are round, few and inside."""

from datetime import UTC
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from fencepost.drawing.scale import DAY, SECOND_US, TimeScale, days, round_up, steps_up_to
from fencepost.operations.chart import SPANS

INSTANTS = st.integers(1_600_000_000_000_000, 2_000_000_000_000_000)
LENGTHS = st.integers(3_600_000_000, 30 * DAY * SECOND_US)


@given(INSTANTS, LENGTHS, st.lists(INSTANTS, min_size=2, max_size=2))
def test_what_is_later_lies_further_right_and_nothing_lies_outside(start: int, length: int, pair: list[int]) -> None:
    scale = TimeScale(start, start + length)
    first, second = sorted(pair)
    assert 0 <= scale.place(first) <= scale.place(second) <= 1
    assert scale.holds(first) == (0 <= scale.place(first) < 1 and start <= first < start + length)


@given(INSTANTS, LENGTHS, st.integers(3, 12))
def test_labels_are_few_in_order_and_inside(start: int, length: int, most: int) -> None:
    labels = TimeScale(start, start + length).labels(most)
    assert len(labels) <= most + 1
    assert [one.place for one in labels] == sorted(one.place for one in labels)
    assert all(0 <= one.place <= 1 and one.text for one in labels)


def test_every_span_that_is_offered_has_labels_whenever_it_begins() -> None:
    for span in SPANS.values():
        length = round(span.total_seconds() * SECOND_US)
        for start in range(1_800_000_000_000_000, 1_800_000_000_000_000 + 3 * DAY * SECOND_US, 7 * 3600 * SECOND_US):
            assert TimeScale(start, start + length).labels()


@given(st.floats(0.000_01, 1e9))
def test_a_rounded_number_is_easy_to_read_and_not_much_larger(value: float) -> None:
    rounded = round_up(value)
    assert value * (1 - 1e-9) <= rounded <= value * 2.5 * (1 + 1e-9)
    assert f"{rounded:.1e}"[0] in "125"


@given(st.floats(0, 1e9), st.booleans())
def test_an_axis_begins_at_nothing_and_ends_above_the_largest(most: float, whole: bool) -> None:  # noqa: FBT001
    steps = steps_up_to(most, whole=whole)
    assert steps[0] == 0
    assert steps[-1] >= most * (1 - 1e-9)
    assert 2 <= len(steps) <= 6
    assert not whole or all(step == int(step) for step in steps)


def test_a_day_on_which_clocks_change_is_one_day() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start = 1_806_102_000_000_000  # 2027-03-27T00:00 in Berlin is 23:00 before
    found = list(days(start, start + 4 * DAY * SECOND_US, berlin))
    lengths = [(after - before) / 3600 / SECOND_US for (before, _), (after, _) in pairwise(found)]
    assert 23 in lengths
    assert set(lengths) <= {23.0, 24.0}
    assert [day.day for _, day in days(0, DAY * SECOND_US, UTC)] == [1]
