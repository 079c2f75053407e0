"""Ends what killed workers have left alive on this host, before anything new is leased here."""

from collections.abc import Callable

from fencepost.flow.leaser import Undertaker
from fencepost.model.lease import Held
from fencepost.model.process import Fate
from fencepost.ports.clock import Clock
from fencepost.ports.processes import Processes
from fencepost.service.admission import END_PREDECESSOR_SECONDS, clear_away
from fencepost.stores.runtime import RuntimeStore

LOOK_SECONDS = 2.0


class Leftovers:
    """What lost leases say may still be alive here, although those who held them are dead.

    No grace, as for every predecessor: with its supervisor an agent has lost the way to its checkpoint, and the
    successor shall not wait for it.
    """

    def __init__(self, processes: Processes, clock: Clock, say: Callable[[str], None], keeper: str = "") -> None:
        self._processes, self._clock, self._say, self._keeper = processes, clock, say, keeper
        self._given_up: set[str] = set()  # leases of which something lives that cannot be ended from here
        self._look_ns = 0

    def clear(self, store: RuntimeStore) -> None:
        """End what can be ended, now and then; what cannot is said once, and stops no run: it is fenced."""
        now = self._clock.awake_ns()
        if now < self._look_ns:
            return
        self._look_ns = now + round(LOOK_SECONDS * 1e9)
        undertaker = Undertaker(store, self._processes)
        for held in filter(self._is_left, store.leases_on(self._processes.here().machine, besides=self._keeper)):
            if undertaker.end([held], kill_seconds=END_PREDECESSOR_SECONDS):
                self._given_up.add(held.id)
                self._say(f"warning: what run {held.run_id} left alive here could not be ended; it is fenced.")
            else:
                clear_away(held)

    def _is_left(self, held: Held) -> bool:
        """Tell whether its holder is dead for certain: it was here, whether or not this machine has booted since."""
        known = held.lost and held.id not in self._given_up
        return known and self._processes.fate(held.supervisor) is Fate.DEAD
