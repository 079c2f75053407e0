"""People in a project: an agent session or `exec --project` that takes the directory for a while, waiting in line."""

from collections.abc import Callable

from fencepost.model.errors import Busy, FencepostError, StoreUnavailable
from fencepost.model.lease import Claim, renew_every
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order
from fencepost.service.custody import Custody, Term
from tests.simulation.hosts import Host, Process
from tests.simulation.runtime.fleet import TENANT
from tests.simulation.runtime.stage import Stage


class Session:
    """One process that holds a project."""

    def __init__(self, stage: Stage, host: Host, ended: Callable[[], None]) -> None:
        self.process = Process(host, stage.new_id("session"))
        self._stage = stage
        self.process.at_death.append(ended)
        self.process.spawn("main", self._main)

    def _main(self) -> None:
        try:
            self._hold()
        except Busy:
            self._stage.world.totals["sessions that found no room"] += 1
        except FencepostError as error:
            self._stage.world.log(self.process.name, f"ends: {type(error).__name__}")
        self.process.kill("exit")

    def _hold(self) -> None:
        stage, ttl, rng = self._stage, self._stage.knobs.ttl_seconds, self._stage.world.rng
        store, term = stage.runtime(self.process), Term(self.process.clock, counts_sleep=stage.knobs.many_hosts)
        order = Order(
            (),
            TENANT,
            (stage.plot.project,),
            "session",
            ttl,
            wait_seconds=rng.choice((None, 2 * ttl, 6 * ttl)),
            slots=stage.plot.project_slots,
        )
        claim = Claim(
            stage.new_id("lease"),
            TENANT,
            order.resources,
            self.process.name,
            ttl,
            self.process.id,
            slots=order.slots,
        )
        lease = Admission(order, stage.tools(self.process), store, wait=self.process.clock.sleep).admit(claim, term)
        stage.world.totals["sessions in a project"] += 1
        if not lease.started:
            store.start(lease)
        counts_sleep = stage.knobs.many_hosts
        custody = Custody(lambda: stage.runtime(self.process), self.process.clock, counts_sleep=counts_sleep)
        kept = custody.keep(lease, term)
        until_ns = self.process.clock.awake_ns() + int(3 * ttl * rng.random() * 1e9)
        pause = renew_every(ttl)
        while not kept.lost and not term.over and self.process.clock.awake_ns() < until_ns:
            self.process.clock.sleep(pause)
            pause = custody.step()
        if not kept.lost:
            self._give_back(stage, lease)

    def _give_back(self, stage: Stage, lease: object) -> None:
        for _ in range(3):
            try:
                stage.runtime(self.process).release(lease, clean=True)  # type: ignore[arg-type]  # a lease
            except StoreUnavailable:
                self.process.clock.sleep(0.5)
            else:
                return
