"""What a new tzdata does to a cursor."""

from datetime import datetime, timedelta

import pytest

from fencepost.model.tzdata_shift import REACH, Noted, shifted
from fencepost.model.tzif import Footer, ZoneFile
from fencepost.model.zone import Zone, find_zone
from tests.support.runtime import at

CURSOR = at("2027-01-15T09:00:00")
HOUR = timedelta(hours=1)


def zone(hours: float) -> Zone:
    return Zone("Nowhere/Town", ZoneFile(round(hours * 3600), (), Footer()))


def wall(hours: float) -> datetime:
    """Return what the wall showed at the cursor, so many hours ahead of UTC."""
    return (CURSOR + hours * HOUR).replace(tzinfo=None)


def test_the_same_wall_is_no_shift() -> None:
    assert shifted(zone(2), CURSOR, wall_was=wall(2)).cursor == CURSOR
    assert shifted(zone(2), CURSOR, wall_was=wall(2)).lost is None


@pytest.mark.parametrize("hours", [0.25, 1, 3, 20])
def test_a_wall_that_is_ahead_now_has_slots_behind_the_cursor_that_nobody_saw(hours: float) -> None:
    shift = shifted(zone(hours), CURSOR, wall_was=wall(0))
    assert shift.cursor == CURSOR
    assert shift.lost is not None
    assert shift.lost.start == CURSOR - hours * HOUR + timedelta(seconds=1), "the second after the last one seen"
    assert shift.lost.end == CURSOR + timedelta(microseconds=1)


@pytest.mark.parametrize("hours", [0.25, 1, 3, 20])
def test_a_wall_that_is_behind_now_has_its_cursor_moved_past_what_was_seen(hours: float) -> None:
    shift = shifted(zone(0), CURSOR, wall_was=wall(hours))
    assert shift.cursor == CURSOR + hours * HOUR
    assert shift.lost is None


def test_nothing_reaches_further_than_two_days() -> None:
    back = shifted(zone(0), CURSOR, wall_was=datetime(2020, 1, 1))
    assert back.lost is not None
    assert back.lost.start == CURSOR - REACH
    assert shifted(zone(0), CURSOR, wall_was=datetime(2030, 1, 1)).cursor == CURSOR + REACH


def test_a_time_that_the_new_wall_shows_twice_or_never_is_no_stumbling_block() -> None:
    berlin = find_zone("Europe/Berlin")
    fold, gap = at("2026-10-25T01:30:00"), at("2027-03-28T01:30:00")
    assert shifted(berlin, fold, wall_was=datetime(2026, 10, 25, 2, 30)).cursor == fold
    again = shifted(berlin, fold - HOUR, wall_was=datetime(2026, 10, 25, 2, 45))
    assert again.cursor == fold - HOUR + timedelta(minutes=15)
    lost = shifted(berlin, gap, wall_was=datetime(2027, 3, 28, 2, 30)).lost
    assert lost is not None
    assert lost.start == at("2027-03-28T01:00:00")


def test_a_note_is_read_back_as_it_was_written() -> None:
    noted = Noted(17, "2026a", datetime(2027, 1, 15, 9, 0, 0, 5))
    assert Noted.parse(str(noted)) == noted
    assert Noted.parse(None) is Noted.parse("") is Noted.parse("nonsense") is None
