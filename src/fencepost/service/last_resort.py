"""Ends a tree whose guard has not ended it in time, from a thread that does nothing else.

The guard may be frozen, the main thread may wait for a store, the renewals may hang in the network. None of them can
hold this up: it waits for nothing but the time.
"""

from __future__ import annotations

import _thread

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Callable
    from fencepost.service.custody import Kept

OVERDUE_PART = 0.8  # of the grace: the rest is for the kill itself
IDLE_SECONDS = 3600.0
NO_LATER_SECONDS = 1.0  # how soon the end of a sleep is noticed, which the deadlines of a server count


class LastResort:
    """Watches deadlines, and kills."""

    def __init__(self, grace_seconds: float) -> None:
        self._overdue_ns = round(grace_seconds * OVERDUE_PART * 1e9)
        self._watched: dict[str, tuple[Kept, Callable[[], None]]] = {}
        self._look_ns = 0  # nothing is overdue before, by the clock of their terms
        self._changing = _thread.allocate_lock()
        self._asleep = _thread.allocate_lock()
        self._asleep.acquire()
        self._started = self._closed = False

    def watch(self, kept: Kept, kill: Callable[[], None]) -> None:
        """Call `kill` when the lease's time is over and its guard's as well."""
        with self._changing:
            self._watched[kept.lease.id] = (kept, kill)
            self._look_ns = min(self._look_ns, self._overdue_at(kept))
        self._wake()

    def forget(self, kept: Kept) -> None:
        """Watch a lease no more: nothing is left that runs under it."""
        with self._changing:
            self._watched.pop(kept.lease.id, None)

    def start(self) -> bool:
        """Begin to watch; False if there is no thread to be had now."""
        if not self._started:
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                return False
            self._started = True
        return True

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        self._wake()

    def step(self) -> float:
        """Kill what is overdue, and return how many seconds nothing will be."""
        with self._changing:
            if not self._watched:
                return IDLE_SECONDS
            time = next(iter(self._watched.values()))[0].term  # all of them are leases of one store
            now = time.now_ns()
            overdue = []
            if now >= self._look_ns:  # a deadline only moves away, so there was no need to look earlier
                overdue = [one for one in self._watched.values() if self._overdue_at(one[0]) <= now]
                for kept, _ in overdue:
                    del self._watched[kept.lease.id]
                self._look_ns = min((self._overdue_at(kept) for kept, _ in self._watched.values()), default=0)
        for _, kill in overdue:
            kill()
        if overdue:
            return 0.0
        left = (self._look_ns - now) / 1e9
        return min(left, NO_LATER_SECONDS) if time.counts_sleep else left

    def _overdue_at(self, kept: Kept) -> int:
        return kept.term.deadline_ns + self._overdue_ns

    def _run(self) -> None:
        while not self._closed:
            self._asleep.acquire(timeout=self.step())

    def _wake(self) -> None:
        try:
            self._asleep.release()
        except RuntimeError:
            return  # it is awake
