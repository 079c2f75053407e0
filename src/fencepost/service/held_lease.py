"""A lease in the hands of a Python program: renewed in the background, given back at the end of the block."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from fencepost.flow.effect_once import Once, once
from fencepost.model.errors import LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.gate import Proof, covers, proof_of
from fencepost.model.lease import Claim, Lease, keys_of
from fencepost.ports.gate import Gate
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools, new_id
from fencepost.service.custody import Custody, Term

T = TypeVar("T")


class HeldLease:
    """A lease that this process holds.

    There is no agent to kill here: the program itself stops when `check()` raises, and what it
    writes through a gate is refused once a newer holder has started. A forked child does not hold it.
    """

    def __init__(self, grip: "_Grip") -> None:
        self._grip = grip
        self._over = False
        grip.handles += 1

    @property
    def fence(self) -> int:
        """The number to show at write targets; it only rises from holder to holder."""
        return self._grip.lease.fence

    @property
    def resources(self) -> tuple[str, ...]:
        """What is held."""
        return self._grip.lease.resources

    @property
    def run_id(self) -> str:
        """The name of this acquisition in listings."""
        return self._grip.lease.run_id

    @property
    def proof(self) -> Proof:
        """What gates want to see."""
        return proof_of(self._grip.lease, self._grip.tools.processes.here().name)

    @property
    def lost(self) -> bool:
        """Whether another process may have the lease by now; costs no I/O."""
        return self._over or self._grip.lost

    def check(self) -> None:
        """Raise LeaseLost if another process may have the lease by now; costs no I/O."""
        if self.lost:
            reason = "it was given back." if self._over else self._grip.reason
            raise LeaseLost(f"the lease on {' '.join(self.resources)} is lost: {reason}")

    def gate(self, target: str) -> Gate:
        """Open a gate, such as `file:PATH`, that was named when the lease was taken and so has its fence raised."""
        self.check()
        gate = self._grip.tools.open_gate(target, self._grip.lease.tenant)
        if not any(covers(declared, gate.target) for declared in self._grip.lease.gates):
            raise Misconfigured(
                f"{gate.target} was not named when the lease was taken, so older holders are not kept out there; "
                f"add it: lease(…, gates=({gate.target!r},))"
            )
        return gate

    def once(
        self, key: str, effect: Callable[[], T], probe: Callable[[], object] | None = None, *, scope: str = "tenant"
    ) -> T:
        """Have an effect once under this lease, and return its recorded answer ever after; see RunContext.once."""
        self.check()
        answer: T = once(Once(self._grip.ask_ledger, self._grip.tools.clock.sleep, key, scope=scope), effect, probe)
        return answer

    def release(self) -> None:
        """Give the lease back, or raise LeaseLost if it was lost meanwhile; a second time does nothing."""
        self._release(answered=True)

    def _release(self, *, answered: bool) -> None:
        if self._over:
            return
        self._over = True
        self._grip.let_go(answered=answered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_lost = self.lost
        try:
            self._release(answered=error is None)
        except LeaseLost:
            if error is None:
                raise
        except StoreUnavailable as trouble:
            if error is None and was_lost:
                raise LeaseLost(f"the lease on {' '.join(self.resources)} is lost: {trouble}") from trouble
            # The work was done under the lease; only giving it back failed, and it runs out by itself.
            self._grip.tools.say(f"the lease could not be given back: {trouble}")


class _Grip:
    """What the handles on one lease share: it is given back with the last of them."""

    def __init__(self, lease: Lease, tools: Tools, store: LeaseStore, term: Term) -> None:
        self.lease = lease
        self.tools = tools
        self.handles = 0
        self._answered = True
        self._store = store
        self._term = term
        self._process = os.getpid()
        self._one_at_a_time = Lock()
        self._custody = Custody(tools.open_store, tools.clock, counts_sleep=term.counts_sleep)
        self._kept = self._custody.keep(lease, term)
        self._custody.start()

    @property
    def lost(self) -> bool:
        return not self._is_here or self._kept.lost is not None or self._term.over

    @property
    def reason(self) -> str:
        if not self._is_here:
            return "this is a forked child, and its parent holds the lease; take one here."
        return self._kept.lost or self._kept.trouble or "it was not renewed in time."

    def ask_ledger(self, verb: str, **fields: str) -> Mapping[str, Any]:
        """Answer about the ledger as a supervisor does, for as long as the lease is held."""
        from fencepost.service.ledger_answers import answer_about_ledger, error_of

        if self.lost:
            raise LeaseLost(f"the lease on {' '.join(self.lease.resources)} is lost: {self.reason}")
        with self._one_at_a_time:
            answer = answer_about_ledger({**fields, "verb": verb}, self.lease, self._store.ledger())
        if not answer["ok"]:
            raise error_of(answer)
        return answer

    def let_go(self, *, answered: bool) -> None:
        self.handles -= 1
        self._answered = self._answered and answered
        if self.handles or not self._is_here:  # a forked child shares the parent's connection and must not touch it
            return
        for key in [key for key, grip in _GRIPS.items() if grip is self]:
            del _GRIPS[key]
        self._custody.close()
        try:
            self._store.release(self.lease, clean=True, answered=self._answered)
        except LeaseLost:
            with suppress(StoreUnavailable):  # that it is lost is what counts, and the next holder buries it too
                self._store.bury(self.lease)  # this process is the whole tree, and it is here
            raise
        finally:
            self._store.close()

    @property
    def _is_here(self) -> bool:
        return self._process == os.getpid()


class _Key(NamedTuple):
    """By what a session finds the lease again that it already holds in this process."""

    store: str
    tenant: str
    resources: tuple[tuple[str, str], ...]
    holder: str


_GRIPS: dict[_Key, _Grip] = {}


def hold(order: Order, tools: Tools, *, store_url: str = "") -> HeldLease:
    """Acquire a lease for this process, waiting as the order says, or raise Busy.

    A holder that asks again in the same process gets another handle on the lease it has.
    """
    if order.holder is None:
        return HeldLease(_grip(order, tools))
    key = _Key(store_url, order.tenant, tuple(keys_of(order.tenant, order.resources)), order.holder)
    grip = _GRIPS.get(key)
    if grip is None or grip.lost:
        grip = _GRIPS[key] = _grip(order, tools)
    held = HeldLease(grip)
    try:
        for target in order.gates:
            held.gate(target)
    except BaseException:
        held.release()
        raise
    return held


def _grip(order: Order, tools: Tools) -> _Grip:
    store = tools.open_store()
    try:
        term = Term(tools.clock, counts_sleep=store.facts().counts_sleep)
        claim = Claim(
            id=os.urandom(16).hex(),
            tenant=order.tenant,
            resources=order.resources,
            run_id=new_id(tools.clock),
            ttl_seconds=order.ttl_seconds,
            supervisor=tools.processes.myself(),
            holder=order.holder,
            label=order.label,
            gates=order.gates,
            slots=order.slots,
        )
        lease = Admission(order, tools, store, wait=tools.clock.sleep).admit(claim, term)
        if lease.gates and not lease.started:
            store.start(lease)  # its gates are up, so that its clean end settles what earlier grants owe to them
    except BaseException:
        store.close()
        raise
    return _Grip(lease, tools, store, term)
