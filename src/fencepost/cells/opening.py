"""Opens a store of cells: which one it is, and whether it can do at all what is asked of it."""

from __future__ import annotations

from fencepost.cells.compare_and_swap import Exchange
from fencepost.cells.local_memory import StoreMemory
from fencepost.cells.root import read_root
from fencepost.cells.store import CellStore, Here
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.cell import Root
    from fencepost.ports.cells import Cells

PROBE_KEPT_US = 24 * 3600 * 1_000_000


def open_cell_store(cells: Cells, here: Here, *, known: Root | None = None, probe_now: bool = False) -> CellStore:
    """Open a store; `known` is its root cell, where this process has read it before."""
    if known is not None:
        return CellStore(cells, known, here)
    ttl = cells.facts.ttl_seconds
    try:
        notices = _probed(cells, here, now=probe_now)
        remembered = here.memory.store()
        root = read_root(Exchange(cells, here.clock), remembered.id, ttl)
        if remembered.id and remembered.id != root.id:
            notices += (
                (
                    f"{cells.facts.url} is another store than before: it was {remembered.id} and is {root.id}. Gates that the "
                    "earlier one has fenced refuse this one until they are adopted: fencepost gate raise --adopt TARGET"
                ),
            )
        if remembered.id != root.id:
            here.memory.keep_store(remembered._replace(id=root.id))
        return CellStore(cells, root, here, notices=notices)
    except BaseException:
        cells.close()
        raise


def _probed(cells: Cells, here: Here, *, now: bool) -> tuple[str, ...]:
    """Try the store once a day, and say what is weak about it then."""
    before, now_us = here.memory.store(), here.clock.wall_us()
    if not now and 0 <= now_us - before.probed_us < PROBE_KEPT_US:
        return ()
    from fencepost.cells.probe import probe

    warnings = probe(cells)
    here.memory.keep_store(StoreMemory(before.id, now_us, warnings))
    return warnings
