"""A clock that was set is told from one that merely took long to answer."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.clock_jump import JUMP_MIN_US, ClockReading, jump_between

SECOND_US = 1_000_000
FIRST = ClockReading(store_us=7_000 * SECOND_US, before_ns=1_000, after_ns=2_000)


def later(*, moved_us: int, took_us: int, asked_us: int = 0) -> ClockReading:
    before_ns = FIRST.after_ns + took_us * 1000
    return ClockReading(FIRST.store_us + moved_us, before_ns, before_ns + asked_us * 1000)


def test_an_hour_ahead_and_an_hour_back_are_told_with_their_size() -> None:
    hour = 3600 * SECOND_US
    assert jump_between(FIRST, later(moved_us=5 * SECOND_US + hour, took_us=5 * SECOND_US)) // SECOND_US == 3599
    assert jump_between(FIRST, later(moved_us=5 * SECOND_US - hour, took_us=5 * SECOND_US)) == -hour


@given(st.integers(0, 10**10), st.integers(0, 10**9), st.integers(-JUMP_MIN_US, JUMP_MIN_US))
def test_however_long_the_answer_took_a_clock_that_went_on_did_not_jump(
    took_us: int, asked_us: int, off_us: int
) -> None:
    """It showed its time at some moment while we asked, a little off at most."""
    for share in (0, asked_us // 2, asked_us):
        assert jump_between(FIRST, later(moved_us=took_us + share + off_us, took_us=took_us, asked_us=asked_us)) == 0


@given(st.integers(0, 10**10), st.integers(0, 10**7), st.integers(20 * SECOND_US, 10**12), st.sampled_from([1, -1]))
def test_a_jump_of_more_than_the_answer_took_is_always_told(took_us: int, asked_us: int, size: int, way: int) -> None:
    found = jump_between(FIRST, later(moved_us=took_us + way * size, took_us=took_us, asked_us=asked_us))
    assert found * way > 0
    assert abs(found) >= size - asked_us - 1
