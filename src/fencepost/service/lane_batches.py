"""The leases of a lane: each is on a batch of runs, is renewed while one of them is left, and bounds them all."""

from collections.abc import Iterable, Iterator, Sequence

from fencepost.model.lease import Lease
from fencepost.ports.alike_runs import leases_of
from fencepost.ports.runs import LeasedRun
from fencepost.service.custody import Custody, Kept, Term

FOREVER_NS = 1 << 62
POLL_SECONDS = 0.5


class Batches:
    """Every lease that the lane holds."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._batches: dict[str, Kept] = {}

    def add(self, lease: Lease, term: Term) -> Kept:
        """Keep one more lease alive, from its first renewal on."""
        kept = self._batches[lease.id] = self._custody.keep(lease, term)
        return kept

    def without(self, *runs: Sequence[LeasedRun]) -> list[Lease]:
        """Return the leases that belong to none of these runs."""
        left = {lease_id for some in runs for lease_id in leases_of(some)}
        return [kept.lease for kept in self._batches.values() if kept.lease.id not in left]

    def drop(self, leases: Iterable[Lease]) -> list[Kept]:
        """Let go of leases that were given back."""
        gone = [self._batches.pop(lease.id) for lease in leases]
        for kept in gone:
            self._custody.let_go(kept)
        return gone

    def keep(self) -> None:
        """Begin to renew when it is time."""
        if self._custody.first_in_seconds() == 0:
            self._custody.start()
        self._custody.look()

    def term_of(self, lease: Lease) -> Term:
        """Return until when a lease may be trusted."""
        return self._batches[lease.id].term

    @property
    def is_late(self) -> bool:
        """Whether a lease is lost, or may have another holder by now."""
        return any(kept.term.over or kept.lost for kept in self._batches.values())

    @property
    def deadline_ns(self) -> int:
        """When the first of the leases can be given away."""
        return min((kept.term.deadline_ns for kept in self._batches.values()), default=FOREVER_NS)

    def waits(self) -> Iterator[float]:
        """Yield when `keep` is to be called next."""
        first = self._custody.first_in_seconds()
        yield POLL_SECONDS if first is None else first
        yield from (kept.term.left_seconds for kept in self._batches.values())

    def close(self) -> None:
        """Renew nothing any more."""
        self._custody.close()
