"""The lane's verb: settle a batch of runs that ended and lease the next, in one transaction.

The first half waits for rows in the order schedule, run, resource, lease, each sorted, as every verb does. The second
half never waits: what another worker has locked is left to it. So a turn never stands in a circle of waiters.
"""

import json
from collections.abc import Sequence
from functools import cached_property

from fencepost.model.lease import Lease
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun, Turned
from fencepost.stores.lane_facts import Hunch
from fencepost.stores.lane_leases import grant
from fencepost.stores.manifests import Manifests
from fencepost.stores.run_ends import Unexpected, end_runs
from fencepost.stores.runs import SqlRuns
from fencepost.stores.transaction import Transaction


class SqlBatches(SqlRuns):
    """The durable queue, many runs at a time."""

    _hunch: Hunch | None = None  # what the next turn will probably meet

    @cached_property
    def _manifests(self) -> Manifests:
        return Manifests()

    def turn(self, ended: Sequence[Ended], closing: Sequence[Lease], wanted: LaneRequest | None) -> Turned:
        """Settle what has ended, end leases that have no run left, and lease the next runs, all in one transaction.

        A run whose fence or lease is not ours any more is left alone and named; the others are settled all the same.
        """
        absent: set[tuple[str, str]] = set()

        def lease(tx: Transaction) -> Sequence[LeasedRun]:
            absent.clear()
            if wanted is None:
                return ()
            hunch, self._hunch = self._hunch, None  # should it be wrong, the next try has none
            leased = grant(tx, wanted, self._manifests, store_id=self._store_id, absent=absent, hunch=hunch)
            self._hunch = Hunch.of(leased) if leased else hunch
            return leased

        try:
            leased, lost = end_runs(self._dialect, ended, closing, lease)
        except Unexpected:
            leased, lost = end_runs(self._dialect, ended, closing, lease)
        turned = Turned(leased, tuple(sorted(lost)))
        if absent:  # made apart, because an insert may have to wait for another one
            self._dialect.write(lambda tx: tx.rows("ensure_resources", keys=json.dumps(sorted(absent))))
        return turned

    def stops_asked(self, lease: Lease) -> dict[str, str]:
        """Return which running runs of a batch shall stop, and why."""
        rows = self._dialect.read(lambda tx: tx.rows("stops_asked", lease_id=lease.id, fence=lease.fence))
        return {str(run_id): str(reason) for run_id, reason in rows}

    def lane_ready(self, limit: int) -> int:
        """Return how many runs wait for a lane, up to a limit."""
        ((ready,),) = self._dialect.read(lambda tx: tx.rows("lane_ready", limit=limit))
        return int(ready)
