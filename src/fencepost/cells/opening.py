"""Opens a store of cells: which one it is, and whether it can do at all what is asked of it."""

from __future__ import annotations

import os

from fencepost.cells.exchange import Exchange
from fencepost.cells.local_memory import StoreMemory
from fencepost.cells.store import CellStore, Here
from fencepost.model.cell import ROOT, Root, decode_root, encode_root
from fencepost.model.errors import StoreUnavailable
from fencepost.model.light import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.ports.cells import Cells, Read

TRIES = 8
PROBE_KEPT_US = 24 * 3600 * 1_000_000


def open_cell_store(cells: Cells, here: Here, *, known: Root | None = None, probe_now: bool = False) -> CellStore:
    """Open a store; `known` is its root cell, where this process has read it before."""
    if known is not None:
        return CellStore(cells, known, here)
    ttl = cells.facts.ttl_seconds
    try:
        notices = _probed(cells, here, now=probe_now)
        remembered = here.memory.store()
        root = _root(Exchange(cells, here.clock), remembered.id, ttl)
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


def lift_floor(exchange: Exchange, root: Root, floor: int, *, ttl: float) -> Root:
    """Lift the floor in the root cell; return what is in force."""
    for _ in range(TRIES):
        read = exchange.read(ROOT, ttl=ttl)
        found = decode_root(read.document, where=ROOT) if read.document is not None else root
        if found.floor >= floor:
            return found
        lifted = found._replace(floor=floor, nonce=os.urandom(16).hex())
        if exchange.write(ROOT, read, encode_root(lifted), lifted.nonce, ttl=ttl).ours:
            return lifted
    raise StoreUnavailable("the root cell changes all the time; try again later.")


def _root(exchange: Exchange, remembered: str, ttl: float) -> Root:
    """Read the root cell, or make it: with the id that is remembered, if somebody has deleted it."""
    read: Read = exchange.read(ROOT, ttl=ttl)
    for _ in range(TRIES):
        if read.document is not None:
            return decode_root(read.document, where=ROOT)
        root = Root(remembered or os.urandom(8).hex(), 0, os.urandom(16).hex())
        written = exchange.write(ROOT, read, encode_root(root), root.nonce, ttl=ttl)
        if written.ours:
            return root
        read = written.now
    raise StoreUnavailable("the root cell changes all the time; try again later.")


def _probed(cells: Cells, here: Here, *, now: bool) -> tuple[str, ...]:
    """Try the store once a day, and say what is weak about it then."""
    before, now_us = here.memory.store(), here.clock.wall_us()
    if not now and 0 <= now_us - before.probed_us < PROBE_KEPT_US:
        return ()
    from fencepost.cells.probe import probe

    warnings = probe(cells)
    here.memory.keep_store(StoreMemory(before.id, now_us, warnings))
    return warnings
