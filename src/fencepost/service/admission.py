"""Gets a claim its lease: at once, in its turn, or not at all; then makes sure that no earlier holder can write.

The order is the promise: grant, end what is left of the predecessors on this host, raise the fence at every
gate, and only then start.
"""

from __future__ import annotations

import os

from fencepost.flow.leaser import Leaser, Undertaker
from fencepost.host import cgroup
from fencepost.model.errors import (
    Busy,
    FencepostError,
    FenceRefused,
    FenceRegress,
    GateUnreachable,
    Misconfigured,
    StoreUnavailable,
)
from fencepost.model.fast_typing import TYPE_CHECKING, Callable
from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, renew_every, trusted_for
from fencepost.service.run_folder import plan_run_folder

if TYPE_CHECKING:
    from fencepost.ports.store import LeaseStore
    from fencepost.service.command_order import Order, Tools
    from fencepost.service.custody import Term

POLL_MIN_SECONDS = 0.02
POLL_MAX_SECONDS = 0.5
END_PREDECESSOR_SECONDS = 10.0
GATE_PAUSE_SECONDS = 0.5
GATE_PAUSE_MAX_SECONDS = 30.0
OUTAGE_SECONDS = 30.0  # how long a waiter waits out a store that does not answer


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
        self._last = Refused((), ())  # what we heard when we were refused last

    def admit(self, claim: Claim, term: Term) -> Lease:
        """Return a lease with its gates raised and its predecessors ended, or raise why not.

        A gate that is away is waited for like a lease that is held: for as long as the order says, holding nothing.
        """
        give_up_ns = term.now_ns() + (self._order.wait_seconds or 0) * 1e9
        pause = GATE_PAUSE_SECONDS
        while True:
            granted = self._acquire(claim, term)
            try:
                self.prepare(granted)
                self._refresh(granted.lease, term)
            except GateUnreachable as error:
                self.give_back(granted.lease)
                left_seconds = (give_up_ns - term.now_ns()) / 1e9
                if left_seconds <= 0:
                    raise
                self._tell_closed(error)
                self._wait(min(pause, left_seconds))
                pause = min(2 * pause, GATE_PAUSE_MAX_SECONDS)
                claim = claim._replace(id=os.urandom(16).hex())
            except BaseException:
                self.give_back(granted.lease)
                raise
            else:
                return granted.lease

    def prepare(self, granted: Granted) -> None:
        """End the predecessors' trees, then raise every gate; a gate that cannot be raised blocks the start.

        In this order because a predecessor that is frozen in the middle of a write holds that gate's lock.
        """
        undertaker = Undertaker(self._store, self._tools.processes)
        left = undertaker.end(granted.predecessors, kill_seconds=END_PREDECESSOR_SECONDS)
        for held in granted.predecessors:
            if held in left and held.met:
                continue  # the first holder after it has said so
            if held in left:
                self._tools.say(f"the earlier run {held.run_id} on {_host(held)} may still run; it is fenced.")
            else:
                clear_away(held)
        for target in granted.lease.gates:
            self._raise(granted.lease, target)

    def _refresh(self, lease: Lease, term: Term) -> None:
        """Renew before the start if the way here took long: a grant may have waited for a frozen client's locks."""
        asked_ns = term.now_ns()
        if term.left_seconds < trusted_for(lease.ttl_seconds) - renew_every(lease.ttl_seconds):
            self._store.renew(lease)
            term.extend(lease.ttl_seconds, asked_ns=asked_ns)

    def give_back(self, lease: Lease) -> None:
        """Give up a lease under which nothing was started: what earlier grants owe their gates is owed as before."""
        try:
            self._store.release(lease, clean=True)
        except FencepostError:
            return  # it is gone already, or will run out; the caller has something more important to raise

    def _acquire(self, claim: Claim, term: Term) -> Granted:
        asked_ns = term.now_ns()
        answer = self._leaser.acquire(claim)
        if isinstance(answer, Refused):
            if self._order.wait_seconds is not None:
                self._last = answer
                asked_ns, answer = self._queue(claim, term, self._order.wait_seconds)
            elif self._order.watch and self._store.facts().watches:
                asked_ns, answer = self._watch(claim, term, answer)
            else:
                raise Busy(self._busy(answer))
        term.extend(claim.ttl_seconds, asked_ns=asked_ns)
        return answer

    def _watch(self, claim: Claim, term: Term, refused: Refused) -> tuple[int, Granted]:
        """Stay until the holder shows a sign of life, or its silence has lasted for long enough to take its place.

        A store that compares no clocks knows of no other way, and a nightly caller comes too seldom to see it otherwise.
        """
        first = refused.holders[0]
        heard_ns = term.now_ns()
        left_seconds = first.remaining_seconds
        while True:
            self._wait(max(POLL_MIN_SECONDS, min(self._store.facts().poll_seconds, left_seconds)))
            asked_ns = term.now_ns()
            try:
                answer = self._leaser.acquire(claim)
            except StoreUnavailable:
                if asked_ns - heard_ns > max(OUTAGE_SECONDS, claim.ttl_seconds) * 1e9:
                    raise
                continue
            if isinstance(answer, Granted):
                return asked_ns, answer
            heard_ns, now = asked_ns, answer.holders[0]
            if (now.id, now.renewals) != (first.id, first.renewals):
                raise Busy(self._busy(answer))
            left_seconds = now.remaining_seconds

    def _queue(self, claim: Claim, term: Term, wait_seconds: float) -> tuple[int, Granted]:
        """Wait in line and return when the winning request was sent, and its answer."""
        place = _Place(self._store, claim, term)
        give_up_ns = term.now_ns() + wait_seconds * 1e9
        seldom = self._store.facts().poll_seconds
        pause = max(POLL_MIN_SECONDS, seldom)
        try:
            while True:
                asked_ns = term.now_ns()
                answer = self._ask(claim, place)
                if isinstance(answer, Granted):
                    self._clear()
                    return asked_ns, answer
                self._pause(answer, pause, (give_up_ns - term.now_ns()) / 1e9)
                pause = max(min(2 * pause, POLL_MAX_SECONDS), seldom)
        except BaseException:
            self._clear()
            place.leave()
            raise

    def _clear(self) -> None:
        if self._tools.show is not None:
            self._tools.show("")

    def _ask(self, claim: Claim, place: _Place) -> Granted | Refused:
        """Look, and ask only when there is something to be had; a store that is away for a while is waited for."""
        try:
            place.keep()
            answer = self._leaser.look(claim, ticket=place.ticket) or self._leaser.acquire(claim, ticket=place.ticket)
        except StoreUnavailable:
            if place.is_forgotten:
                raise
            return self._last
        place.heard()
        if isinstance(answer, Refused):
            self._last = answer
            self._tell(answer)
        return answer

    def _pause(self, refused: Refused, seconds: float, left_seconds: float) -> None:
        if left_seconds <= 0:
            raise Busy(f"{self._busy(refused)} Waited {_spelled(self._order.wait_seconds or 0)}.")
        self._wait(min(seconds, left_seconds))

    def _raise(self, lease: Lease, target: str) -> None:
        from fencepost.model.gate import proof_to_raise

        proof = proof_to_raise(lease, self._tools.processes.here().name)
        try:
            self._tools.open_gate(target, self._order.tenant).raise_fence(proof)
        except FenceRefused as refusal:
            self._explain(lease, target, refusal)
            raise
        except Misconfigured as error:
            if target in self._order.gates:
                raise
            raise (GateUnreachable if isinstance(error, GateUnreachable) else Misconfigured)(
                f"{target} is a gate of an earlier run that did not end well, and is out of reach now: {error} "
                f"If it is gone for good: fencepost lease forget {lease.resources[0]} {target}"
            ) from error

    def _explain(self, lease: Lease, target: str, refusal: FenceRefused) -> None:
        """Tell a store that went back in time, whose newest grant is refused, from one that overtook us."""
        from fencepost.model.gate import RefusedByMark, is_made_up

        if not isinstance(refusal, RefusedByMark) or refusal.mark.store != lease.store or is_made_up(refusal.mark):
            return
        self._store.renew(lease)  # raises LeaseLost if a newer claim was granted meanwhile
        raise FenceRegress(
            f"{target} has seen fence {refusal.mark.fence}, this store's newest is {lease.fence}: the store went back "
            f"in time. The run was not started. Lift the store: fencepost store bump --to {refusal.mark.fence}"
        ) from refusal

    def _tell(self, refused: Refused) -> None:
        """Say the place in the queue: as it changes, or on a terminal as time goes by, in one line."""
        key, text = self._standing(refused)
        if self._tools.show is not None:
            self._tools.show(text)
        elif key != self._said:
            self._said = key
            self._tools.say(text)

    def _standing(self, refused: Refused) -> tuple[str, str]:
        """Return what a change is told by, and the words."""
        first = refused.holders[0] if refused.holders else refused.ahead[-1]
        how = _spelled(first.worked_seconds) if isinstance(first, Held) else "waiting"
        words = f"queued · position {refused.position} · behind {first.run_id} ({first.label}, {how})"
        before = refused.ahead[-1] if refused.ahead else first
        return f"{refused.position} {before.run_id}", words

    def _tell_closed(self, error: GateUnreachable) -> None:
        if str(error) != self._said:
            self._said = str(error)
            self._tools.say(f"waiting for a gate: {error}")

    def _busy(self, refused: Refused) -> str:
        held = [
            f"{self._order.what or ' '.join(one.resources)} is held by {self._who(one)}." for one in refused.holders
        ]
        waiting = f"{refused.position - 1} waiting before you." if refused.ahead else ""
        return " ".join([*held, waiting]).strip()

    def _who(self, held: Held) -> str:
        since = _spelled(held.held_seconds)
        return f"{held.run_id} ({held.label}, pid {held.supervisor.pid} on {_host(held)}, for {since})"


