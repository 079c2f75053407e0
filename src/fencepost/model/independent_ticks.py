"""Which ticks a schedule owed, worked out in another way than the ticker's, so that one can be proof of the other.

Only the grammar of a cron field is shared. Days are matched one by one on the calendar, zones are Python's own
`zoneinfo`, jumps of local time are found by comparing offsets from day to day, and every hour in which the wall does
not run straight is walked through second by second. Straight days are counted, so that many ticks cost no more than few.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from itertools import accumulate
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from fencepost.model.cron import FIELDS, MACROS
from fencepost.model.cron_fields import Matches, parse_field

DAY = 86_400
HOUR = 3600
HOURS = 24
WEEK = 7
EPOCH_DAY = date(1970, 1, 1).toordinal()
WITH_SECONDS = 6
NEAR = 2  # a day's slots lie within two days of UTC
ZONES_KEPT = 64
LISTED_MAX = 20


class LocalJump(NamedTuple):
    """Where local time jumps: the instant, and the offsets before and after, all in seconds."""

    at: int
    before: int
    after: int


class Gap(NamedTuple):
    """Slots that do not exist: where their gap ends, how many there are, the first and the last on the wall."""

    at: int
    slots: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CronRule:
    """A cron expression in a zone, as its owner wrote it."""

    cron: str
    zone: str
    gap: str
    fold: str


class _Rule:
    """What one rule says about days, and about the slots of a day."""

    def __init__(self, rule: CronRule) -> None:
        fields = _fields(rule.cron)
        self._day, self._month, self._weekday = fields[3], fields[4], fields[5]
        self.slots = _slots_of_day(fields)
        self.fold = rule.fold if rule.fold != "auto" else ("both" if fields[2].star else "first")

    def match(self, day: int) -> bool:
        """Match a day on the calendar by the rule of Vixie's cron."""
        on = date.fromordinal(day + EPOCH_DAY)
        if not self._month.bits >> on.month & 1:
            return False
        first = (on.replace(day=1).isoweekday()) % WEEK
        length = monthrange(on.year, on.month)[1]
        by_day = _is_day(self._day, on.day, on.day, first, length)
        by_weekday = _is_day(self._weekday, on.isoweekday() % WEEK, on.day, first, length)
        if self._day.star or self._weekday.star:
            return by_day and by_weekday
        return by_day or by_weekday

    def chosen(self, instants: list[int]) -> list[int]:
        """Choose between the two times at which the wall shows a slot."""
        if len(instants) < 2 or self.fold == "both":  # noqa: PLR2004  # the wall shows it once, or never
            return instants
        return instants[:1] if self.fold == "first" else instants[-1:]


