"""The leases of a lane: each is on a batch of runs, is renewed while one of them is left, and bounds them all."""

from collections.abc import Callable, Iterable, Iterator

from fencepost.model.lease import Lease, renew_every
from fencepost.ports.store import LeaseStore
from fencepost.service.renewal import Renewal, Renewer, Term

FOREVER_NS = 1 << 62
POLL_SECONDS = 0.5


class _Batch:
    """A lease on many runs, and until when it may be trusted."""

    __slots__ = ("lease", "renewal", "term")

    def __init__(self, lease: Lease, term: Term, renewal: Renewal) -> None:
        self.lease = lease
        self.term = term
        self.renewal = renewal


class Batches:
    """Every lease that the lane holds."""

    def __init__(self, open_store: Callable[[], LeaseStore], tell: Callable[[], None]) -> None:
        """`tell` is called in another thread whenever there is news of a lease."""
        self._open_store = open_store
        self._tell = tell
        self._batches: dict[str, _Batch] = {}

    def add(self, lease: Lease, term: Term) -> None:
        """Keep one more lease alive, from its first renewal on."""
        first = renew_every(lease.ttl_seconds)
        renewal = Renewal(Renewer(lease, term, self._open_store), first_in_seconds=first, term=term, tell=self._tell)
        self._batches[lease.id] = _Batch(lease, term, renewal)

    def without(self, ids: Iterable[str]) -> list[Lease]:
        """Return the leases of which none of these runs' leases is one."""
        left = set(ids)
        return [batch.lease for batch in self._batches.values() if batch.lease.id not in left]

    def drop(self, leases: Iterable[Lease]) -> None:
        """Let go of leases that were given back."""
        for lease in leases:
            self._batches.pop(lease.id).renewal.stop()

    def keep(self) -> None:
        """Begin to renew what is due for it."""
        for batch in self._batches.values():
            if batch.renewal.first_in_seconds() == 0:
                batch.renewal.start()

    def term_of(self, lease: Lease) -> Term:
        """Return until when a lease may be trusted."""
        return self._batches[lease.id].term

    @property
    def is_late(self) -> bool:
        """Whether a lease is lost, or may be somebody else's by now."""
        return any(batch.term.over or batch.renewal.lost for batch in self._batches.values())

    @property
    def deadline_ns(self) -> int:
        """When the first of the leases can be given away."""
        return min((batch.term.deadline_ns for batch in self._batches.values()), default=FOREVER_NS)

    def waits(self) -> Iterator[float]:
        """Yield when `keep` is to be called next, for each lease."""
        for batch in self._batches.values():
            yield batch.renewal.first_in_seconds() or POLL_SECONDS
