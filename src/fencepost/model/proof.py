"""Owed against recorded: every tick has one disposition, or the proof says which have none or two.

Recorded ticks are laid side by side in time. Between two of them nothing may be owed, and each covers as many as it
says. How many are owed in a stretch is counted by `owed`, which shares no code with the ticker.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from fencepost.model.definition import ScheduleDefinition
from fencepost.model.independent_ticks import LISTED_MAX, CronRule, OwedTicks, instants_of
from fencepost.model.instants import parse_instant, to_us
from fencepost.model.recorded_tick import Recorded

SECOND_US = 1_000_000
RULES_KEPT = 256


class FindingKind(StrEnum):
    """What can be wrong with a tick."""

    MISSING = "missing"
    DOUBLED = "doubled"


class ProofFinding(NamedTuple):
    """Something that should not be, and where."""

    kind: FindingKind
    schedule: str
    at_us: int | None
    number: int
    what: str


@dataclass(frozen=True, slots=True)
class ScheduleProof:
    """What a schedule owed, and what became of it."""

    schedule: str
    owed: int = 0
    accounted: int = 0
    pending: int = 0
    missing: int = 0
    doubled: int = 0
    cursor_us: int | None = None
    cursor_age_seconds: float | None = None
    findings: tuple[ProofFinding, ...] = ()
    pruned_until_us: int | None = None  # earlier records are gone; it is proved from here on

    @property
    def holds(self) -> bool:
        """Whether nothing is missing and nothing is double."""
        return not self.missing and not self.doubled


@dataclass(frozen=True, slots=True)
class TenantProof:
    """All schedules of a tenant over a window."""

    from_us: int
    until_us: int
    schedules: tuple[ScheduleProof, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing is missing and nothing is double."""
        return all(one.holds for one in self.schedules)

    def totals(self) -> dict[str, int]:
        """Return the sums, as `prove --json` ends with."""
        names = ("owed", "accounted", "pending", "missing", "doubled")
        return {name: sum(getattr(one, name) for one in self.schedules) for name in names}


