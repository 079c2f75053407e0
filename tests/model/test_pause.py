import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.missed import INSTANT
from fencepost.model.pause import Pause, SkipNext, failures_after, pause, pause_on_failure, resume
from fencepost.model.run import RunState
from tests.model.tick_sources import at


def test_a_pause_until_a_time_is_over_at_that_time() -> None:
    paused = pause(at(0), until=at(60), note="the vendor is down")

    assert paused.covers(at(0))
    assert paused.covers(at(60) - INSTANT)
    assert not paused.covers(at(60))
    assert pause(at(0)).covers(at(10**9))


def test_a_pause_until_the_past_is_refused() -> None:
    with pytest.raises(Invalid, match="not in the future"):
        pause(at(10), until=at(10))


@given(st.integers(0, 100), st.integers(-50, 200))
def test_resuming_never_lengthens_a_pause(until: int, now: int) -> None:
    ended = resume(Pause(at(0), at(until)), at(now))

    assert at(0) <= ended.until <= at(until)
    assert not ended.covers(max(at(now), at(0)))


@pytest.mark.parametrize(("failures", "pauses"), [(2, False), (3, True), (4, True)])
def test_a_schedule_pauses_itself_after_enough_failures(failures: int, pauses: bool) -> None:  # noqa: FBT001
    assert (pause_on_failure(failures, limit=3, now=at(0)) is not None) == pauses
    assert pause_on_failure(failures, limit=None, now=at(0)) is None


def test_failures_count_in_a_row() -> None:
    failures = 0
    for ended, expected in [
        (RunState.DEAD, 1),
        (RunState.CANCELLED, 1),
        (RunState.DEAD, 2),
        (RunState.SUCCEEDED, 0),
        (RunState.DEAD, 1),
    ]:
        failures = failures_after(failures, ended)
        assert failures == expected


@pytest.mark.parametrize("wrong", [-1, 1001])
def test_skipping_too_many_ticks_is_refused_with_a_better_way(wrong: int) -> None:
    with pytest.raises(Invalid, match="pause the schedule"):
        SkipNext(at(0), wrong)
