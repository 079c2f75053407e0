"""A lease in the hands of a Python program: renewed in the background, given back at the end of the block."""

import os
from types import TracebackType
from typing import Self

from fencepost.model.errors import LeaseLost
from fencepost.model.gate import Proof, proof_of
from fencepost.model.lease import Claim, Lease, renew_every
from fencepost.ports.gate import Gate
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.order import Order, Tools, new_id
from fencepost.service.renewal import Renewal, Renewer, Term


class HeldLease:
    """A lease that this process holds.

    There is no agent to kill here: the program itself stops when `check()` raises, and whatever it
    writes through a gate is refused once somebody newer has started.
    """

    def __init__(self, lease: Lease, tools: Tools, store: LeaseStore, term: Term) -> None:
        self._lease = lease
        self._tools = tools
        self._store = store
        self._term = term
        self._over = False
        renewer = Renewer(lease, term, tools.open_store)
        self._renewal = Renewal(renewer, first_in_seconds=renew_every(lease.ttl_seconds), term=term)
        self._renewal.start()

    @property
    def fence(self) -> int:
        """The number to show at write targets; it only rises from holder to holder."""
        return self._lease.fence

    @property
    def resources(self) -> tuple[str, ...]:
        """What is held."""
        return self._lease.resources

    @property
    def run_id(self) -> str:
        """The name of this acquisition in listings."""
        return self._lease.run_id

    @property
    def proof(self) -> Proof:
        """What gates want to see."""
        return proof_of(self._lease, self._tools.processes.here().name)

    @property
    def lost(self) -> bool:
        """Whether the lease may be somebody else's by now; costs no I/O."""
        return self._over or self._renewal.lost is not None or self._term.over

    def check(self) -> None:
        """Raise LeaseLost if the lease may be somebody else's by now; costs no I/O."""
        if self.lost:
            reason = self._renewal.lost or self._renewal.trouble or "it is over, or was not renewed in time."
            raise LeaseLost(f"the lease on {' '.join(self.resources)} is lost: {reason}")

    def gate(self, target: str) -> Gate:
        """Open a gate, such as `file:PATH`, with this lease's fence raised there."""
        self.check()
        gate = self._tools.open_gate(target)
        gate.raise_fence(self.proof)
        return gate

    def release(self) -> None:
        """Give the lease back, or raise LeaseLost if it was lost meanwhile; a second time does nothing."""
        if self._over:
            return
        self._over = True
        self._renewal.stop()
        try:
            self._store.release(self._lease, clean=True)
        except LeaseLost:
            self._store.bury(self._lease)  # this process is the whole tree, and it is here
            raise
        finally:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LeaseLost:
            if error is None:
                raise


def hold(order: Order, tools: Tools) -> HeldLease:
    """Acquire a lease for this process, waiting as the order says, or raise Busy."""
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
        )
        lease = Admission(order, tools, store, wait=tools.clock.sleep).admit(claim, term)
    except BaseException:
        store.close()
        raise
    return HeldLease(lease, tools, store, term)
