"""The timeline: a row for each schedule, project or worker, a bar for each attempt, a mark for each tick without a run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from fencepost.drawing.lanes import Bar, Block, Laid, lay
from fencepost.drawing.scale import TimeScale
from fencepost.model.run import RunState
from fencepost.ports.charts import AttemptFact, RunBin, RunlessTick

WIDTH = 1000.0  # what the eye is taken to tell apart on a page; a terminal has its columns
PHONE = 340.0  # and on a phone, where marks are as large as on a page
MARKS_APART, NUMBERS_APART = 11.0, 18.0  # beside a mark for several ticks stands how many
KINDS = ("running", "succeeded", "failed", "lost", "dead", "cancelled", "waiting")
LIVING = (RunState.READY, RunState.RUNNING)


class By(StrEnum):
    """What a row is."""

    SCHEDULE = "schedule"
    PROJECT = "project"
    WORKER = "worker"


class TickMark(NamedTuple):
    """Ticks without a run that are close together; from x to x + w."""

    x: float
    w: float
    counts: Mapping[str, int]  # by disposition
    first_us: int
    last_us: int

    @property
    def count(self) -> int:  # type: ignore[override]  # the tuple's own method is not missed
        """How many ticks there are."""
        return sum(self.counts.values())

    @property
    def kind(self) -> str:
        """The disposition that most of them share."""
        return max(self.counts, key=lambda one: (self.counts[one], one))


class Takeover(NamedTuple):
    """A run that went from a holder that was lost to the next one, with the higher fence."""

    run_id: str
    old: AttemptFact
    new: AttemptFact
    old_at: tuple[int, int, float]  # row, lane, x
    new_at: tuple[int, int, float]


@dataclass(slots=True)
class Row:
    """One schedule, project or worker."""

    key: str
    laid: Laid
    marks: list[TickMark]
    phone_marks: list[TickMark]  # the same ticks, joined for a phone
    runs: Counter[str] = field(default_factory=Counter)  # by kind
    skips: Counter[str] = field(default_factory=Counter)  # ticks, by disposition
    cost_micro: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn."""

    scale: TimeScale
    by: By
    rows: Sequence[Row]
    facts: Sequence[AttemptFact]
    takeovers: Sequence[Takeover]
    resumed: frozenset[int]  # places of the facts that went on where their predecessor had stopped


def draw(
    scale: TimeScale,
    by: By,
    facts: Sequence[AttemptFact],
    ticks: Sequence[RunlessTick],
    bins: Sequence[RunBin] = (),
    *,
    now_us: int,
    width: float = WIDTH,
) -> Picture:
    """Lay everything out; what is counted in is drawn, one by one or in a block."""
    chains = _chains(facts)
    alone = {place for pair in _handed_over(facts, chains) for place in pair}
    keys = [_row_of(by, one.schedule, one.agent, one.project, one.worker) for one in facts]
    bars: dict[str, list[Bar]] = defaultdict(list)
    for place, bar in _bars(scale, facts, chains, alone, now_us):
        bars[keys[place]].append(bar)
    blocks = _bin_blocks(scale, by, bins)
    marks: dict[str, list[RunlessTick]] = defaultdict(list)
    for tick in ticks:
        marks[_row_of(by, tick.schedule, "", tick.project, None)].append(tick)
    rows = []
    for key in sorted({*bars, *blocks, *marks}, key=lambda one: (one == "", one)):
        laid = lay(bars[key], [block for block, _ in blocks.get(key, ())], width=width)
        row = Row(key, laid, _marks(scale, marks[key], width), _marks(scale, marks[key], PHONE))
        for block, cost_micro in blocks.get(key, ()):
            row.runs.update(block.counts)
            row.cost_micro += cost_micro
        rows.append(row)
    _count(rows, {row.key: row for row in rows}, keys, facts, chains)
    places = {bar.thing: (at, bar) for at, row in enumerate(rows) for bar in row.laid.bars}
    return Picture(scale, by, rows, facts, list(_takeovers(facts, chains, places)), frozenset(_resumed(facts, chains)))


def kind_of(fact: AttemptFact, *, last: bool) -> str:
    """Say how an attempt stands or ended; the last one ended as its run did."""
    if fact.number is None:
        return "waiting" if fact.state in LIVING else fact.state
    if fact.ended_us is None:
        return "running"
    if last and fact.state not in LIVING:
        return fact.state
    return "lost" if fact.outcome == "lost" else "succeeded" if fact.outcome == "succeeded" else "failed"


def holder(worker: str | None) -> str:
    """Return the machine of a worker: its process changes with every start."""
    return (worker or "").partition(":")[0]


def _row_of(by: By, schedule: str | None, agent: str, project: str | None, worker: str | None) -> str:
    if by is By.PROJECT:
        return project or ""
    if by is By.WORKER:
        return holder(worker)
    return schedule or (f"agent {agent}" if agent else "")


