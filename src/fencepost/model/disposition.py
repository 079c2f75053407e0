"""What became of owed ticks: one word for each, and one row for any number of neighbours that share it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DispositionKind(StrEnum):
    """What became of a tick."""

    RUN = "run"
    MISSED = "missed"
    OVERLAP = "overlap"
    DST_GAP = "dst_gap"
    COALESCED = "coalesced"
    PAUSED = "paused"
    BUDGET = "budget"
    CALENDAR = "calendar"


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, `start` in it and `end` not, so that neighbours neither miss nor share a tick."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Hold:
    """A window in which ticks are due but not wanted."""

    window: Window
    kind: DispositionKind

    def __post_init__(self) -> None:
        assert self.kind in {DispositionKind.PAUSED, DispositionKind.CALENDAR}, self.kind


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring ticks: the first (`slot`), the last (`slot_until`, equal to `slot` for one), and how many."""

    slot: datetime
    slot_until: datetime
    count: int


def union(windows: Iterable[Window]) -> list[Window]:
    """Join windows that touch or overlap; drop empty ones; oldest first."""
    joined: list[Window] = []
    for window in sorted((w for w in windows if w.start < w.end), key=lambda w: w.start):
        if joined and window.start <= joined[-1].end:
            joined[-1] = Window(joined[-1].start, max(joined[-1].end, window.end))
        else:
            joined.append(window)
    return joined


def subtract(windows: Sequence[Window], cuts: Sequence[Window]) -> list[Window]:
    """Return what is left of `windows` outside `cuts`; both ordered and disjoint, as `union` gives them."""
    left: list[Window] = []
    first_cut = 0
    for window in windows:
        start = window.start
        while first_cut < len(cuts) and cuts[first_cut].end <= start:
            first_cut += 1
        at = first_cut
        while at < len(cuts) and cuts[at].start < window.end:
            if start < cuts[at].start:
                left.append(Window(start, cuts[at].start))
            start = max(start, cuts[at].end)
            at += 1
        if start < window.end:
            left.append(Window(start, window.end))
    return left


def clip(windows: Iterable[Window], bounds: Window) -> list[Window]:
    """Return the parts of `windows` inside `bounds`."""
    cut = (Window(max(w.start, bounds.start), min(w.end, bounds.end)) for w in windows)
    return [window for window in cut if window.start < window.end]
