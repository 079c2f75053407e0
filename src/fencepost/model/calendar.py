"""Blackout calendars: dates, ranges of dates and weekly windows in which a schedule does not run.

An entry is written like one of these:
    2026-12-25                  the whole day
    2026-12-24..2027-01-02      the days and all between them, both included
    SAT-SUN                     these whole days, every week
    MON-FRI 22:00-06:00         from 22:00 on each of these days until 06:00, here of the next day
    FRI 18:00..MON 06:00        one stretch of every week
All are wall times in the calendar's zone: an hour that happens twice is blacked out twice.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Self

from fencepost.model.cron_fields import WEEKDAY
from fencepost.model.errors import Invalid
from fencepost.model.instants import (
    DAY,
    EPOCH_ORDINAL,
    HOUR,
    MINUTE,
    parse_wall,
    second_after,
    second_at_or_after,
    shown,
    to_instant,
)
from fencepost.model.zone import Segment, Zone

WEEK_DAYS = 7
WEEK = WEEK_DAYS * DAY
FIRST_SUNDAY = 3 * DAY  # 1970-01-04, where weeks are counted from
HOURS = 24

_DAY = "(SUN|MON|TUE|WED|THU|FRI|SAT)"
_TIME = r"(\d\d):(\d\d)"
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?", re.ASCII)
_DAILY = re.compile(rf"{_DAY}(?:-{_DAY})?(?: {_TIME}-{_TIME})?", re.ASCII)
_WEEKLY = re.compile(rf"{_DAY} {_TIME}\.\.{_DAY} {_TIME}", re.ASCII)


class CalendarStretch(NamedTuple):
    """Wall seconds [start, end), once or every week."""

    start: int
    end: int
    weekly: bool

    def within(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of [low, high) that are blacked out."""
        repeat = (low - self.end) // WEEK + 1 if self.weekly else 0
        while True:
            first, last = self.start + repeat * WEEK, self.end + repeat * WEEK
            if first < high and low < last:
                yield max(low, first), min(high, last)
            repeat += 1
            if not self.weekly or first >= high:
                return


class Blackout(NamedTuple):
    """One entry of a calendar, as written and as wall time."""

    text: str
    stretches: tuple[CalendarStretch, ...]


@dataclass(frozen=True, slots=True)
class Calendar:
    """When not to run."""

    blackouts: tuple[Blackout, ...]
    zone: Zone

    @classmethod
    def parse(cls, entries: Iterable[str], zone: Zone) -> Self:
        """Build a calendar from what a user wrote."""
        return cls(tuple(Blackout(entry, _stretches(entry)) for entry in entries), zone)

    def covering(self, at: datetime) -> str | None:
        """Return the entry that blacks out an instant, as written, or None."""
        utc = second_after(at) - 1
        wall = utc + self.zone.segment_at(utc).offset
        for blackout in self.blackouts:
            if any(True for stretch in blackout.stretches for _ in stretch.within(wall, wall + 1)):
                return blackout.text
        return None

    def closed(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the blacked-out parts of [start, end), merged, oldest first.

        With a trigger's `count_between` this tells how many ticks a calendar takes away, without listing them.
        """
        low, high = second_at_or_after(start), second_at_or_after(end)
        until = low
        began: int | None = None
        for first, last in self._closed(low, high):
            if began is None:
                began = first
            elif first > until:
                yield to_instant(began), to_instant(until)
                began = first
            until = max(until, last)
        if began is not None:
            yield to_instant(began), to_instant(until)

    def _closed(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        for segment in self.zone.segments(low, high):
            yield from sorted(self._closed_in(segment, low, high))

    def _closed_in(self, segment: Segment, low: int, high: int) -> Iterator[tuple[int, int]]:
        offset = segment.offset
        first, last = max(low, segment.begins) + offset, min(high, segment.ends) + offset
        for blackout in self.blackouts:
            for stretch in blackout.stretches:
                for begin, end in stretch.within(first, last):
                    yield begin - offset, end - offset


def _stretches(entry: str) -> tuple[CalendarStretch, ...]:
    text = " ".join(entry.upper().split(" ")).strip()
    if match := _DATES.fullmatch(text):
        return (_dates(entry, match[1], match[2] or match[1]),)
    if match := _WEEKLY.fullmatch(text):
        first, last = _in_week(entry, *match.groups()[:3]), _in_week(entry, *match.groups()[3:])
        return (CalendarStretch(first, last if last > first else last + WEEK, weekly=True),)
    if match := _DAILY.fullmatch(text):
        return tuple(_daily(entry, *match.groups()))
    raise Invalid(
        f"calendar entry {shown(entry)} is neither a date (2026-12-25), a range (2026-12-24..2027-01-02), days (SAT-SUN,"
        " MON-FRI 22:00-06:00) nor a stretch of the week (FRI 18:00..MON 06:00)."
    )


def _dates(entry: str, first: str, last: str) -> CalendarStretch:
    begin, end = (parse_wall(text).toordinal() - EPOCH_ORDINAL for text in (first, last))
    if end < begin:
        raise Invalid(f"calendar entry {shown(entry)} ends before it begins; did you mean {last}..{first}?")
    return CalendarStretch(begin * DAY, (end + 1) * DAY, weekly=False)


def _daily(entry: str, first: str, last: str | None, *times: str | None) -> Iterator[CalendarStretch]:
    begin = WEEKDAY.names.index(first)
    end = WEEKDAY.names.index(last or first)
    start_hour, start_minute, end_hour, end_minute = (text or "00" for text in times)
    for day in range(begin, end + 1 if end >= begin else end + 1 + WEEK_DAYS):
        name = WEEKDAY.names[day % WEEK_DAYS]
        start = _in_week(entry, name, start_hour, start_minute)
        until = _in_week(entry, name, end_hour, end_minute)
        yield CalendarStretch(start, until if until > start else until + DAY, weekly=True)


def _in_week(entry: str, day: str | None, hour: str | None, minute: str | None) -> int:
    """Return a weekly wall time as seconds after a Sunday's midnight in 1970."""
    seconds = int(hour or 0) * HOUR + int(minute or 0) * MINUTE
    if seconds > HOURS * HOUR or int(minute or 0) * MINUTE >= HOUR:
        raise Invalid(f"calendar entry {shown(entry)}: {hour}:{minute} is no time of day; it takes 00:00 to 24:00.")
    return FIRST_SUNDAY + WEEKDAY.names.index(day or "SUN") * DAY + seconds
