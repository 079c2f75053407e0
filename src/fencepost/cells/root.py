"""The root cell: which store this is, and the floor that every fence begins above."""

from __future__ import annotations

import os

from fencepost.model.cell import ROOT, Root, decode_root, encode_root
from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.cells.compare_and_swap import Exchange
    from fencepost.ports.cells import Read

TRIES = 8


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


def read_root(exchange: Exchange, remembered: str, ttl: float) -> Root:
    """Read the root cell; make it if it is missing, with the id that this machine remembers."""
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
