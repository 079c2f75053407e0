"""Ends what killed workers have left alive on this host; nothing new is leased here beside it."""

from collections.abc import Callable

from fencepost.flow.leaser import Undertaker
from fencepost.model.lease import Held
from fencepost.model.process import Fate
from fencepost.ports.clock import Clock
from fencepost.ports.processes import Processes
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import END_PREDECESSOR_SECONDS, clear_away

LOOK_SECONDS, AGAIN_SECONDS = 2.0, 0.2
GUARD_SECONDS = 10.0  # for a guard that lives, to end its agent with the grace that it has


class Leftovers:
    """What lost leases on this host say may still be alive, although those who held them are dead."""

    def __init__(self, processes: Processes, clock: Clock, say: Callable[[str], None]) -> None:
        self._processes, self._clock, self._say = processes, clock, say
        self._since: dict[str, int] = {}  # by lease: since when we know of it
        self._given_up: set[str] = set()
        self._look_ns = 0
        self._clear = False

    def are_gone(self, store: LeaseStore) -> bool:
        """End what can be ended; False while a guard is still at it. What cannot be ended from here stops nobody."""
        now = self._clock.awake_ns()
        if now >= self._look_ns:
            left = [held for held in store.leases() if self._is_left(held)]
            self._clear = not any([self._is_being_ended(held, now, store) for held in left])  # noqa: C419  # each of them
            self._look_ns = now + round((LOOK_SECONDS if self._clear else AGAIN_SECONDS) * 1e9)
        return self._clear

    def _is_left(self, held: Held) -> bool:
        """Tell whether its holder is dead for certain: it was here, whether or not this machine has booted since."""
        known = held.lost and held.id not in self._given_up
        return known and self._processes.fate(held.supervisor) is Fate.DEAD

    def _is_being_ended(self, held: Held, now: int, store: LeaseStore) -> bool:
        waited = now - self._since.setdefault(held.id, now)
        guarded = held.guard is not None and self._processes.fate(held.guard) is Fate.ALIVE
        if guarded and waited < GUARD_SECONDS * 1e9:
            return True
        if Undertaker(store, self._processes).end([held], kill_seconds=END_PREDECESSOR_SECONDS):
            self._given_up.add(held.id)
            self._say(f"warning: what run {held.run_id} left alive here could not be ended; it is fenced.")
        else:
            clear_away(held)
        return False
