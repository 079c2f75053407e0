"""Cron expressions over naive local time: bit sets, and a search that always ends.

Wall time is counted in seconds since 1970-01-01T00:00:00 of the same wall, days likewise. No zone is
known here; `zoned` applies one. Which days of a month match depends only on the weekday of its first
day and on its length, so there are at most 28 kinds of month, and "never fires" is decided, not guessed.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from fencepost.model.cron_fields import DAY as DAY_FIELD
from fencepost.model.cron_fields import HOUR as HOUR_FIELD
from fencepost.model.cron_fields import MINUTE as MINUTE_FIELD
from fencepost.model.cron_fields import MONTH as MONTH_FIELD
from fencepost.model.cron_fields import SECOND as SECOND_FIELD
from fencepost.model.cron_fields import WEEK, WEEKDAY, Matches, parse_field
from fencepost.model.errors import Invalid
from fencepost.model.instants import DAY, DAY_FIRST, DAY_LAST, EPOCH_ORDINAL, HOUR, MINUTE, shown
from fencepost.model.nearest_name import nearest

FIELDS = (SECOND_FIELD, MINUTE_FIELD, HOUR_FIELD, DAY_FIELD, MONTH_FIELD, WEEKDAY)
TEXT_MAX = 2048
BLANKS = " \t"
EPOCH_WEEKDAY = 4  # 1970-01-01 was a Thursday
YEAR_FIRST = 1
MONTHS = 12
FEBRUARY = 2
EVERY_DAY = (1 << 32) - 2  # bits 1 to 31
EVERY_WEEKDAY = (1 << WEEK) - 1
LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Cron:
    """One cron expression; equal texts are equal."""

    __slots__ = (
        "_both",
        "_days",
        "_every_day",
        "_hours",
        "_in_hour",
        "_month",
        "_months",
        "_shapes",
        "_weekdays",
        "hour_star",
        "text",
    )

    def __init__(self, text: str, fields: list[Matches]) -> None:
        second, minute, hour, day, month, weekday = fields
        self.text = text
        self.hour_star = hour.star
        self._days, self._weekdays = day, weekday
        self._both = day.star or weekday.star
        self._months = tuple(bool(month.bits >> number & 1) for number in range(MONTHS + 1))
        self._hours = tuple(number * HOUR for number in _members(hour.bits))
        self._in_hour = _seconds_in_hour(minute.bits, second.bits)
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._month = 0, 0, 0  # the one looked at last; replaced whole, so that threads may share an expression
        self._every_day = self._matches_every_day()
        if not self._every_day and not any(self._possible_days()):
            raise Invalid(
                f"cron expression {shown(text)} never fires: no month it names has such a day."
                " Check day of month and month; the last day of any month is L."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cron) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Cron({self.text!r})"

    @property
    def per_day(self) -> int:
        """How many slots a matching day has."""
        return len(self._hours) * len(self._in_hour)

    @property
    def seconds_of_day(self) -> int:
        """The seconds of a matching day that are slots, as bits."""
        in_hour = sum(1 << second for second in self._in_hour)
        return sum(in_hour << hour for hour in self._hours)

    def days(self, first: int, last: int) -> Iterator[int]:
        """Yield the matching days in [first, last], counted from 1970, oldest first."""
        return self._days_between(first, last)

    def slots(self, start: int, end: int, offset: int = 0) -> Iterator[int]:
        """Yield the matching wall seconds in [start, end), each less `offset`, oldest first."""
        low, high = start - offset, end - offset
        in_hour = self._in_hour
        for day in self._days_between(start // DAY, (end - 1) // DAY):
            base = day * DAY - offset
            if low <= base and base + DAY <= high:
                for hour in self._hours:
                    at = base + hour
                    for second in in_hour:
                        yield at + second
            else:
                yield from self._slots_of_day(base, low, high)

    def next_slot(self, wall: int) -> int | None:
        """Return the first matching wall second that is not before `wall`."""
        day, rest = divmod(wall, DAY)
        found = self._day_from(day)
        if found == day:
            second = self._second_from(rest)
            if second is not None:
                return day * DAY + second
            found = self._day_from(day + 1)
        return None if found is None else found * DAY + self._hours[0] + self._in_hour[0]

    def last_slot(self, wall: int) -> int | None:
        """Return the last matching wall second before `wall`."""
        day, rest = divmod(wall, DAY)
        if self._has_day(day):
            second = self._second_before(rest)
            if second is not None:
                return day * DAY + second
        for earlier in self._days_back(day - 1):
            return earlier * DAY + self._hours[-1] + self._in_hour[-1]
        return None

    def count(self, start: int, end: int) -> int:
        """Return how many wall seconds in [start, end) match, without listing them."""
        if start >= end:
            return 0
        first, start_rest = divmod(start, DAY)
        last, end_rest = divmod(end, DAY)
        total = self.per_day * self._count_days(first, last - 1)
        if start_rest and self._has_day(first):
            total -= self._count_before(start_rest)
        if end_rest and self._has_day(last):
            total += self._count_before(end_rest)
        return total

    def matches(self, wall: int) -> bool:
        """Whether this wall second is a slot."""
        return self.next_slot(wall) == wall

    def _slots_of_day(self, base: int, low: int, high: int) -> Iterator[int]:
        in_hour = self._in_hour
        for hour in self._hours:
            at = base + hour
            if at + HOUR <= low:
                continue
            if at >= high:
                return
            for second in in_hour[bisect_left(in_hour, low - at) : bisect_left(in_hour, high - at)]:
                yield at + second

    def _second_from(self, rest: int) -> int | None:
        """Return the first matching second of a day that is not before `rest`."""
        hour = rest - rest % HOUR
        index = bisect_left(self._hours, hour)
        if index < len(self._hours) and self._hours[index] == hour:
            within = bisect_left(self._in_hour, rest - hour)
            if within < len(self._in_hour):
                return hour + self._in_hour[within]
            index += 1
        return self._hours[index] + self._in_hour[0] if index < len(self._hours) else None

    def _second_before(self, rest: int) -> int | None:
        hour = rest - rest % HOUR
        index = bisect_left(self._hours, hour)
        if index < len(self._hours) and self._hours[index] == hour:
            within = bisect_left(self._in_hour, rest - hour)
            if within:
                return hour + self._in_hour[within - 1]
        return self._hours[index - 1] + self._in_hour[-1] if index else None

    def _count_before(self, rest: int) -> int:
        hour = rest - rest % HOUR
        index = bisect_left(self._hours, hour)
        total = index * len(self._in_hour)
        if index < len(self._hours) and self._hours[index] == hour:
            total += bisect_left(self._in_hour, rest - hour)
        return total

    def _days_between(self, first: int, last: int) -> Iterator[int]:
        """Yield the matching days in [first, last], oldest first."""
        first, last = max(first, DAY_FIRST), min(last, DAY_LAST)
        if self._every_day:
            yield from range(first, last + 1)
            return
        for before, days in self._months_between(first, last):
            for number in days:
                day = before + number
                if day > last:
                    return
                if day >= first:
                    yield day

    def _days_back(self, last: int) -> Iterator[int]:
        """Yield the matching days up to `last`, newest first."""
        last = min(last, DAY_LAST)
        if self._every_day:
            yield from range(last, DAY_FIRST - 1, -1)
            return
        for before, days in self._months_back(last):
            for number in reversed(days):
                if before + number <= last:
                    yield before + number

    def _count_days(self, first: int, last: int) -> int:
        first, last = max(first, DAY_FIRST), min(last, DAY_LAST)
        if self._every_day or first > last:
            return max(0, last - first + 1)
        return sum(
            bisect_left(days, last - before + 1) - bisect_left(days, first - before)
            for before, days in self._months_between(first, last)
        )

    def _has_day(self, day: int) -> bool:
        return self._day_from(day) == day

    def _day_from(self, day: int) -> int | None:
        """Return the first matching day that is not before `day`."""
        day = max(day, DAY_FIRST)
        if day > DAY_LAST or self._every_day:
            return day if day <= DAY_LAST else None
        start, end, bits = self._month_at(day)
        rest = bits >> day - start
        if rest:
            return day + (rest & -rest).bit_length() - 1
        for before, days in self._months_between(end, DAY_LAST):
            if days:
                return before + days[0]
        return None

    def _month_at(self, day: int) -> tuple[int, int, int]:
        """Return a day's month: its first day, the first of the next, and its matching days as bits from the first on."""
        month = self._month
        if not month[0] <= day < month[1]:
            on = date.fromordinal(day + EPOCH_ORDINAL)
            start = day - on.day + 1
            days = self._days_of(on.year, on.month, start) if self._months[on.month] else ()
            bits = sum(1 << number - 1 for number in days)
            month = self._month = start, start + _length(on.year, on.month), bits
        return month

    def _months_between(self, first: int, last: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield (the day before the first of the month, matching days) for each matching month that touches [first, last]."""
        if first > last:
            return
        begin, end = date.fromordinal(first + EPOCH_ORDINAL), date.fromordinal(last + EPOCH_ORDINAL)
        for year in range(begin.year, end.year + 1):
            month_first = begin.month if year == begin.year else 1
            month_last = end.month if year == end.year else MONTHS
            for month in range(month_first, month_last + 1):
                if self._months[month]:
                    start = date(year, month, 1).toordinal() - EPOCH_ORDINAL
                    yield start - 1, self._days_of(year, month, start)

    def _months_back(self, last: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        if last < DAY_FIRST:
            return
        end = date.fromordinal(last + EPOCH_ORDINAL)
        for year in range(end.year, YEAR_FIRST - 1, -1):
            for month in range(end.month if year == end.year else MONTHS, 0, -1):
                if self._months[month]:
                    start = date(year, month, 1).toordinal() - EPOCH_ORDINAL
                    yield start - 1, self._days_of(year, month, start)

    def _days_of(self, year: int, month: int, start: int) -> tuple[int, ...]:
        return self._days_in((start + EPOCH_WEEKDAY) % WEEK, _length(year, month))

    def _days_in(self, first_weekday: int, length: int) -> tuple[int, ...]:
        """Return the matching days of a month that has this many days and begins on this weekday."""
        key = length * WEEK + first_weekday
        days = self._shapes.get(key)
        if days is None:
            days = self._shapes[key] = tuple(self._match_days(first_weekday, length))
        return days

    def _match_days(self, first_weekday: int, length: int) -> list[int]:
        """Apply the Vixie rule: a field with a star narrows the other one, two fields without add up."""
        by_day, by_weekday = self._days.bits, 0
        for day in range(1, length + 1):
            by_weekday |= (self._weekdays.bits >> (first_weekday + day - 1) % WEEK & 1) << day
        for rule in self._days.days:
            by_day |= 1 << rule(first_weekday, length)
        for rule in self._weekdays.days:
            by_weekday |= 1 << rule(first_weekday, length)
        bits = by_day & by_weekday if self._both else by_day | by_weekday
        return [day for day in range(1, length + 1) if bits >> day & 1]

    def _matches_every_day(self) -> bool:
        by_day = self._days.bits == EVERY_DAY
        by_weekday = self._weekdays.bits == EVERY_WEEKDAY
        return all(self._months[1:]) and (by_day and by_weekday if self._both else by_day or by_weekday)

    def _possible_days(self) -> Iterator[tuple[int, ...]]:
        """Yield the matching days of every kind of month that the calendar has; all of them come up within 400 years."""
        for month in range(1, MONTHS + 1):
            if self._months[month]:
                for length in (28, 29) if month == FEBRUARY else (LENGTHS[month],):
                    yield from (self._days_in(first_weekday, length) for first_weekday in range(WEEK))


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    """Read an expression of five fields, six with leading seconds, or a macro such as @daily."""
    parts = _split(text)
    if len(parts) == len(FIELDS) - 1:
        parts.insert(0, "0")
    if len(parts) != len(FIELDS):
        raise Invalid(
            f"cron expression {shown(text)} has {len(parts)} field{'s' * (len(parts) != 1)}; it takes five"
            " (minute, hour, day of month, month, day of week), or six with seconds first, such as '0 9 * * MON-FRI'."
        )
    fields = [parse_field(field, part.upper()) for field, part in zip(FIELDS, parts, strict=True)]
    return Cron(" ".join(text.split()), fields)


def _split(text: str) -> list[str]:
    """Return the fields; only ASCII and only real blanks, whatever else Python calls one."""
    if len(text) > TEXT_MAX:
        raise Invalid(f"cron expression {shown(text)} has {len(text)} characters; {TEXT_MAX} are enough for any.")
    odd = next((letter for letter in text.strip(BLANKS + "\r\n") if not (" " <= letter <= "~" or letter == "\t")), None)
    if odd is not None:
        raise Invalid(f"cron expression {shown(text)} contains {odd!r}; use plain ASCII letters, digits and blanks.")
    trimmed = text.strip(BLANKS + "\r\n")
    if trimmed.startswith("@"):
        trimmed = _macro(trimmed)
    first = trimmed.split(" ")[0].upper()
    if first.startswith(("TZ=", "CRON_TZ=")):
        raise Invalid(f"cron expression {shown(text)}: {first.split('=')[0]}= is not read here; set timezone instead.")
    return trimmed.split()


def _macro(text: str) -> str:
    name = text.lower()
    if name in MACROS:
        return MACROS[name]
    if name == "@reboot":
        hint = "a start of the machine is no tick; let a service run 'fencepost run AGENT', or pick a time."
    elif name.startswith("@every"):
        hint = f'use the every trigger instead: every = "{shown(name[6:].strip())[1:-1] or "15m"}".'
    else:
        near = nearest(name, MACROS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(MACROS)}."
    raise Invalid(f"cron expression {shown(text)}: there is no such macro; {hint}")


def _length(year: int, month: int) -> int:
    leap = month == FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return LENGTHS[month] + leap


def _members(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


@lru_cache(maxsize=256)
def _seconds_in_hour(minutes: int, seconds: int) -> tuple[int, ...]:
    return tuple(minute * MINUTE + second for minute in _members(minutes) for second in _members(seconds))
