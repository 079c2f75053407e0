"""Blackout calendars: dates, ranges and weekly windows, as the wall shows them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model.calendar import Calendar
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant, parse_instant
from fencepost.model.trigger import cron_trigger
from fencepost.model.zone import find_zone
from tests.model.brute_force import zoneinfo_of

BERLIN = find_zone("Europe/Berlin")
ENTRIES = [
    "2026-12-25",
    "2026-12-24..2027-01-02",
    "SAT-SUN",
    "MON-FRI 22:00-06:00",
    "FRI 18:00..MON 06:00",
    "SUN 02:00-03:00",
]


def covering(entry: str, at: str) -> bool:
    return Calendar.parse([entry], BERLIN).covering(parse_instant(at)) == entry


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        ("2026-12-25", "2026-12-24T23:00:00Z", "2026-12-25T23:00:00Z"),
        ("2026-12-24..2027-01-02", "2027-01-02T22:59:59Z", "2027-01-02T23:00:00Z"),
        ("SAT-SUN", "2026-01-03T12:00:00Z", "2026-01-05T12:00:00Z"),
        ("SUN", "2026-01-04T12:00:00Z", "2026-01-03T12:00:00Z"),
        ("fri-mon", "2026-01-05T12:00:00Z", "2026-01-06T12:00:00Z"),
        ("MON-FRI 22:00-06:00", "2026-01-03T04:59:59Z", "2026-01-04T22:00:00Z"),
        ("MON-FRI 09:00-17:00", "2026-01-05T08:00:00Z", "2026-01-05T16:00:00Z"),
        ("FRI 18:00..MON 06:00", "2026-01-04T12:00:00Z", "2026-01-05T05:00:00Z"),
        ("FRI 18:00..MON 06:00", "2026-01-02T17:00:00Z", "2026-01-02T16:59:59Z"),
        ("SUN 00:00-24:00", "2026-01-04T22:59:59Z", "2026-01-04T23:00:00Z"),
    ],
)
def test_an_entry_covers_wall_time_half_open(entry: str, inside: str, outside: str) -> None:
    assert covering(entry, inside)
    assert not covering(entry, outside)


def test_an_hour_that_happens_twice_is_blacked_out_twice() -> None:
    calendar = Calendar.parse(["2026-10-25"], BERLIN)
    ((start, end),) = calendar.closed(parse_instant("2026-10-01T00:00:00Z"), parse_instant("2026-11-01T00:00:00Z"))
    assert end - start == timedelta(hours=25)


def test_overlapping_entries_close_one_stretch() -> None:
    calendar = Calendar.parse(["2026-01-02", "2026-01-03..2026-01-04", "SAT-SUN"], find_zone("UTC"))
    closed = calendar.closed(parse_instant("2026-01-01T00:00:00Z"), parse_instant("2026-01-08T00:00:00Z"))
    assert [tuple(map(format_instant, pair)) for pair in closed] == [("2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z")]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(ENTRIES), max_size=3),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 2, 1), timezones=st.just(UTC)),
)
def test_closed_stretches_hold_exactly_the_covered_ticks(entries: list[str], start: datetime) -> None:
    end = start + timedelta(days=20)
    calendar = Calendar.parse(entries, BERLIN)
    trigger = cron_trigger("*/20 * * * *", "Europe/Berlin")
    covered = sum(calendar.covering(at) is not None for at in trigger.instants(start, end))
    assert covered == sum(trigger.count_between(*stretch) for stretch in calendar.closed(start, end))


def test_weekends_agree_with_the_library_for_a_year() -> None:
    calendar = Calendar.parse(["SAT-SUN"], BERLIN)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    while at.year == 2026:
        assert (calendar.covering(at) is not None) is (at.astimezone(zoneinfo_of("Europe/Berlin")).weekday() >= 5)
        at += timedelta(hours=1)


@pytest.mark.parametrize(
    "entry", ["", "someday", "2026-13-01", "2026-01-02..2026-01-01", "MON 25:00-26:00", "MON 10:60-11:00", "MONDAY"]
)
def test_what_is_no_entry_is_refused_with_examples(entry: str) -> None:
    with pytest.raises(Invalid):
        Calendar.parse([entry], BERLIN)
