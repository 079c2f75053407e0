"""The grammar of one cron field: text in, a bit set out, and errors that say how to write it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.instants import shown
from fencepost.model.nearest_name import nearest

DIGITS = frozenset("0123456789")
STEP_MAX = 1_000_000  # any larger step keeps the first value too
DIGITS_MAX = 6
WEEK = 7
SATURDAY = 6
NTH_MAX = 5

# A day that depends on the month's shape: (weekday of the 1st, number of days) -> day of month, or 0 for none.
DayOf = Callable[[int, int], int]


class CronField(NamedTuple):
    """What may stand in one place of the expression."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def span(self) -> str:
        """Say what the field takes."""
        spelled = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{spelled}"


SECOND = CronField("second", 0, 59)
MINUTE = CronField("minute", 0, 59)
HOUR = CronField("hour", 0, 23)
DAY = CronField("day of month", 1, 31)
MONTH = CronField("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"))
WEEKDAY = CronField("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))


FOREIGN = (
    ("?", "'?' is Quartz's spelling", "write '*'"),
    ("*", "'*' stands alone or with a step", "write '*' or '*/5'"),
)


class Matches(NamedTuple):
    """What one field matches."""

    bits: int
    star: bool
    days: tuple[DayOf, ...] = ()


def parse_field(field: CronField, text: str) -> Matches:
    """Turn one field into the values it matches; `text` is upper-case ASCII without blanks."""
    bits = 0
    days = []
    for item in text.split(","):
        if not item:
            raise refused(field, text, "a comma has nothing beside it", "take it out, or write the missing value")
        day = _day_of(field, item)
        if day:
            days.append(day)
        else:
            bits |= _bits(field, item)
    return Matches(bits, text.startswith("*"), tuple(days))


def refused(field: CronField, text: str, reason: str, hint: str) -> Invalid:
    """Say what is wrong with a field, and what to write instead."""
    stop = "?" if hint.startswith("did you mean") else "."
    return Invalid(f"cron field '{field.name}': {shown(text)}: {reason}; {hint}{stop}")


def _bits(field: CronField, item: str) -> int:
    body, slash, step_text = item.partition("/")
    step = _step(field, item, step_text) if slash else 1
    first, last = _range(field, item, body, stepped=bool(slash))
    bits = sum(1 << value for value in range(first, last + 1, step))
    if field is WEEKDAY:
        bits = (bits | bits >> WEEK) & ((1 << WEEK) - 1)
    return bits


def _range(field: CronField, item: str, body: str, *, stepped: bool) -> tuple[int, int]:
    if body == "*":
        return field.low, field.high
    begin, dash, end = body.partition("-")
    first = _value(field, item, begin)
    if not dash:
        return first, field.high if stepped else first
    last = _value(field, item, end)
    if end == "SUN" and first > 0:
        last = WEEK
    if last < first:
        raise _backward(field, item, (begin, end), (first, last))
    return first, last


def _step(field: CronField, item: str, text: str) -> int:
    if not _is_number(text):
        raise refused(field, item, f"the step {shown(text)} is no number", f"write it like */{field.low + 5}")
    step = _small(text)
    if step == 0:
        raise refused(field, item, "a step of 0 would never move", "write a step of 1 or more, or no step")
    return step


def _value(field: CronField, item: str, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.low
    if not _is_number(text):
        raise refused(field, item, *_no_value(field, item, text))
    value = _small(text)
    if not field.low <= value <= field.high:
        top = 0 if field in (SECOND, MINUTE, HOUR) else field.high  # 24:00 and :60 are the next 0
        hint = f"did you mean {field.low if value < field.low else top}"
        raise refused(field, item, f"{shown(text)[1:-1]} is outside {field.span}", hint)
    return value


def _is_number(text: str) -> bool:
    return bool(text) and DIGITS.issuperset(text)


def _small(text: str) -> int:
    """Read a number without ever building a huge one."""
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= DIGITS_MAX else STEP_MAX


def _backward(field: CronField, item: str, texts: tuple[str, str], values: tuple[int, int]) -> Invalid:
    step = item[item.index("/") :] if "/" in item else ""
    if field is WEEKDAY and values[1] == 0:
        better = f"{texts[0]}-7{step}"
    elif field is WEEKDAY and values[0] == WEEK:
        better = f"0-{texts[1]}{step}"
    else:
        top = (
            field.names[-1] if field.names and texts[0] in field.names else WEEK - 1 if field is WEEKDAY else field.high
        )
        bottom = field.names[0] if field.names and texts[1] in field.names else field.low
        better = f"{texts[0]}-{top}{step},{bottom}-{texts[1]}{step}"
    return refused(field, item, "the range runs backwards", f"did you mean '{better}'")


def _no_value(field: CronField, item: str, text: str) -> tuple[str, str]:
    """Explain text that is neither a number nor a name of this field."""
    if not text:
        return "a value is missing", f"it takes {field.span}"
    if text == "H" or text.startswith("H("):
        return "'H' is Jenkins's spelling", "pick a value and set jitter on the schedule"
    for foreign, reason, hint in FOREIGN:
        if foreign in text:
            return reason, hint
    for other in (MONTH, WEEKDAY):
        if text in other.names:
            return f"{text} is a {other.name}", f"the {field.name} takes {field.span}"
    if set("LW#") & set(item):
        return "L, W and # stand alone in a list, without ranges or steps", _day_words(field)
    near = nearest(text, field.names) or next((name for name in field.names if text.startswith(name)), None)
    return f"{shown(text)} is no {field.name}", f"did you mean {near}" if near else f"it takes {field.span}"


def _day_words(field: CronField) -> str:
    if field is DAY:
        return "write L (last day), LW (last Monday-to-Friday) or 15W (Monday-to-Friday nearest the 15th)"
    if field is WEEKDAY:
        return "write 5L (last Friday) or 1#2 (second Monday)"
    return f"the {field.name} takes {field.span}"


def _day_of(field: CronField, item: str) -> DayOf | None:
    """Return the rule of an L, W or # item, None for any other item."""
    if field is DAY:
        return _month_day_of(item)
    if field is WEEKDAY:
        return _weekday_of(item)
    return None


def _month_day_of(item: str) -> DayOf | None:
    if item == "L":
        return _last_day
    if item == "LW":
        return _last_workday
    if item == "WL":
        raise refused(DAY, item, "the letters are swapped", "did you mean LW")
    if item.startswith("L-"):
        raise refused(DAY, item, "days counted back from the last one are not supported", "write L or a list of days")
    if item.endswith("W") and _is_number(item[:-1]):
        return partial(_nearest_workday, _value(DAY, item, item[:-1]))
    return None


def _weekday_of(item: str) -> DayOf | None:
    if item == "L":
        raise refused(
            WEEKDAY, item, "L needs its day of week", "write 5L for the last Friday, 6L for the last Saturday"
        )
    if item.endswith("L") and item[:-1] in WEEKDAY.names:
        number = WEEKDAY.names.index(item[:-1])
        raise refused(WEEKDAY, item, "L goes with a number", f"did you mean {number}L")
    if item.endswith("L") and _is_number(item[:-1]):
        return partial(_last_weekday, _value(WEEKDAY, item, item[:-1]) % WEEK)
    day, hash_sign, nth = item.partition("#")
    if not hash_sign:
        return None
    if not _is_number(nth) or not 1 <= _small(nth) <= NTH_MAX:
        raise refused(WEEKDAY, item, "the number after # counts weeks, 1-5", "write 1#2 for the second Monday")
    return partial(_nth_weekday, _value(WEEKDAY, item, day) % WEEK, _small(nth))


def _last_day(_first: int, length: int) -> int:
    return length


def _last_workday(first: int, length: int) -> int:
    return _nearest_workday(length, first, length)


def _nearest_workday(day: int, first: int, length: int) -> int:
    """Return the Monday-to-Friday nearest to a day, within its month; none if the month has no such day."""
    if day > length:
        return 0
    weekday = (first + day - 1) % WEEK
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _nth_weekday(weekday: int, nth: int, first: int, length: int) -> int:
    day = 1 + (weekday - first) % WEEK + (nth - 1) * WEEK
    return day if day <= length else 0


def _last_weekday(weekday: int, first: int, length: int) -> int:
    return length - (first + length - 1 - weekday) % WEEK
