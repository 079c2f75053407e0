"""Zones: from the tzdata package, exact in every year, and refused with a hint where they are none."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.instants import to_instant
from fencepost.model.tzif import read_footer
from fencepost.model.zone import DAWN, DUSK, Segment, find_zone, tzdata_version, zone_names
from tests.model.brute_force import EPOCH, distinct_zones, jumps, offset_at, zoneinfo_of

SECOND = timedelta(seconds=1)
YEAR = 31_556_952


def seconds(at: datetime) -> int:
    return (at - EPOCH) // SECOND


def segments(name: str, year_first: int, year_last: int) -> list[Segment]:
    start, end = (seconds(datetime(year, 1, 1, tzinfo=UTC)) for year in (year_first, year_last))
    return list(find_zone(name).segments(start, end))


def test_every_name_of_the_package_loads() -> None:
    assert len(zone_names()) > 500
    for name in zone_names():
        assert find_zone(name).name == name


def test_every_jump_from_1990_to_2037_is_found_to_the_second_in_every_zone() -> None:
    for name in distinct_zones():
        ours = [to_instant(segment.begins) for segment in segments(name, 1990, 2038)[1:]]
        assert list(jumps(zoneinfo_of(name), 1990, 2037)) == ours, name


def test_every_offset_from_1900_to_2200_agrees_with_zoneinfo_in_every_zone() -> None:
    for name in distinct_zones():
        zone = zoneinfo_of(name)
        for segment in segments(name, 1900, 2200):
            first = max(segment.begins, -2_208_988_800)
            last = min(segment.ends, 7_258_118_400) - 1
            for utc in (first, first + (last - first) // 3, last):
                assert offset_at(zone, to_instant(utc)) == timedelta(seconds=segment.offset), (name, utc)


@settings(deadline=None)
@given(st.sampled_from(distinct_zones()), st.integers(min_value=-60_000_000_000, max_value=250_000_000_000))
def test_any_instant_of_any_zone_has_the_offset_that_zoneinfo_gives(name: str, utc: int) -> None:
    assert offset_at(zoneinfo_of(name), to_instant(utc)) == timedelta(seconds=find_zone(name).segment_at(utc).offset)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Tokyo", "Africa/Casablanca", "UTC"])
def test_segments_cover_all_time_without_overlap_and_remember_their_neighbours(name: str) -> None:
    row = list(find_zone(name).segments(DAWN, DUSK))
    assert row[0].begins == DAWN
    assert row[-1].ends == DUSK
    for earlier, later in pairwise(row):
        assert earlier.ends == later.begins
        assert (earlier.after, later.before) == (later.offset, earlier.offset)


def test_segments_read_backwards_are_the_same_segments() -> None:
    zone = find_zone("America/New_York")
    end = seconds(datetime(2300, 1, 1, tzinfo=UTC))
    assert list(zone.segments(DAWN, end))[::-1] == list(zone.segments_back(end))


def test_no_zone_jumps_twice_within_a_few_days() -> None:
    """The policies look only at neighbouring segments; this is why that is enough."""
    for name in distinct_zones():
        for segment in list(find_zone(name).segments(DAWN, 120 * YEAR))[1:-1]:
            widths = abs(segment.offset - segment.before) + abs(segment.after - segment.offset)
            assert segment.ends - segment.begins > widths + 2 * 86_400, name


def test_summer_time_that_runs_backwards_is_an_ordinary_gap_in_dublin() -> None:
    march = find_zone("Europe/Dublin").segment_at(seconds(datetime(2026, 3, 29, 1, 0, tzinfo=UTC)))
    assert march.begins == seconds(datetime(2026, 3, 29, 1, 0, tzinfo=UTC))
    assert march.gap[1] - march.gap[0] == 3600


def test_apia_jumps_over_a_whole_day_in_2011() -> None:
    jump = find_zone("Pacific/Apia").segment_at(seconds(datetime(2011, 12, 30, 10, 0, tzinfo=UTC)))
    assert jump.gap[1] - jump.gap[0] == 86_400


def test_lord_howe_jumps_half_an_hour_and_troll_two_hours() -> None:
    widths = {
        name: {segment.gap[1] - segment.gap[0] for segment in segments(name, 2026, 2030)[1:]} - {0}
        for name in ("Australia/Lord_Howe", "Antarctica/Troll")
    }
    assert widths == {"Australia/Lord_Howe": {1800}, "Antarctica/Troll": {7200}}


def test_rules_beyond_the_tables_go_on_to_the_year_9998() -> None:
    zone = find_zone("Europe/Berlin")
    summer = seconds(datetime(9998, 7, 1, tzinfo=UTC))
    assert zone.segment_at(summer).offset == 7200
    assert zone.segment_at(summer - YEAR // 2).offset == 3600


def test_a_wall_time_has_no_instant_in_a_gap_and_two_in_a_fold() -> None:
    zone = find_zone("Europe/Berlin")
    wall = {day: seconds(datetime(2026, *day, 2, 30, tzinfo=UTC)) for day in ((3, 29), (6, 1), (10, 25))}
    assert [len(zone.instants_of(wall[day])) for day in wall] == [0, 1, 2]


@pytest.mark.parametrize(
    ("footer", "year", "expected"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", 2026, ["2026-03-29T01:00:00", "2026-10-25T01:00:00"]),
        ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2095, ["2095-03-26T00:00:00", "2095-10-28T23:00:00"]),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, ["2026-03-29T01:00:00", "2026-10-25T01:00:00"]),
        ("AAA3BBB,J60/0,J300/0", 2024, ["2024-03-01T03:00:00", "2024-10-27T02:00:00"]),
        ("AAA3BBB,59/0,299/0", 2024, ["2024-02-29T03:00:00", "2024-10-26T02:00:00"]),
        ("AAA3BBB4:30,J60/0,J300/0", 2023, ["2023-03-01T03:00:00", "2023-10-27T04:30:00"]),
    ],
)
def test_every_form_of_a_footer_rule_is_read(footer: str, year: int, expected: list[str]) -> None:
    found = [to_instant(jump.at).replace(tzinfo=None).isoformat() for jump in read_footer(footer).jumps(year, year)]
    assert found == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("UTC+2", "an offset does not say when clocks change"),
        ("GMT-5", "an offset does not say when clocks change"),
        ("+02:00", "an offset does not say when clocks change"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("", "name a place"),
        ("../../etc/passwd", "use an IANA name"),
        ("Europe/Berlin\0", "did you mean Europe/Berlin?"),
        ("Europe", "IANA name"),
        ("zone.tab", "IANA name"),
    ],
)
def test_what_is_no_zone_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        find_zone(name)
    assert hint in str(refused.value)
    assert refused.value.exit_code == 2


@settings(deadline=None)
@given(st.text(max_size=100))
def test_any_text_is_a_zone_or_a_helpful_refusal(name: str) -> None:
    try:
        find_zone(name)
    except Invalid as refused:
        assert "time zone" in str(refused)  # noqa: PT017  # either outcome is right


def test_the_tzdata_version_is_known() -> None:
    assert tzdata_version()[:2] == "20"
    assert tzdata_version()[-1].isalpha()
