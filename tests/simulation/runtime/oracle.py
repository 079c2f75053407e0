"""Which ticks are owed, by brute force: every minute of a stretch is looked at, one after the other, in plain Python.

Slow, and so simple that it can be believed. It shares nothing with the product, neither the ticker's arithmetic nor
the proof's.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rule(NamedTuple):
    """When something fires; the cron expression has stars, steps from a star, numbers, ranges and lists of them."""

    cron: str
    zone: str
    gap: str
    fold: str


class Owed(NamedTuple):
    """The instants at which something fires, and which slots of the wall end with each gap, in microseconds."""

    ticks: list[int]
    gaps: dict[int, set[datetime]]


def owed(rule: Rule, after_us: int, until_us: int) -> Owed:
    """Go through (after, until] minute by minute."""
    fields = _fields(rule.cron)
    ticks: set[int] = set()
    gaps: dict[int, set[datetime]] = {}
    at = _instant(after_us).replace(second=0, microsecond=0) - MINUTE
    end = _instant(until_us) + MINUTE
    offset = at.astimezone(_zone(rule.zone)).utcoffset()
    while at <= end:
        local = at.astimezone(_zone(rule.zone))
        if local.utcoffset() != offset:
            jumped = (local.utcoffset() or timedelta()) - (offset or timedelta())
            lost = list(_lost(fields, local.replace(tzinfo=None) - jumped, jumped))
            if lost and rule.gap == "shift":
                ticks.add(_us(at))
            elif lost and after_us < _us(at) <= until_us:
                gaps[_us(at)] = set(lost)
            offset = local.utcoffset()
        if _day_and_minute(fields, local) and _is_chosen(rule, local):
            ticks.update(_us(at) + second * 1_000_000 for second in sorted(fields[0]))
        at += MINUTE
    return Owed(sorted(one for one in ticks if after_us < one <= until_us), gaps)


def _lost(fields: list[frozenset[int]], wall: datetime, jumped: timedelta) -> Iterator[datetime]:
    """Yield the slots on the wall that the clock jumped over."""
    missing = wall
    while missing < wall + jumped:
        if _day_and_minute(fields, missing):
            yield from (missing + timedelta(seconds=second) for second in fields[0])
        missing += MINUTE


def _is_chosen(rule: Rule, local: datetime) -> bool:
    """Whether this is the one of two equal wall times that counts."""
    naive = local.replace(tzinfo=None, fold=0)
    first = naive.replace(tzinfo=local.tzinfo, fold=0).astimezone(UTC)
    last = naive.replace(tzinfo=local.tzinfo, fold=1).astimezone(UTC)
    star = rule.cron.split()[-4].startswith("*")
    policy = rule.fold if rule.fold != "auto" else "both" if star else "first"
    if first >= last or policy == "both":  # a wall time that is there once; in a gap there is none to ask about
        return True
    return local.astimezone(UTC) == (first if policy == "first" else last)


def _day_and_minute(fields: list[frozenset[int]], local: datetime) -> bool:
    _, minute, hour, day, month, weekday = fields
    by_date = local.day in day and local.month in month and local.isoweekday() % 7 in weekday
    return by_date and local.hour in hour and local.minute in minute


@lru_cache(maxsize=256)
def _fields(cron: str) -> list[frozenset[int]]:
    words = cron.split()
    words = words if len(words) == 6 else ["0", *words]
    ranges = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    return [frozenset(_values(word, *bounds)) for word, bounds in zip(words, ranges, strict=True)]


def _values(word: str, low: int, high: int) -> Iterator[int]:
    for part in word.split(","):
        base, _, step = part.partition("/")
        first, _, last = base.partition("-")
        if base == "*":
            yield from range(low, high + 1, int(step or 1))
        else:
            yield from range(int(first), int(last or first) + 1)


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def transition(zone: str, day: datetime) -> int:
    """Find the first change of the clocks after a day, to the minute, in microseconds."""
    at, offset = day, day.astimezone(_zone(zone)).utcoffset()
    while at.astimezone(_zone(zone)).utcoffset() == offset:
        at += MINUTE
    return _us(at)


def _instant(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def _us(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)