class OwedTicks:
    """The instants of one rule or more, in seconds since 1970, that can be counted and, where few, listed.

    All rules have one zone and one policy for gaps. What several of them ask for is owed once.
    """

    def __init__(self, *rules: CronRule) -> None:
        self._zone, self._gap = rules[0].zone, rules[0].gap
        self._rules = [_Rule(rule) for rule in rules]
        self._days: dict[int, list[int]] = {}
        self._known: dict[int, tuple[int, ...]] = {}
        self._joined: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._base: int | None = None
        self._sums: list[int] = []  # of the ticks on the days from the base on
        self._moved: list[int] = []  # shifted ticks on those days

    def count(self, start: int, end: int) -> int:
        """Count the ticks in [start, end)."""
        return 0 if end <= start else self._before(end, start) - self._before(start, start)

    def first(self, start: int, end: int, limit: int = LISTED_MAX) -> list[int]:
        """List the first ticks in [start, end)."""
        found: set[int] = set()
        for day in range(start // DAY - NEAR, end // DAY + NEAR + 1):
            if not self._matches(day):
                continue
            found.update(at for at in self._instants(day) if start <= at < end)
            if len(found) >= limit and day > start // DAY + NEAR:
                break
        found.update(at for at in self._shifted(start, end))
        return sorted(found)[:limit]

    def has(self, at: int) -> bool:
        """Tell whether there is a tick at this second."""
        return bool(self.count(at, at + 1))

    def gaps(self, start: int, end: int) -> list[Gap]:
        """Return the slots that were skipped in gaps that end in [start, end)."""
        return list(self._gaps(start, end)) if self._gap == "skip" else []

    def _before(self, at: int, origin: int) -> int:
        """Count the ticks before an instant and after some fixed day; differences are what matters."""
        day = at // DAY
        self._reach(min(day, origin // DAY) - NEAR, day + NEAR)
        assert self._base is not None
        near = range(day - NEAR, day + NEAR + 1)
        whole = self._sums[day - NEAR - self._base]
        part = sum(bisect_left(self._instants(one), at) for one in near if self._matches(one))
        return whole + part + bisect_left(self._moved, at)

    def _reach(self, first: int, last: int) -> None:
        """Sum up the days from a base on, once."""
        if self._base is None or first < self._base:
            until = last if self._base is None else max(last, self._base + len(self._sums))
            self._base, self._sums, self._moved = first, [0], []
            self._extend(until)
        else:
            self._extend(last)

    def _extend(self, last: int) -> None:
        assert self._base is not None
        known = self._base + len(self._sums) - 1
        counts = (len(self._instants(day)) if self._matches(day) else 0 for day in range(known, last + 1))
        self._sums += list(accumulate(counts, initial=self._sums[-1]))[1:]
        if known <= last:
            self._moved += self._shifted(known * DAY, (last + 1) * DAY)

    def _matches(self, day: int) -> bool:
        return bool(self._matching(day))

    def _matching(self, day: int) -> tuple[int, ...]:
        """Return which rules a day matches."""
        found = self._known.get(day)
        if found is None:
            found = self._known[day] = tuple(n for n, rule in enumerate(self._rules) if rule.match(day))
        return found

    def _slots_on(self, day: int) -> tuple[int, ...]:
        which = self._matching(day)
        if len(which) == 1:
            return self._rules[which[0]].slots
        if which not in self._joined:
            self._joined[which] = tuple(sorted({slot for n in which for slot in self._rules[n].slots}))
        return self._joined[which]

    def _instants(self, day: int) -> Sequence[int]:
        """Return when the slots of a local day happen; shifted ones are counted elsewhere."""
        offset = _straight(self._zone, day)
        if offset is not None:
            return _Straight(self._slots_on(day), day * DAY - offset)
        if day not in self._days:
            found = {at for n in self._matching(day) for at in self._walk(self._rules[n], day)}
            self._days[day] = sorted(found)
        return self._days[day]

    def _walk(self, rule: _Rule, day: int) -> Iterator[int]:
        for hour in range(HOURS):
            wall = day * DAY + hour * HOUR
            low, high = (bisect_left(rule.slots, edge * HOUR) for edge in (hour, hour + 1))
            offset = _same_offset(self._zone, wall)
            for slot in rule.slots[low:high]:
                at = day * DAY + slot
                yield from [at - offset] if offset is not None else rule.chosen(instants_of(self._zone, at))

    def _gaps(self, start: int, end: int) -> Iterator[Gap]:
        for jump in jumps(self._zone, start - 1, end):
            if jump.after > jump.before and start <= jump.at < end:
                first, last = jump.at + jump.before, jump.at + jump.after
                walls = [at for at in self._walls(first, last) if first <= at < last]
                if walls:
                    yield Gap(jump.at, len(walls), walls[0], walls[-1])

    def _walls(self, first: int, last: int) -> Iterator[int]:
        for day in range(first // DAY, last // DAY + 1):
            if self._matches(day):
                yield from (day * DAY + slot for slot in self._slots_on(day))

    def _shifted(self, start: int, end: int) -> Iterator[int]:
        """Yield where a gap ends whose slots moved there, unless a regular tick is there anyway."""
        if self._gap != "shift":
            return
        for gap in self._gaps(start, end):
            offset = _offset(self._zone, gap.at)
            day, slot = divmod(gap.at + offset, DAY)
            if not (self._matches(day) and slot in self._slots_on(day)):
                yield gap.at


class _Straight(Sequence[int]):
    """The slots of a day on which the wall runs straight, without a list of them."""

    __slots__ = ("_base", "_slots")

    def __init__(self, slots: tuple[int, ...], base: int) -> None:
        self._slots = slots
        self._base = base

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401  # of a sequence; only single ones are asked for
        return self._base + self._slots[index]


def _fields(text: str) -> list[Matches]:
    words = MACROS.get(text.strip().lower(), text).upper().split()
    if len(words) < WITH_SECONDS:
        words.insert(0, "0")
    return [parse_field(field, word) for field, word in zip(FIELDS, words, strict=True)]


def _slots_of_day(fields: list[Matches]) -> tuple[int, ...]:
    second, minute, hour = ([n for n in range(60) if one.bits >> n & 1] for one in fields[:3])
    return tuple(h * HOUR + m * 60 + s for h in hour for m in minute for s in second)


def _is_day(field: Matches, value: int, day: int, first: int, length: int) -> bool:
    return bool(field.bits >> value & 1) or any(rule(first, length) == day for rule in field.days)


@lru_cache(maxsize=ZONES_KEPT)
def _zone(name: str) -> ZoneInfo:
    """Load a zone from the tzdata package, not from the system, so that both derivations read the same release."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _offset(zone: str, at: int) -> int:
    offset = datetime.fromtimestamp(at, UTC).astimezone(_zone(zone)).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


@lru_cache(maxsize=1 << 17)
def _offset_of_day(zone: str, day: int) -> int:
    return _offset(zone, day * DAY)


def _straight(zone: str, day: int) -> int | None:
    """Return the offset of a day if it is the same from two days before to three days after."""
    offsets = {_offset_of_day(zone, near) for near in range(day - NEAR, day + NEAR + 2)}
    return offsets.pop() if len(offsets) == 1 else None


@lru_cache(maxsize=1 << 12)
def _same_offset(zone: str, wall: int) -> int | None:
    """Return the offset of an hour on the wall in which every time exists once."""
    begin, end = instants_of(zone, wall), instants_of(zone, wall + HOUR - 1)
    if len(begin) == len(end) == 1 and end[0] - begin[0] == HOUR - 1:
        edges = {_offset(zone, at) for at in range(begin[0] - HOUR, end[0] + HOUR + 1, 60)}
        return wall - begin[0] if len(edges) == 1 else None
    return None


def instants_of(zone: str, wall: int) -> list[int]:
    """Return when the wall shows a time: never in a gap, twice in a fold."""
    naive = datetime(1970, 1, 1) + timedelta(seconds=wall)  # noqa: DTZ001  # the wall has no zone
    found = set()
    for fold in (0, 1):
        at = naive.replace(tzinfo=_zone(zone), fold=fold).astimezone(UTC)
        if at.astimezone(_zone(zone)).replace(tzinfo=None) == naive:
            found.add(int(at.timestamp()))
    return sorted(found)


def jumps(zone: str, start: int, end: int) -> Iterator[LocalJump]:
    """Yield where local time jumps in [start, end], to the second."""
    for day in range(start // DAY, end // DAY + 1):
        before, after = _offset_of_day(zone, day), _offset_of_day(zone, day + 1)
        if before != after:
            low, high = day * DAY, (day + 1) * DAY
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            yield LocalJump(high, before, after)
