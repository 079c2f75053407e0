"""Gets a claim its lease: at once, in its turn, or not at all; then makes sure that nobody older can write.

The order is the promise: grant, raise the fence at every gate, end what is left of the predecessors
on this host, and only then start.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from fencepost.flow.leaser import Leaser, Undertaker
from fencepost.model.duration import format_duration
from fencepost.model.errors import Busy, FenceRefused, FenceRegress, Misconfigured, StoreUnavailable
from fencepost.model.gate import proof_of
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, renew_every
from fencepost.ports.store import LeaseStore
from fencepost.service.order import Order, Tools
from fencepost.service.renewal import Term

POLL_MIN_SECONDS = 0.02
POLL_MAX_SECONDS = 0.5
END_PREDECESSOR_SECONDS = 10.0


class Admission:
    """The way from a claim to a lease whose fence is up everywhere."""

    def __init__(self, order: Order, tools: Tools, store: LeaseStore, *, wait: Callable[[float], None]) -> None:
        """`wait` pauses for at most so many seconds and raises when the caller is asked to stop."""
        self._order = order
        self._tools = tools
        self._store = store
        self._wait = wait
        self._leaser = Leaser(store, tools.processes, tools.clock)
        self._said = ""

    def admit(self, claim: Claim, term: Term) -> Lease:
        """Return a lease with its gates raised and its predecessors ended, or raise why not."""
        granted = self._acquire(claim, term)
        try:
            self.prepare(granted)
        except BaseException:
            self._store.release(granted.lease, clean=True)  # nothing was started
            raise
        return granted.lease

    def prepare(self, granted: Granted) -> None:
        """Raise every gate, then end the predecessors' trees; a gate that cannot be raised blocks the start."""
        for target in granted.lease.gates:
            self._raise(granted.lease, target)
        left = Undertaker(self._store, self._tools.processes).end(
            granted.predecessors, kill_seconds=END_PREDECESSOR_SECONDS
        )
        for held in left:
            self._tools.say(
                f"the earlier run {held.run_id} on {held.supervisor.host.name} may still run; it is fenced."
            )

    def _acquire(self, claim: Claim, term: Term) -> Granted:
        asked_ns = term.now_ns()
        answer = self._leaser.acquire(claim)
        if isinstance(answer, Refused):
            if self._order.wait_seconds is None:
                raise Busy(self._busy(answer))
            asked_ns, answer = self._queue(claim, term, self._order.wait_seconds)
        term.extend(claim.ttl_seconds, asked_ns=asked_ns)
        return answer

    def _queue(self, claim: Claim, term: Term, wait_seconds: float) -> tuple[int, Granted]:
        """Wait in line and return when the winning request was sent, and its answer."""
        place = _Place(self._store, claim, term)
        give_up_ns = term.now_ns() + wait_seconds * 1e9
        pause = POLL_MIN_SECONDS
        try:
            while True:
                place.keep()
                refused = self._leaser.look(claim, ticket=place.ticket)
                if refused is None:
                    asked_ns = term.now_ns()
                    answer = self._leaser.acquire(claim, ticket=place.ticket)
                    if isinstance(answer, Granted):
                        return asked_ns, answer
                    refused = answer
                self._tell(refused)
                self._pause(refused, pause, (give_up_ns - term.now_ns()) / 1e9)
                pause = min(2 * pause, POLL_MAX_SECONDS)
        except BaseException:
            place.leave()
            raise

    def _pause(self, refused: Refused, seconds: float, left_seconds: float) -> None:
        if left_seconds <= 0:
            raise Busy(f"{self._busy(refused)} Waited {format_duration(self._order.wait_seconds or 0)}.")
        self._wait(min(seconds, left_seconds))

    def _raise(self, lease: Lease, target: str) -> None:
        proof = proof_of(lease, self._tools.processes.here().name)
        try:
            self._tools.open_gate(target).raise_fence(proof)
        except FenceRefused as refusal:
            self._explain(lease, target, refusal)
            raise
        except Misconfigured as error:
            if target in self._order.gates:
                raise
            self._tools.say(f"{target}, raised by an earlier run, is out of reach: {error}")

    def _explain(self, lease: Lease, target: str, refusal: FenceRefused) -> None:
        """Tell a store that went back in time, whose newest grant is refused, from one that overtook us."""
        mark = refusal.mark
        if mark is None or mark.store != lease.store:
            return
        self._store.renew(lease)  # raises LeaseLost if somebody newer was granted meanwhile
        raise FenceRegress(
            f"{target} has seen fence {mark.fence}, this store's newest is {lease.fence}: the store went back in "
            f"time. The run was not started. Lift the store: fencepost store bump --to {mark.fence}"
        ) from refusal

    def _tell(self, refused: Refused) -> None:
        """Say the place in the queue when it changes, not at every look."""
        behind = f" · behind {self._who(refused.holders[0])}" if refused.holders else ""
        text = f"queued · position {refused.position}"
        if text != self._said:
            self._said = text
            self._tools.say(text + behind)

    def _busy(self, refused: Refused) -> str:
        held = [f"{' '.join(one.resources)} is held by {self._who(one)}." for one in refused.holders]
        waiting = f"{len(refused.ahead)} waiting before you." if refused.ahead else ""
        return " ".join([*held, waiting]).strip()

    def _who(self, held: Held) -> str:
        since = max(0, (self._tools.clock.wall_us() - held.granted_us) // 1_000_000)
        where = f"pid {held.supervisor.pid} on {held.supervisor.host.name}"
        return f"{held.run_id} ({held.label}, {where}, for {format_duration(since)})"


class _Place:
    """A place in the queue: kept by refreshing it now and then, given up on the way out."""

    __slots__ = ("_claim", "_refresh_ns", "_store", "_term", "ticket")

    def __init__(self, store: LeaseStore, claim: Claim, term: Term) -> None:
        self.ticket = f"t{os.urandom(12).hex()}"
        self._store = store
        self._claim = claim
        self._term = term
        self._refresh_ns = term.now_ns()

    def keep(self) -> None:
        if self._term.now_ns() >= self._refresh_ns:
            self._store.enqueue(self._claim, self.ticket)
            self._refresh_ns = self._term.now_ns() + round(renew_every(self._claim.ttl_seconds) * 1e9)

    def leave(self) -> None:
        with suppress(StoreUnavailable):  # the place goes stale by itself
            self._store.dequeue(self.ticket)
