"""Time zones by IANA name, from the `tzdata` package, so that all machines agree whatever their systems have.

A zone is a row of segments: stretches of UTC in which local time runs straight. Between two segments
local time jumps, forwards over a gap or back into a fold. Only offsets are compared, never a "DST" flag:
Dublin and Casablanca count theirs backwards, and jumps without any DST happen too.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from fencepost.model.errors import Invalid
from fencepost.model.instants import DAY, second_after, shown
from fencepost.model.nearest_name import nearest
from fencepost.model.tzif import Jump, ZoneFile, read_zone_file

DAWN, DUSK = -(1 << 40), 1 << 40  # before and after every year that dates can have
YEAR_SECONDS = 31_556_952  # of the mean Gregorian year
EPOCH_YEAR = 1970
HINT_MAX = 64
YEAR_LAST = 9998  # the last year whose rules are worked out
YEARS_MIN = 100  # of rules worked out at first; then twice as far each time
OFFSET_TEXT = re.compile(r"(?:UTC|GMT|Z)?\s*[+-]\s*\d{1,2}(?::?\d\d)?", re.IGNORECASE)


class Segment(NamedTuple):
    """A stretch of UTC, [begins, ends), in which local time is UTC plus `offset`; and the offsets beside it."""

    begins: int
    ends: int
    offset: int
    before: int
    after: int
    repeated_until: int  # where the segment before ended on the wall: in a fold, this one repeats what lies below
    repeated_from: int  # where the next one begins on the wall: in a fold, it repeats what lies above

    @property
    def gap(self) -> tuple[int, int]:
        """The wall seconds [first, last) that are jumped over when this segment begins; empty if none are."""
        return self.begins + self.before, self.begins + max(self.before, self.offset)


class Zone:
    """A time zone; equal names are equal."""

    __slots__ = ("_file", "_table", "name")

    def __init__(self, name: str, file: ZoneFile) -> None:
        self.name = name
        self._file = file
        self._table = _Table.build(file, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zone) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def segments(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the segments that touch [start, end) of UTC, oldest first."""
        table = self._reach(start)
        index = bisect_right(table.begins, start) - 1
        while True:
            if index >= len(table.segments) and not table.complete:
                table = self._reach(table.known_until)
            if index >= len(table.segments) or table.segments[index].begins >= end:
                return
            yield table.segments[index]
            index += 1

    def segments_back(self, end: int) -> Iterator[Segment]:
        """Yield the segments that begin before `end`, newest first."""
        table = self._reach(end)
        for index in range(bisect_left(table.begins, end) - 1, -1, -1):
            yield table.segments[index]

    def segment_at(self, utc: int) -> Segment:
        """Return the segment that an instant lies in."""
        table = self._reach(utc)
        return table.segments[bisect_right(table.begins, utc) - 1]

    def instants_of(self, wall: int) -> list[int]:
        """Return the instants at which the clock on the wall shows this: none in a gap, two in a fold."""
        near = self.segments(wall - 2 * DAY, wall + 2 * DAY)
        return [wall - segment.offset for segment in near if segment.begins <= wall - segment.offset < segment.ends]

    def first_from(self, wall: int) -> int:
        """Return the first instant at which the wall shows this time; in a gap, the instant at which it ends."""
        for segment in self.segments(wall - 2 * DAY, wall + 2 * DAY):
            if wall < segment.ends + segment.offset:
                return max(wall - segment.offset, segment.begins)
        raise AssertionError("local time is never two days off")

    def local(self, at: datetime) -> datetime:
        """Return an instant as local time with its offset; in UTC where the wall shows a year that has no name."""
        offset = self.segment_at(second_after(at) - 1).offset
        try:
            return at.astimezone(timezone(timedelta(seconds=offset)))
        except OverflowError:  # within hours of the beginning of year 1 or the end of 9999
            return at.astimezone(UTC)

    def _reach(self, utc: int) -> "_Table":
        """Return a table that knows what comes after an instant; replaced whole, so that threads may share a zone."""
        table = self._table
        if utc >= table.known_until and not table.complete:
            table = self._table = _Table.build(self._file, utc)
        return table