def clear_away(held: Held) -> None:
    """Remove what a run left behind whose supervisor and guard were both killed."""
    if held.cgroup and cgroup.belongs_to(held.cgroup, held.run_id):
        cgroup.remove(held.cgroup)
    if held.guard and cgroup.is_run_id(held.run_id):
        plan_run_folder(held.run_id, held.fence if held.keeper else None).remove()


def _spelled(seconds: float) -> str:
    """Spell a duration; a command that gets its lease at once needs none."""
    from fencepost.model.duration import format_duration

    return format_duration(seconds)


def _host(held: Held) -> str:
    return held.supervisor.host.name


class _Place:
    """A place in the queue: kept by refreshing it now and then, given up on the way out."""

    __slots__ = ("_claim", "_known_ns", "_refresh_ns", "_store", "_term", "ticket")

    def __init__(self, store: LeaseStore, claim: Claim, term: Term) -> None:
        self.ticket = f"t{os.urandom(12).hex()}"
        self._store = store
        self._claim = claim
        self._term = term
        self._refresh_ns = self._known_ns = term.now_ns()

    def keep(self) -> None:
        if self._term.now_ns() >= self._refresh_ns:
            self._store.enqueue(self._claim, self.ticket)
            self._refresh_ns = self._term.now_ns() + round(renew_every(self._claim.ttl_seconds) * 1e9)

    def heard(self) -> None:
        self._known_ns = self._term.now_ns()

    @property
    def is_forgotten(self) -> bool:
        """Whether the store has been away for so long that it is no use to wait for it."""
        return self._term.now_ns() - self._known_ns > max(OUTAGE_SECONDS, self._claim.ttl_seconds) * 1e9

    def leave(self) -> None:
        try:
            self._store.dequeue(self.ticket)
        except StoreUnavailable:
            return  # the place goes stale by itself