@dataclass(frozen=True, slots=True)
class Reign:
    """A version, and the stretch (after_us, until_us] that it decided; what it owed there is counted here."""

    after_us: int
    until_us: int
    source: OwedTicks | None = None  # cron
    at_us: tuple[int, ...] = ()  # single instants, oldest first
    start_us: int | None = None
    end_us: int | None = None

    def count(self, start_us: int, end_us: int) -> int:
        """Count what was owed in [start_us, end_us)."""
        low, high = self._clip(start_us, end_us)
        if low >= high:
            return 0
        counted = self.source.count(_up(low), _up(high)) if self.source else 0
        return counted + len(self._alone(low, high))

    def first(self, start_us: int, end_us: int, limit: int) -> list[int]:
        """List the first ticks that were owed in [start_us, end_us)."""
        low, high = self._clip(start_us, end_us)
        if low >= high:
            return []
        found = [at * SECOND_US for at in self.source.first(_up(low), _up(high), limit)] if self.source else []
        return sorted([*found, *self._alone(low, high)])[:limit]

    def gaps(self, start_us: int, end_us: int) -> dict[int, tuple[int, int, int]]:
        """Return the slots that DST skipped: where the gap ends, how many, the first and the last wall second."""
        low, high = self._clip(start_us, end_us)
        if low >= high or self.source is None:
            return {}
        found = self.source.gaps(_up(low), _up(high))
        return {gap.at * SECOND_US: (gap.slots, gap.first, gap.last) for gap in found}

    def _alone(self, low: int, high: int) -> list[int]:
        """Return the single instants in [low, high) that no cron expression has as well."""
        near = self.at_us[bisect_left(self.at_us, low) : bisect_left(self.at_us, high)]
        return [at for at in near if self.source is None or at % SECOND_US or not self.source.has(at // SECOND_US)]

    def _clip(self, start_us: int, end_us: int) -> tuple[int, int]:
        low = max(start_us, self.after_us + 1, self.start_us or start_us)
        high = min(end_us, self.until_us + 1, end_us if self.end_us is None else self.end_us)
        return low, high


def reign_of(schedule: ScheduleDefinition, *, after_us: int, until_us: int) -> Reign | None:
    """Return what a version owed; None if its ticks are not known beforehand, or it was switched off."""
    if not schedule.enabled or schedule.every:
        return None
    rules = tuple(CronRule(cron, schedule.timezone, schedule.dst_gap, schedule.dst_fold) for cron in schedule.crons)
    return Reign(
        after_us,
        until_us,
        source=_owed(*rules) if rules else None,
        at_us=tuple(sorted({_instant_of(schedule, at) for at in schedule.ats})),
        start_us=to_us(parse_instant(schedule.start)) if schedule.start else None,
        end_us=to_us(parse_instant(schedule.end)) if schedule.end else None,
    )


@lru_cache(maxsize=RULES_KEPT)
def _owed(*rules: CronRule) -> OwedTicks:
    """Share what was counted among the versions, and the schedules, that have the same rules."""
    return OwedTicks(*rules)


def _instant_of(schedule: ScheduleDefinition, at: str) -> int:
    """Read a one-shot's instant: with an offset as it stands, else as wall time of its zone."""
    wall = datetime.fromisoformat(at.strip().upper())
    if wall.tzinfo is not None:
        return to_us(wall)
    seconds = (wall - datetime(1970, 1, 1)).days * 86_400 + (wall - datetime(1970, 1, 1)).seconds  # noqa: DTZ001  # wall time on both sides
    zone = schedule.timezone or "UTC"
    found = instants_of(zone, seconds)
    while not found:  # in a gap that is shifted: the first second after it
        seconds += 1
        found = instants_of(zone, seconds)
    return (found[-1] if schedule.dst_fold == "last" else found[0]) * SECOND_US


@dataclass(slots=True)
class Sweep:
    """Goes along the recorded ticks of one schedule, oldest first, and notes what does not add up."""

    schedule: str
    reigns: Sequence[Reign]
    from_us: int
    until_us: int  # up to here everything must be decided
    accounted: int = 0
    missing: int = 0
    doubled: int = 0
    findings: list[ProofFinding] = field(default_factory=list)

    def run(self, rows: Iterable[Recorded]) -> None:
        """Lay the rows side by side."""
        position = self.from_us
        gaps: dict[int, int] = {}
        for row in sorted(rows, key=lambda row: (row.start_us, row.end_us)):
            if row.disposition == "dst_gap":
                gaps[row.start_us] = gaps.get(row.start_us, 0) + row.number
                continue
            self._empty(position, row.start_us)
            self._row(row, position)
            position = max(position, row.end_us + 1)
        self._empty(position, self.until_us)
        self._gaps(gaps)

    def count(self, start_us: int, end_us: int) -> int:
        """Count what was owed in a stretch."""
        return sum(reign.count(start_us, end_us) for reign in self.reigns)

    def _row(self, row: Recorded, position: int) -> None:
        twice = self.count(row.start_us, min(position, row.end_us + 1)) if row.start_us < position else 0
        twice -= self.count(row.start_us, min(self.from_us, row.end_us + 1)) if row.start_us < self.from_us else 0
        if twice > 0:
            self._note(FindingKind.DOUBLED, row.start_us, twice, f"{row.occurrence} is recorded twice")
        owed = self.count(row.start_us, row.end_us + 1)
        if row.number > owed:
            what = f"{row.occurrence} counts {row.number}, and {owed} were owed"
            self._note(FindingKind.DOUBLED, row.start_us, row.number - owed, what)
        elif row.number < owed:
            what = f"{row.occurrence} counts {row.number} of {owed} that were owed"
            self._note(FindingKind.MISSING, row.start_us, owed - row.number, what)
        inside = self.count(max(row.start_us, self.from_us, position), min(row.end_us + 1, self.until_us))
        self.accounted += min(inside, row.number)

    def _empty(self, start_us: int, end_us: int) -> None:
        """Nothing may be owed where nothing is recorded."""
        number = self.count(start_us, end_us) if start_us < end_us else 0
        if not number:
            return
        self.missing += number
        listed = [at for reign in self.reigns for at in reign.first(start_us, end_us, LISTED_MAX)][:LISTED_MAX]
        for at in listed:
            self.findings.append(_missing(self.schedule, at, 1, "no disposition"))
        if number > len(listed):
            self.findings.append(_missing(self.schedule, None, number - len(listed), "no disposition, and so on"))

    def _gaps(self, recorded: dict[int, int]) -> None:
        expected: dict[int, int] = {}
        for reign in self.reigns:
            expected.update({at: slots for at, (slots, _, _) in reign.gaps(self.from_us, self.until_us).items()})
        for at in sorted(expected.keys() | recorded.keys()):
            owed, found = expected.get(at, 0), recorded.get(at, 0)
            self.accounted += min(owed, found)
            if found < owed:
                self._note(FindingKind.MISSING, at, owed - found, "slots that the clock jumped over are not recorded")
            elif found > owed and at in expected:
                self._note(FindingKind.DOUBLED, at, found - owed, "slots that the clock jumped over are recorded twice")

    def _note(self, kind: FindingKind, at_us: int | None, number: int, what: str) -> None:
        if kind is FindingKind.MISSING:
            self.missing += number
        else:
            self.doubled += number
        self.findings.append(ProofFinding(kind, self.schedule, at_us, number, what))


def _missing(schedule: str, at_us: int | None, number: int, what: str) -> ProofFinding:
    return ProofFinding(FindingKind.MISSING, schedule, at_us, number, what)


def remapped(row: Recorded, *, tzdata: str) -> Recorded:
    """Return a row where today's tzdata puts its slots, which may not be where they were when it was decided."""
    if row.tzdata == tzdata or row.occurrence.count("|") != 2:  # noqa: PLR2004  # zone|slot|fold
        return row
    zone, _, fold = row.occurrence.split("|")
    first, last = _where(zone, row.slot, int(fold)), _where(zone, row.slot_until, int(fold))
    if first is None or last is None:
        return row._replace(disposition="dst_gap") if row.disposition != "dst_gap" else row
    if row.disposition == "dst_gap":
        return row._replace(start_us=first, end_us=last, disposition="missed")
    ranged = row.number > 1
    return row._replace(start_us=first, end_us=max(first, last) if ranged else first)


def _where(zone: str, slot: str, fold: int) -> int | None:
    wall = datetime.fromisoformat(slot) - datetime(1970, 1, 1)  # noqa: DTZ001  # the wall has no zone
    found = instants_of(zone, wall.days * 86_400 + wall.seconds)
    return found[min(fold, len(found) - 1)] * SECOND_US if found else None


def _up(us: int) -> int:
    return -(-us // SECOND_US)