class _Table(NamedTuple):
    """The segments up to some instant, the last one with its true end."""

    begins: list[int]
    segments: list[Segment]
    known_until: int
    complete: bool

    @classmethod
    def build(cls, file: ZoneFile, utc: int) -> "_Table":
        years = max(0, utc // YEAR_SECONDS)
        until = min(YEAR_LAST, EPOCH_YEAR + years + max(years, YEARS_MIN))
        complete = not file.footer.rules or until == YEAR_LAST
        jumps = _merged(file.offset, _all_jumps(file, until))
        segments = list(_segments(file.offset, jumps))
        known_until = DUSK if complete else segments[-1].begins
        if not complete:
            segments.pop()  # its end is a jump that is not worked out yet
        return cls([segment.begins for segment in segments], segments, known_until, complete)


def _all_jumps(file: ZoneFile, year_last: int) -> Iterator[Jump]:
    yield from file.jumps
    last = file.jumps[-1].at if file.jumps else DAWN
    year_first = EPOCH_YEAR + last // YEAR_SECONDS - 1 if file.jumps else 1
    yield from (jump for jump in file.footer.jumps(max(1, year_first), year_last) if jump.at > last)


def _merged(offset: int, jumps: Iterator[Jump]) -> list[Jump]:
    """Leave out what moves no clock: a new abbreviation, or summer time renamed to standard time."""
    kept = []
    for jump in jumps:
        if jump.offset != offset:
            kept.append(jump)
            offset = jump.offset
    return kept


def _segments(offset: int, jumps: list[Jump]) -> Iterator[Segment]:
    last = jumps[-1].offset if jumps else offset
    begins, before = DAWN, offset
    for jump in [*jumps, Jump(DUSK, last)]:
        yield Segment(
            begins,
            jump.at,
            offset,
            before,
            jump.offset,
            begins + before,
            jump.at + jump.offset,
        )
        begins, before, offset = jump.at, offset, jump.offset


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone:
    """Return the zone of an IANA name, such as Europe/Berlin."""
    if name not in zone_names():
        raise Invalid(f"there is no time zone {shown(name)}: {_zone_hint(name)}")
    return Zone(name, read_zone_file(_tzdata("zoneinfo", *name.split("/"))))


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones."""
    return frozenset(_tzdata("zones").decode("ascii").split())


def _tzdata(*path: str) -> bytes:
    from importlib.resources import files  # it is slow to load, and few commands look a zone up

    return files("tzdata").joinpath(*path).read_bytes()


@lru_cache(maxsize=1)
def tzdata_version() -> str:
    """Return which release of the IANA database decides, such as 2026a."""
    return str(import_module("tzdata").IANA_VERSION)


def _zone_hint(name: str) -> str:
    if OFFSET_TEXT.fullmatch(name.strip()):
        return "an offset does not say when clocks change; name a place, such as Europe/Berlin, or UTC."
    if not name.strip():
        return "name a place, such as Europe/Berlin, or UTC."
    wanted = "_".join(name.casefold().split())[:HINT_MAX]
    known = _zones_by_word()
    meant = known.get(wanted)
    if not meant:
        # Comparing with all names would make a thousand misspelt lines take a minute.
        near = nearest(wanted, [word for word in known if word[:2] == wanted[:2]], likeness=0.75)
        meant = known[near] if near else None
    return f"did you mean {meant}?" if meant else "use an IANA name, such as Europe/Berlin or UTC."


@lru_cache(maxsize=1)
def _zones_by_word() -> dict[str, str]:
    """Return the zones by their name and by their city alone, in small letters."""
    cities = {name.rpartition("/")[2].casefold(): name for name in sorted(zone_names(), key=_prominence)}
    return cities | {name.casefold(): name for name in zone_names()}


def _prominence(name: str) -> tuple[bool, int, str]:
    """Sort names so that the modern spelling of a city (Region/City) comes last and wins."""
    return (name.count("/") == 1, -len(name), name)
