"""Claim → lease: asks the store, and brings what the host can prove about those in the way."""

from __future__ import annotations

from fencepost.model.fast_signal import SIGKILL, SIGSTOP
from fencepost.model.fast_typing import TYPE_CHECKING, Iterable
from fencepost.model.lease import Claim, Granted, Held, Refused
from fencepost.model.process import Fate, ProcessId, fate_by_host
from fencepost.ports.processes import Processes, Traces

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.store import LeaseStore

OBSERVED_TTLS = 2  # a lease that shows no sign of life for this many ttls, by our own clock, is over
ORPHAN_SECONDS = 1.0  # for what a dead holder left: the worker that looks has other work, and looks again


class Leaser:
    """Acquires leases for one process."""

    __slots__ = ("_clock", "_processes", "_seen", "_store")

    def __init__(self, store: LeaseStore, processes: Processes, clock: Clock) -> None:
        self._store = store
        self._processes = processes
        self._clock = clock
        self._seen: dict[int, tuple[int, int]] = {}  # fence -> (renewals, since when unchanged)

    def acquire(self, claim: Claim, *, ticket: str | None = None) -> Granted | Refused:
        """Ask for a lease; if only dead processes stand in the way, ask again with the proof."""
        asked_ns = self._now_ns()
        answer = self._store.acquire(claim, ticket=ticket)
        if isinstance(answer, Granted):
            return answer
        dead = self._proven_dead(answer, asked_ns)
        return self._store.acquire(claim, dead=dead, ticket=ticket) if dead else answer

    def look(self, claim: Claim, *, ticket: str | None = None) -> Refused | None:
        """Tell whether asking would be refused, writing nothing."""
        asked_ns = self._now_ns()
        answer = self._store.look(claim, ticket=ticket)
        if answer is None:
            return None
        dead = self._proven_dead(answer, asked_ns)
        return self._store.look(claim, dead=dead, ticket=ticket) if dead else answer

    def _proven_dead(self, refused: Refused, asked_ns: int) -> frozenset[str]:
        parties = [(held.id, held.supervisor) for held in refused.holders]
        parties += [(waiter.id, waiter.process) for waiter in refused.ahead]
        return frozenset({*self._dead(parties), *self._silent(refused.holders, asked_ns)})

    def _dead(self, parties: Iterable[tuple[str, ProcessId]]) -> list[str]:
        return [party for party, process in parties if self._processes.fate(process) is Fate.DEAD]

    def _silent(self, holders: Iterable[Held], asked_ns: int) -> list[str]:
        """Judge by our own clock as well: the store's may have been set back, and then nothing would expire.

        Only the time between an answer and a later question counts: during a question we may have been frozen.
        """
        silent = []
        for held in holders:
            renewals, since = self._seen.get(held.fence, (-1, asked_ns))
            if renewals != held.renewals:
                self._seen[held.fence] = (held.renewals, self._now_ns())
            elif asked_ns - since > OBSERVED_TTLS * held.ttl_seconds * 1e9:
                silent.append(held.id)
        return silent

    def _now_ns(self) -> int:
        return self._clock.boot_ns() if self._store.facts().counts_sleep else self._clock.awake_ns()


def traces_of(held: Held) -> Traces:
    """Return what a run's processes can be found by."""
    return Traces(held.run_id, held.guard, held.cgroup)


class Undertaker:
    """Ends what lost leases left behind on this host, before anything new starts there."""

    __slots__ = ("_processes", "_store")

    def __init__(self, store: LeaseStore, processes: Processes) -> None:
        self._store = store
        self._processes = processes

    def end(self, predecessors: Iterable[Held], *, kill_seconds: float) -> list[Held]:
        """Kill their trees, forget those that are gone, and return those that could not be ended from here.

        No grace: they have lost their lease, and a stopped process would have to be woken to be asked.
        """
        return [held for held in predecessors if not self._ended(held, kill_seconds)]

    def take_from_dead(self, held: Held) -> bool:
        """Take a lease from a holder that has died, once nothing of its tree is left: another host may start at once.

        A guard that outlived its holder is about to end the tree. What cannot be ended from here keeps its lease until it runs out.
        """
        if self._processes.fate(held.supervisor) is not Fate.DEAD:
            return False
        rebooted = fate_by_host(held.supervisor, self._processes.here()) is not None
        if not rebooted and not self._is_over(held):
            return False
        return self._store.break_lease(held, why="holder dead")

    def _is_over(self, held: Held) -> bool:
        if held.guard is not None and self._processes.fate(held.guard) is Fate.ALIVE:
            return False
        return self._processes.end(traces_of(held), grace_seconds=0, kill_seconds=ORPHAN_SECONDS)

    def _ended(self, held: Held, kill_seconds: float) -> bool:
        reachable = fate_by_host(held.supervisor, self._processes.here()) is None
        rebooted = not reachable and self._processes.fate(held.supervisor) is Fate.DEAD
        if reachable and not self._end_tree(held, kill_seconds):
            return False
        if reachable or rebooted:
            self._store.bury(held)
        return reachable or rebooted

    def _end_tree(self, held: Held, kill_seconds: float) -> bool:
        """Kill the tree and its guard, which might be about to start the agent: stopped first, it forks no more."""
        guard = held.guard
        if guard is not None and self._processes.signal_process(guard, SIGSTOP):
            self._processes.end(traces_of(held), grace_seconds=0, kill_seconds=kill_seconds)
            self._processes.signal_process(guard, SIGKILL)
        return self._processes.end(traces_of(held), grace_seconds=0, kill_seconds=kill_seconds)