def _chains(facts: Sequence[AttemptFact]) -> dict[str, list[int]]:
    """Return the places of each run's attempts, oldest first."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(facts):
        found[one.run_id].append(place)
    for places in found.values():
        places.sort(key=lambda place: facts[place].fence or 0)
    return found


def _bars(
    scale: TimeScale,
    facts: Sequence[AttemptFact],
    chains: Mapping[str, Sequence[int]],
    alone: set[int],
    now_us: int,
) -> Iterator[tuple[int, Bar]]:
    for places in chains.values():
        before_us: int | None = None
        for place in places:
            one = facts[place]
            kind = kind_of(one, last=place == places[-1])
            ready_us = one.created_us if before_us is None else before_us
            before_us = one.ended_us
            start_us = one.started_us or one.run_ended_us or now_us
            end_us = one.ended_us or (now_us if kind in ("running", "waiting") else start_us)
            if end_us < scale.from_us or min(ready_us, start_us) >= scale.until_us:
                continue
            x = scale.place(start_us)
            lead = scale.place(ready_us) if ready_us < start_us and ready_us < scale.until_us else None
            yield (
                place,
                Bar(x, scale.place(max(start_us, end_us)) - x, kind, place, lead, place in alone or kind == "waiting"),
            )


def _bin_blocks(scale: TimeScale, by: By, bins: Iterable[RunBin]) -> dict[str, list[tuple[Block, int]]]:
    """Turn counts of the store into blocks, those of one row and one bin into one."""
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    extents: dict[tuple[str, int], tuple[int, int]] = {}
    costs: Counter[tuple[str, int]] = Counter()
    for one in bins:
        at = (_row_of(by, one.schedule, one.agent, one.project, one.worker), one.bin)
        counts[at][one.state] += one.count
        costs[at] += one.cost_micro or 0
        start_us, end_us = extents.get(at, (one.start_us, one.start_us))
        extents[at] = min(start_us, one.start_us), max(end_us, one.end_us)
    found: dict[str, list[tuple[Block, int]]] = defaultdict(list)
    for (key, place), kinds in sorted(counts.items()):
        start_us, end_us = extents[key, place]
        following = extents.get((key, place + 1), (scale.until_us, 0))[0]
        x = scale.place(start_us)
        found[key].append((Block(x, max(0.0, scale.place(min(end_us, following)) - x), kinds), costs[key, place]))
    return found


def _marks(scale: TimeScale, ticks: Iterable[RunlessTick], width: float) -> list[TickMark]:
    """Join ticks that lie too close together to be told apart, oldest first; ranges keep their length."""
    found: list[TickMark] = []
    for one in sorted(ticks, key=lambda one: one.tick_us):
        x = scale.place(one.tick_us)
        end = scale.place(one.tick_until_us)
        apart = MARKS_APART if one.count == 1 and (not found or found[-1].count == 1) else NUMBERS_APART
        if found and (x - found[-1].x - found[-1].w) * width < apart:
            last = found.pop()
            counts = Counter(last.counts)
            counts[one.disposition] += one.count
            reach = max(last.x + last.w, end) - last.x
            found.append(TickMark(last.x, reach, counts, last.first_us, max(last.last_us, one.tick_until_us)))
        else:
            found.append(TickMark(x, end - x, {one.disposition: one.count}, one.tick_us, one.tick_until_us))
    return found


def _count(
    rows: Sequence[Row],
    by_key: Mapping[str, Row],
    keys: Sequence[str],
    facts: Sequence[AttemptFact],
    chains: Mapping[str, Sequence[int]],
) -> None:
    """Sum each row up: runs where their last attempt stands, ticks as often as they were due."""
    drawn = {bar.thing for row in rows for bar in row.laid.bars}
    drawn |= {thing for row in rows for block in row.laid.blocks for thing in block.things}
    for places in chains.values():
        last = places[-1]
        if last in drawn and keys[last] in by_key:
            row = by_key[keys[last]]
            row.runs[kind_of(facts[last], last=True)] += 1
            row.cost_micro += facts[last].cost_micro or 0
    for row in rows:
        for mark in row.marks:
            row.skips.update(mark.counts)


def _handed_over(facts: Sequence[AttemptFact], chains: Mapping[str, Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield each attempt whose holder was lost, with the attempt that took over."""
    for places in chains.values():
        for old, new in pairwise(places):
            if facts[old].outcome == "lost" and facts[new].started_us is not None:
                yield old, new


def _takeovers(
    facts: Sequence[AttemptFact], chains: Mapping[str, Sequence[int]], places: Mapping[int, tuple[int, Bar]]
) -> Iterator[Takeover]:
    for old, new in _handed_over(facts, chains):
        if old in places and new in places:
            (old_row, old_bar), (new_row, new_bar) = places[old], places[new]
            yield Takeover(
                facts[old].run_id,
                facts[old],
                facts[new],
                (old_row, old_bar.lane, old_bar.x + old_bar.w),
                (new_row, new_bar.lane, new_bar.x),
            )


def _resumed(facts: Sequence[AttemptFact], chains: Mapping[str, Sequence[int]]) -> Iterator[int]:
    for places in chains.values():
        for old, new in pairwise(places):
            same = facts[new].session is not None and facts[new].session == facts[old].session
            if same or (new == places[-1] and facts[new].resume):
                yield new
