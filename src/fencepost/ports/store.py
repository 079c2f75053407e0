"""What we ask of a store: one transaction per verb, and the lease in every verb that ends or extends one."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Collection, NamedTuple, Protocol, Sequence
from fencepost.model.lease import TTL_DEFAULT_SECONDS

if TYPE_CHECKING:
    from fencepost.model.lease import Claim, Granted, Held, Lease, Refused, Waiter
    from fencepost.ports.ledger import LedgerStore


RENEWED_AT_ONCE = 250  # leases


class StoreFacts(NamedTuple):
    """Who the store is, for gates and for people."""

    id: str
    url: str  # never with a password
    kind: str
    schema: int
    counts_sleep: bool  # whether a lease runs on while its holder's host sleeps
    notices: tuple[str, ...]  # what a person should know, such as a store that went back in time
    poll_seconds: float = 0.0  # how far apart a waiting caller looks at least, where each look costs something
    ttl_seconds: float = TTL_DEFAULT_SECONDS  # of a lease whose caller names none
    watches: bool = False  # whether a holder's silence is known by watching it, and by nothing else


class LeaseStore(Protocol):
    """Leases, fences and the queue for them."""

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        ...

    def acquire(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Granted | Refused:
        """Grant all resources with one new fence, or none; with the claim's tick, or raise TickOver if it is not to be run.

        `dead` names leases and waiters whose process is proven dead. Asking again after an unknown
        answer returns the grant that was made.
        """
        ...

    def look(self, claim: Claim, *, dead: Collection[str] = (), ticket: str | None = None) -> Refused | None:
        """Tell whether a claim would be refused now, writing nothing."""
        ...

    def start(self, lease: Lease) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""
        ...

    def renew(self, lease: Lease) -> None:
        """Extend the lease by its time to live, or raise LeaseLost."""
        ...

    def renew_leases(self, leases: Sequence[Lease]) -> dict[str, str]:
        """Extend up to RENEWED_AT_ONCE leases, and return what became of each by its id.

        `renewed`, `lost`, `moved` (another worker keeps it now) or `busy`: another transaction has its row, so that
        nothing was extended, and asking again soon may help.
        """
        ...

    def release(self, lease: Lease, *, clean: bool, answered: bool = True, code: int | None = None) -> None:
        """End the lease, or raise LeaseLost. Clean means that nothing of the tree is left, answered that it ended well.

        `code` is the exit code of a guarded command; None: it never started.
        """
        ...

    def count_refused(self, tenant: str) -> None:
        """Count a write that was refused; no lease is needed to say so, for it is mostly a lost one that is refused."""
        ...

    def enqueue(self, claim: Claim, ticket: str) -> None:
        """Join the queue for the claim's resources; joining again refreshes the place."""
        ...

    def dequeue(self, ticket: str) -> None:
        """Leave the queue."""
        ...

    def leases(self) -> list[Held]:
        """Return every lease, and those lost ones whose processes were not seen dead yet."""
        ...

    def waiters(self) -> list[Waiter]:
        """Return the queue, oldest first."""
        ...

    def break_lease(self, held: Held, *, why: str) -> bool:
        """Take a lease from its holder by hand; False if it has changed hands since it was looked at."""
        ...

    def bury(self, lost: Held | Lease) -> None:
        """Forget a lost lease whose tree is known to be gone."""
        ...

    def forget_gate(self, tenant: str, resource: str, gate: str) -> bool:
        """No longer owe a gate that is gone for good its fence; False if it was not owed."""
        ...

    def forget_tick(self, tenant: str, resource: str, job: str) -> bool:
        """Throw away the record of a job's ticks; False if there is none."""
        ...

    def bump(self, floor: int) -> int:
        """Lift the fence floor so that every later fence is above it; return the floor now in force."""
        ...

    def ledger(self) -> LedgerStore:
        """Return the verbs of the ledger."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
