"""What a station does beside its main work: it prunes, seals the audit and delivers notices, by the product's own steps."""

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.flow.notary import Notary
from fencepost.flow.pruner import Pruner
from fencepost.model.audit_chain import Seal
from fencepost.model.notice import BY_DEFAULT, Wish
from fencepost.ports.pruning import PrunePlace as Page
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.hosts import Process
from tests.simulation.runtime.fleet import SOURCE, TENANT
from tests.simulation.runtime.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = b"the notary's own key, kept elsewhere"
EVERY = {"prune": 10, "seal": 4, "deliver": 2}  # times as long as between two looks of the reaper
PAGES_MAX = 40  # of a pass
HELD_TTLS = 2.0
TARGET = "pager"
WISHES = {Wish(TARGET, event) for event in (*BY_DEFAULT, "succeeded")}


class Archive:
    """What is kept outside of the store: exported heads, and which notices arrived."""

    def __init__(self) -> None:
        self.heads: list[Seal] = []
        self.arrived: Counter[str] = Counter()

    def went_back(self, last: int) -> None:
        """Forget what the store knows nothing of any more: a chain that goes on from an older seal is another one."""
        self.heads = [head for head in self.heads if head.number <= last]


class Chores:
    """The chores of one station, each at its own pace."""

    def __init__(self, stage: Stage, process: Process) -> None:
        self._stage = stage
        self._process = process
        self._page = Page()
        self._declared = False
        self._due_ns = dict.fromkeys(("prune", "seal", "deliver"), 0)

    def step(self, store: RuntimeStore) -> None:
        """Do what is due; whoever dies here leaves it to the next."""
        plot = self._stage.plot
        wanted: list[tuple[str, bool, Callable[[RuntimeStore], None]]] = [
            ("prune", plot.retention_seconds > 0, self._prune),
            ("seal", plot.seals, self._seal),
            ("deliver", plot.tells, self._deliver),
        ]
        for name, is_wanted, do in wanted:
            if is_wanted and self._process.clock.awake_ns() >= self._due_ns[name]:
                self._due_ns[name] = self._process.clock.awake_ns() + int(plot.reap_seconds * EVERY[name] * 1e9)
                do(store)

    def _prune(self, store: RuntimeStore) -> None:
        plot = self._stage.plot
        pruner = Pruner(store, TENANT, timedelta(seconds=plot.retention_seconds), batch_max=min(plot.batch_max + 1, 20))
        for _ in range(PAGES_MAX):
            page = pruner.step(self._page)
            self._stage.world.totals["pruned"] += page.gone
            self._page = page.next or Page()
            if page.next is None:
                return

    def _seal(self, store: RuntimeStore) -> None:
        notary = Notary(store.audit_chain(), KEY, store.clock_us, self._export, batch=20)
        while notary.step():
            self._stage.world.totals["sealed batches"] += 1

    def _export(self, seal: Seal) -> None:
        self._stage.archive.heads.append(seal)
        self._stage.world.totals["heads exported"] += 1

    def _deliver(self, store: RuntimeStore) -> None:
        world, notices = self._stage.world, store.notices()
        if not self._declared:
            notices.declare(TENANT, SOURCE, WISHES)
            self._declared = True
        hold = HELD_TTLS * self._stage.knobs.ttl_seconds
        for one in notices.claim(TENANT, SOURCE, [TARGET], limit=5, hold_seconds=hold):
            self._process.clock.sleep(0.2 * world.rng.random())
            if not world.quiet and world.chance(0.2):
                world.totals["notices that failed"] += 1
                notices.failed(one, "no answer", again_in_seconds=self._stage.knobs.ttl_seconds)
                continue
            self._stage.archive.arrived[one.id] += 1
            world.totals["notices that arrived"] += 1
            notices.sent(one)
