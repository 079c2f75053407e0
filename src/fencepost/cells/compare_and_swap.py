"""One document after the other: reads a cell, and swaps it with the care that lost answers ask for."""

from __future__ import annotations

import _thread

from fencepost.model.cell import SWAP_PART
from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, NamedTuple, TypeVar
from fencepost.ports.cells import Answer

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Collection
    from fencepost.ports.cells import Cells, Read
    from fencepost.ports.clock import Clock

SWAPS_MAX = 5  # from one and the same tag
READ_SECONDS = (
    5.0  # a read may take longer than a swap: it changes nothing, and a holder's deadline does not wait for it
)
AT_ONCE = 16  # names that are read in the time of one request, even if the store takes one after the other
PAGES = 4  # of a list, likewise
GIVE_UP_PART = 2  # of the ttl: how long one change may take, all its requests together
T = TypeVar("T")
_TURNS: dict[str, _thread.LockType] = {}  # per store: one swap of this process is in flight at a time


class Written(NamedTuple):
    """How a swap ended for certain: whether our document is there, or was, and what is there now."""

    ours: bool
    now: Read


class Exchange:
    """The three calls of a store, with a limit of time for each."""

    __slots__ = ("_cells", "_clock", "_turn")

    def __init__(self, cells: Cells, clock: Clock) -> None:
        self._cells = cells
        self._clock = clock
        self._turn = _TURNS.setdefault(cells.facts.url, _thread.allocate_lock())

    def read(self, name: str, *, ttl: float) -> Read:
        """Return what is there now."""
        return self.read_all([name], ttl=ttl)[name]

    def read_all(self, names: Collection[str], *, ttl: float) -> dict[str, Read]:
        """Return what is there now under several names."""
        seconds = max(ttl / SWAP_PART, READ_SECONDS)
        if len(names) == 1:
            return self._cells.read(names, seconds=seconds)
        return self._bounded(seconds * (1 + len(names) / AT_ONCE), lambda: self._cells.read(names, seconds=seconds))

    def names(self, *, ttl: float) -> list[str]:
        """Return every name."""
        seconds = max(ttl / SWAP_PART, READ_SECONDS)
        return self._bounded(PAGES * seconds, lambda: self._cells.list("", seconds=seconds))

    def _bounded(self, seconds: float, ask: Callable[[], T]) -> T:
        """Ask what takes many requests, each of which has its own limit."""
        from fencepost.cells.time_limit import within

        try:
            return within(seconds, ask)
        except TimeoutError as error:
            raise StoreUnavailable(f"{self._cells.facts.url} is too slow: {error}.") from None

    def write(self, name: str, seen: Read, document: bytes, nonce: str, *, ttl: float) -> Written:
        """Swap, and find out what became of it; raise StoreUnavailable if that cannot be found out.

        After a conflict and after silence alike, the store is read: the document is ours if its nonce is. While the old
        tag still stands, a request that was not answered may yet be carried out, so that the same document is sent
        again from that tag until it moves. It moves once only: no tag ever comes back.
        """
        give_up_ns = self._clock.boot_ns() + round(ttl / GIVE_UP_PART * 1e9)
        words = ""
        for _ in range(SWAPS_MAX):
            with self._turn:
                swapped = self._cells.swap(name, seen.tag, document, seconds=ttl / SWAP_PART)
            if swapped.tag is not None:
                return Written(True, seen._replace(document=document, tag=swapped.tag))
            now = self.read(name, ttl=ttl)
            if now.document is not None and _has_nonce(now.document, nonce):
                return Written(True, now)
            if now.tag != seen.tag:
                return Written(False, now)
            words = swapped.words or ("no answer" if swapped.answer is Answer.UNKNOWN else "conflict")
            if self._clock.boot_ns() >= give_up_ns:
                break
        raise StoreUnavailable(f"{self._cells.facts.url} takes no change of {name}: {words}")


def _has_nonce(document: bytes, nonce: str) -> bool:
    """Look for 128 random bits, which stand nowhere else."""
    return nonce.encode() in document
