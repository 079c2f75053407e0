"""Which bars stand side by side, and which are too many to be told apart and become one block."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

LANES_MAX = 4
NARROW = 3.0  # in units of the width: below it a bar is a stroke
BIN = 4.0  # strokes that begin within so many units of one another are not told apart


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing from x to x + w, both shares of the width; `lead` is where the thin line before it begins."""

    x: float
    w: float
    kind: str
    thing: int  # its place among the facts
    lead: float | None = None
    alone: bool = False  # never part of a block
    lane: int = 0

    @property
    def reach(self) -> float:
        """Where it begins, its thin line included."""
        return self.x if self.lead is None else min(self.x, self.lead)


@dataclass(frozen=True, slots=True)
class Block:
    """Several things that are too close to be told apart, with how many there are of each kind."""

    x: float
    w: float
    counts: Mapping[str, int]
    lane: int = 0
    things: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.counts.values())


@dataclass(slots=True)
class Laid:
    """What became of some bars."""

    bars: list[Bar] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def lanes(self) -> int:
        """How many lanes are needed; one at least."""
        lanes = [*(one.lane for one in self.bars), *(one.lane for one in self.blocks)]
        return 1 + max(lanes, default=0)


def lay(bars: Iterable[Bar], blocks: Iterable[Block] = (), *, width: float, lanes_max: int = LANES_MAX) -> Laid:
    """Put bars into lanes so that none covers another; strokes that lie together become blocks, and so does the crowd."""
    apart, strokes = _part(bars, width)
    merged = [*blocks, *_blocks(strokes, width)]
    laid, ends = Laid(), [0.0] * lanes_max
    crowd: list[Bar | Block] = []
    items: list[Bar | Block] = sorted([*apart, *merged], key=_begin)
    for one in items:
        lane, lead = _free(ends, _begin(one)), True
        if lane is None:  # its thin line would cover others: it goes without
            lane, lead = _free(ends, one.x), False
        if lane is None:
            crowd.append(one)
            continue
        ends[lane] = one.x + one.w
        _add(laid, one, lane, lead=lead)
    laid.blocks += [replace(block, lane=lanes_max) for block in _blocks(crowd, width)]
    return laid


def _begin(one: Bar | Block) -> float:
    return one.reach if isinstance(one, Bar) else one.x


def _part(bars: Iterable[Bar], width: float) -> tuple[list[Bar], list[Bar]]:
    """Return bars that are drawn one by one, and strokes that have a neighbour too close to be told apart."""
    apart: list[Bar] = []
    strokes: list[Bar] = []
    for one in bars:
        (strokes if one.w * width < NARROW and not one.alone else apart).append(one)
    crowded = Counter(_bin(one, width) for one in strokes)
    single = [one for one in strokes if crowded[_bin(one, width)] == 1]
    return [*apart, *single], [one for one in strokes if crowded[_bin(one, width)] > 1]


def _bin(one: Bar | Block, width: float) -> int:
    return int(one.x * width / BIN)


def _blocks(items: Sequence[Bar | Block], width: float) -> list[Block]:
    """Put things together that begin in the same bin; a block stays within its bin, so that blocks never overlap."""
    bins: dict[int, list[Bar | Block]] = {}
    for one in items:
        bins.setdefault(_bin(one, width), []).append(one)
    found = []
    for place, members in sorted(bins.items()):
        start = min(one.x for one in members)
        end = min((place + 1) * BIN / width, max(one.x + one.w for one in members), 1.0)
        kinds: Counter[str] = Counter()
        things: list[int] = []
        for one in members:
            kinds.update([one.kind] if isinstance(one, Bar) else one.counts)
            things += [one.thing] if isinstance(one, Bar) else one.things
        found.append(Block(start, max(0.0, end - start), kinds, things=tuple(things)))
    return found


def _free(ends: Sequence[float], begin: float) -> int | None:
    return next((lane for lane, end in enumerate(ends) if end <= begin), None)


def _add(laid: Laid, one: Bar | Block, lane: int, *, lead: bool) -> None:
    if isinstance(one, Bar):
        laid.bars.append(replace(one, lead=one.lead if lead else None, lane=lane))
    else:
        laid.blocks.append(replace(one, lane=lane))
