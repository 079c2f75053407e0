"""Pictures in letters: the timeline and strips of ticks for a terminal, each kind by a letter of its own, not by colour alone."""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

from fencepost.drawing.lanes import Bar, Block
from fencepost.drawing.scale import TimeScale
from fencepost.drawing.timeline import Picture, Row

UNITS = 4  # of the layout's width in one letter
LETTERS = {
    "succeeded": "█",
    "running": "▶",
    "failed": "▚",
    "lost": "░",
    "dead": "✗",
    "cancelled": "▭",
    "ready": "·",
    "waiting": "·",
    "missed": "○",
    "overlap": "≡",
    "budget": "$",
    "calendar": "□",
    "paused": "‖",
    "coalesced": "»",
    "dst_gap": "~",
    "run": "▪",
}
WORST = ("dead", "lost", "failed", "running", "cancelled", "succeeded", "waiting")
WAIT, POST = "─", "│"


class Drawn(NamedTuple):
    """A line of letters, and the kind of each for a terminal with colours."""

    text: str
    kinds: tuple[str, ...]


def strip(kinds: Iterable[str]) -> Drawn:
    """Write one letter for each tick, oldest first."""
    found = tuple(kinds)
    return Drawn("".join(LETTERS.get(kind, "?") for kind in found), found)


def axis(scale: TimeScale, columns: int) -> list[str]:
    """Write the labels, each where its instant is, none over another."""
    words, posts, end = [" "] * columns, ["─"] * columns, -1
    for label in scale.labels(max(2, columns // 14)):
        at = min(columns - 1, int(label.place * columns))
        posts[at] = "┬"
        if at > end and at + len(label.text) <= columns:
            words[at : at + len(label.text)] = label.text
            end = at + len(label.text)
    return ["".join(words).rstrip(), "".join(posts)]


def row_lines(row: Row, columns: int) -> list[Drawn]:
    """Write a row: a line for each lane, and one for ticks without a run if there are any."""
    lanes = [[(" ", "")] * columns for _ in range(row.laid.lanes)]
    for bar in row.laid.bars:
        _put_bar(lanes[bar.lane], bar, columns)
    for block in row.laid.blocks:
        _put_block(lanes[block.lane], block, columns)
    if row.marks:
        lanes.append(_marks(row, columns))
    return [Drawn("".join(one for one, _ in lane), tuple(kind for _, kind in lane)) for lane in lanes]


def legend(picture: Picture) -> list[tuple[str, str]]:
    """Return the letters that are used and what they mean."""
    kinds = {bar.kind for row in picture.rows for bar in row.laid.bars}
    kinds |= {kind for row in picture.rows for block in row.laid.blocks for kind in block.counts}
    skips = {kind for row in picture.rows for kind in row.skips}
    return [(LETTERS[kind], kind) for kind in LETTERS if kind in kinds | skips]


def _cells(x: float, w: float, columns: int) -> range:
    start = min(columns - 1, int(x * columns))
    return range(start, max(start + 1, min(columns, ceil((x + w) * columns - 1e-9))))


def _put_bar(lane: list[tuple[str, str]], bar: Bar, columns: int) -> None:
    if bar.lead is not None:
        for at in _cells(bar.lead, bar.x - bar.lead, columns):
            if lane[at][0] == " ":
                lane[at] = (WAIT, "waiting")
    if bar.kind != "waiting":
        for at in _cells(bar.x, bar.w, columns):
            lane[at] = (LETTERS[bar.kind], bar.kind)


def _put_block(lane: list[tuple[str, str]], block: Block, columns: int) -> None:
    kind = next(one for one in (*WORST, *block.counts) if block.counts.get(one))
    for at in _cells(block.x, block.w, columns):
        lane[at] = (LETTERS[kind], kind)


def _marks(row: Row, columns: int) -> list[tuple[str, str]]:
    line = [(" ", "")] * columns
    for mark in row.marks:
        letters: Sequence[str] = LETTERS[mark.kind]
        if mark.count > 1:
            letters = f"{LETTERS[mark.kind]}{mark.count}"
        cells = _cells(mark.x, mark.w, columns)
        for at in cells:
            line[at] = ("┄", mark.kind)
        start = min(cells.start + len(cells) // 2, columns - len(letters))
        for at, letter in enumerate(letters, max(0, start)):
            line[at] = (letter, mark.kind)
    return line
