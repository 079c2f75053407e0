"""Tries whether a store can compare and swap: it is probed, not believed."""

from __future__ import annotations

import os
from threading import Thread

from fencepost.model.cell import PROBES, SWAP_PART
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.ports.cells import Answer, Read, SwapOutcome

if TYPE_CHECKING:
    from fencepost.ports.cells import Cells

RACERS = 32
AT_ONCE = 8  # so many connections a server with default settings takes from one client without dropping some
SWAPS_MAX = 5


def probe(cells: Cells) -> tuple[str, ...]:
    """Create, swap, lose and delete a random cell, and let many race for one; return what is weak about the store."""
    seconds = cells.facts.ttl_seconds / SWAP_PART
    name = f"{PROBES}{os.urandom(12).hex()}"
    try:
        created = _must(cells, name, None, seconds, "create a cell")
        _must_not(cells, name, None, seconds, "creates a cell that is there already")
        swapped = _must(cells, name, created, seconds, "swap a cell")
        _must_not(cells, name, created, seconds, "swaps a cell from a tag that is gone")
        _race(cells, name, swapped, seconds)
    finally:
        _delete(cells, name, seconds)
    if cells.read([name], seconds=seconds)[name].document is not None:
        raise _unable(cells, "does not delete a cell")
    return cells.weaknesses(seconds=seconds)


def _must(cells: Cells, name: str, tag: str | None, seconds: float, what: str) -> str:
    document = _document()
    swapped, now = _settled(cells, name, tag, document, seconds)
    if now.document != document or now.tag is None:
        raise _unable(cells, f"does not {what}: {swapped.words or 'it says that another document is there'}")
    return now.tag


def _must_not(cells: Cells, name: str, tag: str | None, seconds: float, what: str) -> None:
    document = _document()
    swapped, now = _settled(cells, name, tag, document, seconds)
    if swapped.tag is not None or now.document == document:
        raise _unable(cells, what)


def _settled(cells: Cells, name: str, tag: str | None, document: bytes, seconds: float) -> tuple[SwapOutcome, Read]:
    """Swap until an answer is known; return it, and what is there then."""
    for _ in range(SWAPS_MAX):
        swapped = cells.swap(name, tag, document, seconds=seconds)
        now = cells.read([name], seconds=seconds)[name]
        if swapped.answer is not Answer.UNKNOWN or now.document == document or now.tag != tag:
            return swapped, now
    raise StoreUnavailable(f"{cells.facts.url} does not answer: {swapped.words}")


def _race(cells: Cells, name: str, tag: str, seconds: float) -> None:
    """Let many swaps go from one tag: one of them may win."""
    documents = [_document() for _ in range(RACERS)]
    answers: list[SwapOutcome | None] = [None] * RACERS

    def run(numbers: range) -> None:
        for number in numbers:
            answers[number] = cells.swap(name, tag, documents[number], seconds=seconds)

    threads = [Thread(target=run, args=(range(lane, RACERS, AT_ONCE),), daemon=True) for lane in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for number, one in enumerate(answers) if one is not None and one.tag is not None]
    now = cells.read([name], seconds=seconds)[name].document
    if len(winners) > 1:
        raise _unable(cells, f"let {len(winners)} of {RACERS} swaps from one tag succeed")
    if winners and now != documents[winners[0]]:
        raise _unable(cells, "shows another document than the one that won a race")
    if not winners and now not in documents:
        raise StoreUnavailable(f"{cells.facts.url} answered none of {RACERS} swaps; try again later.")


def _delete(cells: Cells, name: str, seconds: float) -> None:
    for _ in range(SWAPS_MAX):
        read = cells.read([name], seconds=seconds)[name]
        if read.document is None:
            return
        cells.swap(name, read.tag, None, seconds=seconds)


def _document() -> bytes:
    return b'{"v": 1, "probe": "%s"}' % os.urandom(16).hex().encode()


def _unable(cells: Cells, what: str) -> Misconfigured:
    return Misconfigured(
        f"{cells.facts.url} cannot keep leases: it {what}. Use a store that compares and swaps: see docs/reference/stores.md."
    )
