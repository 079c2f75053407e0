"""Old record → count: let go of what ended long ago, so that a store does not grow for ever."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.model.retention import Horizon
from fencepost.ports.pruning import PrunedPage, PrunePlace

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

ORDER = ("leases", "runs", "ticks", "pauses", "logs")  # a run goes after its lost lease, a tick after its run


@dataclass(frozen=True, slots=True)
class Pruner:
    """Prunes one tenant; safe to run anywhere, any number of times, and to be killed between any two steps."""

    store: "RuntimeStore"
    tenant: str
    kept_for: timedelta
    batch_max: int = 500
    dry: bool = False

    def step(self, place: PrunePlace) -> PrunedPage:
        """Look at one page, in one short transaction; the page after it is `next`, or None when the pass is over.

        All that is deleted is counted, and the watermark raised, in the same transaction.
        """
        horizon = Horizon(self.tenant, self.store.clock_us(), self.kept_for)
        store = self.store
        verbs = (store.prune_leases, store.prune_runs, store.prune_ticks, store.prune_pauses, store.prune_logs)
        prune = dict(zip(ORDER, verbs, strict=True))
        page = prune[place.what](horizon, place, self.batch_max, dry=self.dry)
        if page.next is not None:
            return page
        later = ORDER[ORDER.index(place.what) + 1 :]
        return PrunedPage(page.gone, PrunePlace(later[0]) if later else None)
