"""Instants as text, as whole seconds, and as the microseconds that the store keeps: RFC 3339 in and out, UTC inside."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache

from fencepost.model.errors import Invalid

DAY = 86_400
HOUR = 3_600
MINUTE = 60
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001  # the zero of wall time, which belongs to no zone
EPOCH_ORDINAL = EPOCH.toordinal()
DAY_FIRST = date.min.toordinal() - EPOCH_ORDINAL
DAY_LAST = date.max.toordinal() - EPOCH_ORDINAL
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
FOREVER_US = 9_223_372_036_854_775_807  # an open end
LEAP_SECOND = 60
SHOWN_MAX = 60
TIMES_KEPT_MAX = 4096
HOUR_CHARACTERS = len("2026-03-08T06:")

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?"
_OFFSET = r"([Zz]|[+-]\d\d:\d\d)"
_RFC3339 = re.compile(rf"{_DATE}[Tt ]{_TIME}{_OFFSET}", re.ASCII)
_WALL = re.compile(rf"{_DATE}(?:[Tt ]{_TIME})?", re.ASCII)
_HOUR = tuple(f"T{hour:02}:" for hour in range(DAY // HOUR))
_MINUTE_SECOND = tuple(f"{second // MINUTE:02}:{second % MINUTE:02}" for second in range(HOUR))


def to_us(at: datetime) -> int:
    """Return an instant as the store keeps it."""
    return (at - EPOCH) // MICROSECOND


def from_us(us: int) -> datetime:
    """Return a kept instant; one without an end is the last there is."""
    try:
        return EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 instant, such as 2026-03-08T06:00:00Z or 2026-03-08T01:00:00-05:00."""
    match = _RFC3339.fullmatch(text)
    if not match:
        raise Invalid(
            f"{shown(text)} is no instant{_why_no_instant(text)} Write RFC 3339, such as 2026-03-08T06:00:00Z."
        )
    try:
        return _wall(match.groups()[:7]).replace(tzinfo=_offset(match[8])).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{shown(text)} is no instant: {error}. Write RFC 3339, such as 2026-03-08T06:00:00Z.") from None


def parse_wall(text: str) -> datetime:
    """Read a wall time without a zone, such as 2026-03-08, 2026-03-08T02:30 or 2026-03-08 02:30:00."""
    match = _WALL.fullmatch(text)
    if not match:
        raise Invalid(f"{shown(text)} is no wall time. Write a date, or a date and a time: 2026-03-08T02:30:00.")
    try:
        return _wall(match.groups())
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{shown(text)} is no wall time: {error}. Write it like 2026-03-08T02:30:00.") from None


def format_instant(at: datetime) -> str:
    """Write an instant as RFC 3339 in UTC; fractions of a second only where there are any."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def format_second(wall: int) -> str:
    """Write seconds since 1970 as date and time, without a zone."""
    day, rest = divmod(wall, DAY)
    hour, rest = divmod(rest, HOUR)
    return _date_text(day) + _HOUR[hour] + _MINUTE_SECOND[rest]


def format_seconds(walls: Iterable[int]) -> Iterator[str]:
    """Write many of them; quick where neighbours share their hour."""
    hour, text = 2 * DAY_LAST * DAY, ""  # no hour yet
    for wall in walls:
        rest = wall - hour
        if not 0 <= rest < HOUR:
            rest = wall % HOUR
            hour = wall - rest
            text = format_second(hour)[:HOUR_CHARACTERS]
        yield text + _MINUTE_SECOND[rest]


def to_instant(utc: int) -> datetime:
    """Return the instant of so many seconds since 1970."""
    return EPOCH + timedelta(0, utc)


def to_instants(seconds: Iterable[int]) -> Iterator[datetime]:
    """Return many of them; quick, because times of day come again and again."""
    times: dict[int, timedelta] = {}
    start, day_at = 2 * DAY_LAST * DAY, EPOCH  # no day yet
    for utc in seconds:
        rest = utc - start
        if not 0 <= rest < DAY:
            rest = utc % DAY
            start = utc - rest
            day_at = EPOCH + timedelta(start // DAY)
        time = times.get(rest)
        if time is None:
            time = timedelta(0, rest)
            if len(times) < TIMES_KEPT_MAX:
                times[rest] = time
        yield day_at + time


def to_wall(wall: int) -> datetime:
    """Return the naive local time of so many seconds since 1970-01-01T00:00:00 of the same wall."""
    return EPOCH_NAIVE + timedelta(0, wall)


def from_wall(wall: datetime) -> int:
    """Return a naive local time as seconds, fractions cut off."""
    return (wall - EPOCH_NAIVE) // SECOND


def second_at_or_after(at: datetime) -> int:
    """Return the first whole second that is not before this instant."""
    return -((EPOCH - _aware(at)) // SECOND)


def second_after(at: datetime) -> int:
    """Return the first whole second that is later than this instant."""
    return (_aware(at) - EPOCH) // SECOND + 1


def shown(text: str) -> str:
    """Quote what a user wrote, cut to a length that fits an error message."""
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…")


def _aware(at: datetime) -> datetime:
    assert at.utcoffset() is not None, "an instant carries its zone"
    return at


def _wall(parts: tuple[str | None, ...]) -> datetime:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts[:6])
    leap = second == LEAP_SECOND  # 23:59:60 is the second before midnight, again
    wall = datetime(year, month, day, hour, minute, second - leap, int((parts[6] or "0").ljust(6, "0")))  # noqa: DTZ001  # wall time, until its offset is known
    return wall + SECOND * leap


def _offset(text: str) -> timezone:
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes >= MINUTE:
        raise ValueError(f"{text} is no offset")
    delta = timedelta(hours=hours, minutes=minutes)
    return timezone(-delta if text[0] == "-" else delta)


def _why_no_instant(text: str) -> str:
    return ": it has no offset, so it could be any of several instants." if _WALL.fullmatch(text) else "."


@lru_cache(maxsize=1024)
def _date_text(day: int) -> str:
    return date.fromordinal(day + EPOCH_ORDINAL).isoformat()
