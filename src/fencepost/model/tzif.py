"""Compiled time zone files (RFC 9636): the jumps of local time that they list, and the rule that goes on after them."""

import re
from collections.abc import Iterator
from datetime import date
from struct import calcsize, unpack_from
from typing import NamedTuple

from fencepost.model.instants import DAY, EPOCH_ORDINAL, HOUR, MINUTE

HEADER = ">4s1s15x6l"
WEEK = 7
RULE_TIME_DEFAULT = 2 * HOUR

_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_TIME = r"([+-]?\d+(?::\d+){0,2})"
_RULE = rf",([^,/]+)(?:/{_TIME})?"
_FOOTER = re.compile(rf"{_NAME}{_TIME}(?:{_NAME}{_TIME}?{_RULE}{_RULE})?")


class Jump(NamedTuple):
    """From this instant on, local time is UTC plus the offset."""

    at: int
    offset: int


class YearlyRule(NamedTuple):
    """One of the two jumps that recur every year: on which day, at which second of it, from and to which offset."""

    day: str
    second: int
    before: int
    after: int

    def jump(self, year: int) -> Jump:
        """Return this year's jump."""
        return Jump(_rule_day(self.day, year) * DAY + self.second - self.before, self.after)


class Footer(NamedTuple):
    """What holds after the last listed jump, for ever."""

    rules: tuple[YearlyRule, ...] = ()

    def jumps(self, year_first: int, year_last: int) -> Iterator[Jump]:
        """Yield the jumps of these years, oldest first."""
        for year in range(year_first, year_last + 1):
            yield from sorted(rule.jump(year) for rule in self.rules)


class ZoneFile(NamedTuple):
    """What a file says: the offset before all jumps, the jumps, the footer."""

    offset: int
    jumps: tuple[Jump, ...]
    footer: Footer


def read_zone_file(data: bytes) -> ZoneFile:
    """Read a file of version 2 or later; its first part, with 32-bit times, is passed over."""
    at = calcsize(HEADER)
    _, _, utc, standard, leaps, times, kinds, letters = unpack_from(HEADER, data)
    second_part = at + times * 5 + kinds * 6 + letters + leaps * 8 + standard + utc
    magic, version, utc, standard, leaps, times, kinds, letters = unpack_from(HEADER, data, second_part)
    assert magic == b"TZif", "a zone file begins with its magic"
    assert version >= b"2", "a zone file has 64-bit times"
    at += second_part
    instants = unpack_from(f">{times}q", data, at)
    indexes = data[at + times * 8 : at + times * 9]
    at += times * 9
    offsets = [unpack_from(">l2x", data, at + kind * 6)[0] for kind in range(kinds)]
    at += kinds * 6 + letters + leaps * 12 + standard + utc
    listed = tuple(Jump(instant, offsets[index]) for instant, index in zip(instants, indexes, strict=True))
    return ZoneFile(offsets[0], listed, read_footer(data[at:].strip(b"\n").decode("ascii")))


def read_footer(text: str) -> Footer:
    """Read a POSIX TZ string such as CET-1CEST,M3.5.0,M10.5.0/3."""
    match = _FOOTER.fullmatch(text)
    if not match or match[3] is None:
        return Footer()
    standard = -_seconds(match[1])
    summer = -_seconds(match[2]) if match[2] else standard + HOUR
    begins = YearlyRule(match[3], _seconds(match[4], RULE_TIME_DEFAULT), before=standard, after=summer)
    ends = YearlyRule(match[5], _seconds(match[6], RULE_TIME_DEFAULT), before=summer, after=standard)
    return Footer((begins, ends))


def _seconds(text: str | None, default: int = 0) -> int:
    if text is None:
        return default
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    total = sum(part * unit for part, unit in zip(parts, (HOUR, MINUTE, 1), strict=False))
    return -total if text.startswith("-") else total


def _rule_day(text: str, year: int) -> int:
    """Return the day since 1970 of M3.5.0 (last Sunday of March), J60 (no leap days counted) or 59 (counted from 0)."""
    if not text.startswith("M"):
        counted = text.startswith("J")
        number = int(text.lstrip("J")) - counted
        march = date(year, 3, 1).timetuple().tm_yday - 1
        leap_day_passed = counted and march == 60 and number >= 59  # noqa: PLR2004  # the 29th of February is day 59 from 0
        return date(year, 1, 1).toordinal() - EPOCH_ORDINAL + number + leap_day_passed
    month, week, weekday = map(int, text[1:].split("."))
    first = date(year, month, 1).toordinal()
    day = first + (weekday - first) % WEEK + (week - 1) * WEEK  # ordinal 1 was a Monday, so ordinal % 7 is the weekday
    following = date(year + month // 12, month % 12 + 1, 1).toordinal()
    return (day if day < following else day - WEEK) - EPOCH_ORDINAL
