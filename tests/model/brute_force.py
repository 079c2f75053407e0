"""An oracle that shares nothing with the product but the tzdata package: it walks clocks minute by minute.

Zones come from Python's zoneinfo, jumps are found by looking at every day, and what a policy means is
decided from the list of instants at which the wall shows a time.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def zoneinfo_of(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=1)
def distinct_zones() -> list[str]:
    """One name for each different zone file; the others are links to it."""
    root = resources.files("tzdata").joinpath("zoneinfo")
    by_content: dict[bytes, str] = {}
    for name in resources.files("tzdata").joinpath("zones").read_text("ascii").split():
        by_content.setdefault(root.joinpath(*name.split("/")).read_bytes(), name)
    return sorted(by_content.values())


def offset_at(zone: ZoneInfo, at: datetime) -> timedelta:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def jumps(zone: ZoneInfo, year_first: int, year_last: int) -> Iterator[datetime]:
    """Yield the instants at which the offset changes, to the second."""
    at = datetime(year_first, 1, 1, tzinfo=UTC)
    step = timedelta(days=5)  # no two jumps of a zone are that near each other
    while at.year <= year_last:
        if offset_at(zone, at) != offset_at(zone, at + step):
            yield bisect_jump(zone, at, at + step)
        at += step


def bisect_jump(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    before = offset_at(zone, low)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
    return high


@dataclass(frozen=True)
class Walk:
    """Every minute of [start, end) in a zone, with a margin wide enough to see both sides of a fold."""

    start: datetime
    end: datetime
    instants: dict[datetime, list[datetime]]  # wall -> the instants that show it
    missing: dict[datetime, datetime]  # wall -> the instant at which its gap ends

    @classmethod
    def around(cls, zone: ZoneInfo, jump: datetime, hours: int = 4) -> "Walk":
        width = abs(offset_at(zone, jump) - offset_at(zone, jump - MINUTE))
        reach = timedelta(hours=hours) + (width if width > timedelta(hours=3) else timedelta(0))
        return cls.over(zone, jump - reach, jump + reach, margin=width + MINUTE)

    @classmethod
    def over(cls, zone: ZoneInfo, start: datetime, end: datetime, margin: timedelta) -> "Walk":
        instants: dict[datetime, list[datetime]] = defaultdict(list)
        missing: dict[datetime, datetime] = {}
        at = start - margin
        last: datetime | None = None
        while at < end + margin:
            wall = at.astimezone(zone).replace(tzinfo=None)
            instants[wall.replace(fold=0)].append(at)
            while last is not None and wall - last > MINUTE:
                last += MINUTE
                missing[last.replace(fold=0)] = at
            last = wall
            at += MINUTE
        return cls(start, end, instants, missing)

    def fired(self, slots: set[datetime], gap: str, fold: str) -> list[datetime]:
        found: set[datetime] = set()
        for wall in slots:
            shown = self.instants.get(wall, [])
            found.update({"first": shown[:1], "last": shown[-1:], "both": shown}[fold])
            if gap == "shift" and wall in self.missing:
                found.add(self.missing[wall])
        return sorted(at for at in found if self.start <= at < self.end)

    def skipped(self, slots: set[datetime], gap: str) -> list[datetime]:
        ends = {wall: self.missing[wall] for wall in slots if wall in self.missing}
        return sorted(wall for wall, end in ends.items() if gap == "skip" and self.start <= end < self.end)

    @property
    def walls(self) -> set[datetime]:
        return set(self.instants) | set(self.missing)
