"""Mistakes on purpose in the rules of cells: each takes one away, and the simulator must notice."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

from fencepost.cells import compare_and_swap, store
from fencepost.model import cell as rules
from fencepost.model import lease, tick_claim
from fencepost.model.cell import Cell, Memory, Sighting
from fencepost.ports.cells import Answer, Read, SwapOutcome
from fencepost.service.custody import Term
from tests.simulation.cells.play import simulate_cells
from tests.simulation.cells.server import SimCells
from tests.simulation.promises import until_broken
from tests.simulation.world import Violation

Mistake = Callable[[], AbstractContextManager[object]]


def mutations() -> dict[str, Mistake]:
    """Return every mistake, by what it does."""
    return {
        "the beat is not compared": lambda: patch.object(rules, "sighted", _whatever_stands),
        "a clock of another boot is believed": lambda: patch.object(rules, "sighted", _whatever_boot),
        "taken over at ttl": lambda: patch.object(rules, "patience", lambda ttl: ttl),
        "a renewal that changes nothing": lambda: patch.object(rules, "renew", lambda cell, *_, **__: cell),
        "an unknown answer is taken for yes": lambda: patch.object(compare_and_swap.Exchange, "write", _believing),
        "swapped from whatever is there": lambda: patch.object(compare_and_swap.Exchange, "write", _blind),
        "a deleted cell is made again at once": lambda: patch.object(rules, "vanished", _forget),
        "a fence from the clock alone": lambda: patch.object(lease, "next_fence", lambda _, __, wall_us: wall_us),
        "the deadline counts from the answer": lambda: patch.object(Term, "extend", _extend_from_now),
        "a start that is not recorded": lambda: patch.object(tick_claim, "started", lambda record: record),
        "a tick's record is not kept": lambda: patch.object(store, "_ticked", lambda cell, *_: cell._replace(ticks=())),
    }


def seeds_until_caught(mistake: Mistake, at_most: int) -> tuple[int, Violation | None]:
    """Play seeds with a mistake until one shows it."""
    with mistake():
        return until_broken(simulate_cells(seed) for seed in range(at_most))


def _whatever_stands(before: Sighting | None, nonce: str, *, boot: str, now_ns: int) -> Sighting:
    if before is not None and before.boot == boot and before.seen_ns <= now_ns:
        return before
    return Sighting(nonce, boot, now_ns)


def _whatever_boot(before: Sighting | None, nonce: str, *, boot: str, now_ns: int) -> Sighting:
    if before is not None and before.nonce == nonce and before.seen_ns <= now_ns:
        return before
    return Sighting(nonce, boot, now_ns)


def _believing(
    self: compare_and_swap.Exchange, name: str, seen: Read, document: bytes, nonce: str, *, ttl: float
) -> compare_and_swap.Written:
    del nonce
    swapped: SwapOutcome = self._cells.swap(name, seen.tag, document, seconds=ttl / 6)
    now = self.read(name, ttl=ttl)
    return compare_and_swap.Written(swapped.tag is not None or swapped.answer is Answer.UNKNOWN, now)


def _blind(
    self: compare_and_swap.Exchange, name: str, seen: Read, document: bytes, nonce: str, *, ttl: float
) -> compare_and_swap.Written:
    del seen, nonce
    cells = self._cells
    assert isinstance(cells, SimCells)
    now = self.read(name, ttl=ttl)
    swapped = cells.swap(name, cells._server.read(name).tag, document, seconds=ttl / 6)
    return compare_and_swap.Written(swapped.tag is not None, now._replace(document=document, tag=swapped.tag))


def _forget(name: tuple[str, str], memory: Memory, ticks: object) -> Cell:
    del memory, ticks
    return Cell(*name, "")


def _extend_from_now(self: Term, ttl_seconds: float, *, asked_ns: int) -> None:
    del asked_ns
    self.deadline_ns = self.now_ns() + round(lease.trusted_for(ttl_seconds) * 1e9)
