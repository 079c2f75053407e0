"""Instants as text: RFC 3339, UTC inside, and clear about what is missing."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.instants import (
    format_instant,
    format_second,
    format_seconds,
    parse_instant,
    parse_wall,
    second_after,
    second_at_or_after,
    to_instant,
    to_wall,
)

aware = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-03-08T06:00:00Z", "2026-03-08T06:00:00Z"),
        ("2026-03-08t06:00:00z", "2026-03-08T06:00:00Z"),
        ("2026-03-08 06:00:00Z", "2026-03-08T06:00:00Z"),
        ("2026-03-08T06:00Z", "2026-03-08T06:00:00Z"),
        ("2026-03-08T01:00:00-05:00", "2026-03-08T06:00:00Z"),
        ("2026-03-08T06:00:00.25Z", "2026-03-08T06:00:00.250000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
    ],
)
def test_an_instant_is_rfc_3339(text: str, written: str) -> None:
    assert format_instant(parse_instant(text)) == written


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-03-08T06:00:00", "no offset"),
        ("2026-03-08", "no offset"),
        ("yesterday", "RFC 3339"),
        ("2026-02-30T00:00:00Z", "day is out of range"),
        ("2026-03-08T25:00:00Z", "hour must be"),
        ("2026-03-08T06:00:00+01:99", "no offset"),
        ("2026-03-08T06:00:00+24:00", "no instant"),
        ("0001-01-01T00:00:00+14:00", "no instant"),
        ("9999-12-31T23:59:60Z", "no instant"),
        ("2026-03-08T06:00:00.1234567Z", "no instant"),
        ("\u0662\u0660\u0662\u0666-03-08T06:00:00Z", "no instant"),
        ("", "no instant"),
        ("2026-03-08T06:00:00Z\n", "no instant"),
    ],
)
def test_what_is_no_instant_is_refused(text: str, part: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_instant(text)
    assert part in str(refused.value)


@settings(deadline=None)
@given(aware)
def test_an_instant_reads_back_as_written(at: datetime) -> None:
    assert parse_instant(format_instant(at)) == at


@settings(deadline=None)
@given(aware)
def test_whole_seconds_round_up_never_down(at: datetime) -> None:
    first, later = to_instant(second_at_or_after(at)), to_instant(second_after(at))
    assert at <= first < at + timedelta(seconds=1)
    assert at < later <= at + timedelta(seconds=1)


@settings(deadline=None)
@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_the_quick_writer_agrees_with_the_library(second: int) -> None:
    assert format_second(second) == to_wall(second).isoformat()


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_wall_time_or_a_refusal(text: str) -> None:
    try:
        assert parse_wall(text).tzinfo is None
    except Invalid as refused:
        assert "wall time" in str(refused)  # noqa: PT017  # either outcome is right


@settings(deadline=None)
@given(st.lists(st.integers(-62_135_596_800, 253_402_300_799) | st.integers(0, 20_000)))
def test_writing_many_seconds_is_writing_each(seconds: list[int]) -> None:
    assert list(format_seconds(seconds)) == [format_second(second) for second in seconds]
