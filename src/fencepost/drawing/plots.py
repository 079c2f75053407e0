"""Small plots: bars and lines per day or hour, with an axis that is easy to read. Pure; a door draws what this returns."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise
from typing import NamedTuple

from fencepost.drawing.scale import Label, days, next_day, steps_up_to
from fencepost.ports.charts import AttemptFact, DayFact, TickBin

SECOND_US = 1_000_000
MINUTE, HOUR = 60.0, 3600.0
CENT = 0.01


class Part(NamedTuple):
    """One part of a column, from `low` to `high` of the height."""

    kind: str
    low: float
    high: float
    value: float


class Column(NamedTuple):
    """A day or an hour: its place, its parts from the bottom up, and what it says."""

    x: float
    w: float
    parts: Sequence[Part]
    told: str


class Step(NamedTuple):
    """A place on the axis of values."""

    place: float  # from the bottom
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A small picture with a title, a unit and an axis each way."""

    title: str
    unit: str
    columns: Sequence[Column]
    steps: Sequence[Step]
    labels: Sequence[Label]
    kinds: Sequence[str]
    lines: Mapping[str, Sequence[tuple[float, float]]]  # by kind: places
    total: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see."""
        return not any(one.parts for one in self.columns) and not any(self.lines.values())


class Buckets(NamedTuple):
    """Where each day or hour begins, the end of the last one too, and what it is called."""

    edges: Sequence[int]
    names: Sequence[str]
    labels: Sequence[Label]

    def find(self, us: int) -> int | None:
        """Return in which bucket an instant lies."""
        if not self.edges[0] <= us < self.edges[-1]:
            return None
        return bisect_right(self.edges, us) - 1


def by_day(from_us: int, until_us: int, zone: tzinfo) -> Buckets:
    """Cut a stretch of time into local days."""
    found = list(days(from_us, until_us, zone))
    edges = [start for start, _ in found]
    last, _ = next_day(found[-1][1])
    names = [f"{day:%a} {day.day} {day:%b}" for _, day in found]
    number = len(found)
    labels = [
        Label((place + 0.5) / number, f"{day.day} {day:%b}", strong=True)
        for place, (_, day) in enumerate(found)
        if day.weekday() == 0
    ]
    return Buckets([*edges, last], names, labels)


def by_hour(now_us: int, hours: int) -> Buckets:
    """Cut the last hours into hours, the one that is under way included; in UTC."""
    hour_us = round(HOUR * SECOND_US)
    end_us = (now_us // hour_us + 1) * hour_us
    edges = list(range(end_us - hours * hour_us, end_us + 1, hour_us))
    names = [f"{edge // hour_us % 24:02d}:00" for edge in edges[:-1]]
    labels = [
        Label((place + 0.5) / hours, name, strong=name == "00:00")
        for place, (edge, name) in enumerate(zip(edges, names, strict=False))
        if edge // hour_us % 6 == 0
    ]
    return Buckets(edges, names, labels)


def stacked(
    title: str,
    unit: str,
    buckets: Buckets,
    values: Sequence[Mapping[str, float]],
    kinds: Sequence[str],
    *,
    whole: bool = True,
    total: str = "",
) -> Plot:
    """Stack the kinds of each bucket, in the order in which they are named."""
    highest = max((sum(one.get(kind, 0) for kind in kinds) for one in values), default=0)
    steps = steps_up_to(highest or 1, whole=whole)
    columns = []
    for place, one in enumerate(values):
        parts, low = [], 0.0
        for kind in kinds:
            if one.get(kind):
                high = low + one[kind] / steps[-1]
                parts.append(Part(kind, low, high, one[kind]))
                low = high
        said = ", ".join(f"{_figure(part.value, unit)} {part.kind}" for part in parts) or "nothing"
        columns.append(Column(place / len(values), 1 / len(values), parts, f"{buckets.names[place]}: {said}"))
    present = [kind for kind in kinds if any(one.get(kind) for one in values)]
    return Plot(title, unit, columns, _steps(steps, unit), buckets.labels, present, {}, total)


def durations(facts: Iterable[DayFact], buckets: Buckets) -> Plot:
    """Draw the median and the 95th percentile of how long runs took, per day."""
    marks: list[tuple[float, float] | None] = [None] * len(buckets.names)
    ended = [0] * len(buckets.names)
    for one in facts:
        ended[one.day] = one.succeeded + one.cancelled + one.dead
        if one.p50_us is not None and one.p95_us is not None:
            marks[one.day] = (one.p50_us / SECOND_US, one.p95_us / SECOND_US)
    most = max((high for pair in marks if pair for high in pair), default=1.0) or 1.0
    unit, size = ("s", 1.0) if most < 2 * MINUTE else ("min", MINUTE) if most < 2 * HOUR else ("h", HOUR)
    steps = steps_up_to(most / size)
    columns: list[Column] = []
    lines: dict[str, list[tuple[float, float]]] = {"p50": [], "p95": []}
    for place, pair in enumerate(marks):
        x, w = place / len(marks), 1 / len(marks)
        if pair is None:
            columns.append(Column(x, w, (), f"{buckets.names[place]}: no run ended"))
            continue
        p50, p95 = (one / size / steps[-1] for one in pair)
        lines["p50"].append((x + w / 2, p50))
        lines["p95"].append((x + w / 2, p95))
        said = f"{ended[place]} ended; p50 {pair[0] / size:.3g} {unit}, p95 {pair[1] / size:.3g} {unit}"
        columns.append(Column(x, w, (Part("range", p50, p95, pair[1]),), f"{buckets.names[place]}: {said}"))
    return Plot("Duration", unit, columns, _steps(steps, unit), buckets.labels, ("p50", "p95"), lines)


def costs(facts: Iterable[DayFact], buckets: Buckets) -> Plot:
    """Draw what runs cost, on the day on which it counts."""
    values = [{"cost": 0.0} for _ in buckets.names]
    for one in facts:
        values[one.day]["cost"] = one.cost_micro / SECOND_US
    total = sum(one["cost"] for one in values)
    return stacked("Cost", "$", buckets, values, ("cost",), whole=False, total=f"${total:,.2f} in all")


def outcomes(facts: Iterable[DayFact], buckets: Buckets) -> Plot:
    """Draw how many runs ended how, per day."""
    kinds = ("succeeded", "cancelled", "dead")
    counts: list[dict[str, float]] = [{} for _ in buckets.names]
    for one in facts:
        counts[one.day] = {kind: getattr(one, kind) for kind in kinds}
    return stacked("Runs", "", buckets, counts, kinds)


def dispositions(bins: Iterable[TickBin], buckets: Buckets, kinds: Sequence[str]) -> Plot:
    """Draw what became of ticks, per day; the bins are the buckets."""
    counts = [Counter[str]() for _ in buckets.names]
    for one in bins:
        if 0 <= one.bin < len(counts):
            counts[one.bin][one.disposition] += one.count
    return stacked("Ticks by what became of them", "", buckets, counts, kinds)


def queue_depth(facts: Iterable[AttemptFact], buckets: Buckets, now_us: int) -> Plot:
    """Draw how many runs waited at the same time, at most, in each hour."""
    changes: list[tuple[int, int]] = []
    for one in facts:
        if one.number in (None, 1):
            end_us = one.started_us or one.run_ended_us or now_us
            changes += [(one.created_us, 1), (end_us, -1)] if end_us - one.created_us >= SECOND_US else []
    deepest = _deepest(changes, buckets.edges)
    return stacked("Waiting at once", "", buckets, [{"waiting": one} for one in deepest], ("waiting",))


def starts(facts: Sequence[AttemptFact], buckets: Buckets) -> Plot:
    """Draw how many attempts began in each hour, those apart that took over from a holder that was lost."""
    lost = {(one.run_id, one.number) for one in facts if one.outcome == "lost"}
    counts = [Counter[str]() for _ in buckets.names]
    for one in facts:
        place = None if one.started_us is None else buckets.find(one.started_us)
        if place is not None:
            taken = one.number is not None and (one.run_id, one.number - 1) in lost
            counts[place]["takeover" if taken else "start"] += 1
    return stacked("Starts and takeovers", "", buckets, counts, ("start", "takeover"))


def _deepest(changes: list[tuple[int, int]], edges: Sequence[int]) -> list[int]:
    """Return the highest sum of all changes so far within each bucket; an end at an instant comes before a beginning."""
    ordered, depth, at, found = sorted(changes), 0, 0, []
    for start_us, end_us in pairwise(edges):
        while at < len(ordered) and ordered[at][0] < start_us:
            depth += ordered[at][1]
            at += 1
        deepest = depth
        while at < len(ordered) and ordered[at][0] < end_us:
            depth += ordered[at][1]
            deepest = max(deepest, depth)
            at += 1
        found.append(deepest)
    return found


def _steps(values: Sequence[float], unit: str) -> list[Step]:
    whole = all(value == int(value) for value in values)
    return [Step(value / values[-1], _figure(value, unit, whole=whole)) for value in values]


def _figure(value: float, unit: str, *, whole: bool = False) -> str:
    """Spell a number with its unit; money has cents, unless every number beside it is whole."""
    cents = unit == "$" and not whole and (value == 0 or value >= CENT)
    number = f"{value:,.2f}" if cents else f"{value:,.6g}"
    return f"${number}" if unit == "$" else f"{number} {unit}" if unit else number
