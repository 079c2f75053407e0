"""Schedulers and workers: the loop of `up`, with the product's own ticker, reaper and agenda; and who starts it again."""

from contextlib import suppress

from fencepost.flow.foresight import Foresight
from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.ticker import Ticker, plan_of
from fencepost.model.errors import Busy, FencepostError, LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Lease, renew_every
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order
from fencepost.service.custody import Custody, Term
from fencepost.service.leftovers import Leftovers
from fencepost.service.projects import Presence
from tests.simulation.hosts import Host, Process
from tests.simulation.ports import SimProcesses
from tests.simulation.runtime.attempts import Attempt
from tests.simulation.runtime.chores import Chores
from tests.simulation.runtime.fleet import TENANT
from tests.simulation.runtime.grounds import Ground
from tests.simulation.runtime.lanes import Lane
from tests.simulation.runtime.stage import Stage
from tests.simulation.world import SECOND, Mailbox

STARTING_MAX = 2
BACKOFF_SECONDS = 1.0
STEPS_MAX = 1000
LANE_PART = 0.2  # of the time between two looks, between two lanes: what waits may have no room


class Station:
    """One process that schedules, works, or both, until it dies or is drained."""

    def __init__(self, stage: Stage, name: str, host: Host, *, ticks: bool, slots: int) -> None:
        self.stage = stage
        self.process = Process(host, name)
        self.mail = Mailbox(stage.world)
        self.attempts: list[Attempt] = []
        self.draining = False
        self._ticks = ticks
        self._foresight = Foresight(plan_of)
        self._slots = slots
        self._store = stage.runtime(self.process)
        self._chores = Chores(stage, self.process)
        self._presence = Presence(Ground(stage.plot), stage.tools(self.process), ttl_seconds=stage.knobs.ttl_seconds)  # type: ignore[arg-type]
        self._leftovers = Leftovers(SimProcesses(self.process), self.process.clock, lambda _: None)
        self._lanes: list[Lane] = []
        self._lead: Lead | None = None
        self._probe_ns = self._reap_ns = self._send_ns = self._lane_ns = 0
        self._started = 0
        self.process.spawn("main", self._main)

    def drain(self) -> None:
        """Get SIGTERM."""
        self.draining = True
        self.mail.put("drain")

    def came_in_vain(self) -> None:
        """Hear that an attempt found nothing it may lease: nobody is sent again at once."""
        self._send_ns = self._now_ns() + int(self.stage.plot.poll_seconds * 1e9)

    def _main(self) -> None:
        while not self.draining:
            try:
                pause = self._step()
            except StoreUnavailable:
                pause = BACKOFF_SECONDS
                self._store = self.stage.runtime(self.process)
            self.mail.items.clear()
            if not self.draining:
                self.mail.wait(self.process.host.time.true_ns(pause))
        self._drain()
        self.process.kill("exit")

    def _step(self) -> float:
        """Do what is due and return how long nothing will be."""
        drives = self._ticks and self.stage.ticking and self._leads()
        ticker = Ticker(self._store, self.stage.new_id, batch_max=self.stage.plot.batch_max, foresight=self._foresight)
        if drives:
            self._tick(ticker)
        self._reap()
        self._chores.step(self._store)
        self._presence.step(self._store)
        agenda = self._store.agenda(self._slots)
        if self._slots:
            self._leftovers.clear(self._store)
        self._start_attempts(agenda.ready)
        self._start_lane()
        if drives and ticker.prepare(now_us=agenda.now_us, next_due_us=agenda.next_due_us):
            return 0.01
        times = [agenda.next_ready_us, *([agenda.next_due_us] if drives else [])]
        left = [(at - agenda.now_us) / 1e6 for at in times if at is not None]
        return max(0.01, min([self.stage.plot.poll_seconds, *left]))

    def _tick(self, ticker: Ticker) -> None:
        for _ in range(STEPS_MAX):
            if not ticker.step():
                return
        self.stage.world.fail("progress", "the ticker spins")

    def _leads(self) -> bool:
        if not self.stage.plot.led or (self._lead is not None and not self._lead.lost):
            return True
        if self._now_ns() < self._probe_ns:
            return False
        self._probe_ns = self._now_ns() + int(self.stage.plot.poll_seconds * 1e9)
        if self._lead is not None:
            self._lead.release()
            self._lead = None
        try:
            self._lead = Lead(self)
        except (Busy, LeaseLost):
            return False
        self.stage.world.totals["leads"] += 1
        return True

    def _reap(self) -> None:
        if self._now_ns() >= self._reap_ns:
            self._reap_ns = self._now_ns() + int(self.stage.plot.reap_seconds * 1e9)
            processes, now = SimProcesses(self.process), store_now(self._store.clock_us)
            self.stage.world.totals["reaped"] += Reaper(self._store, self._store, processes, now, batch_max=5).step()

    def _start_attempts(self, ready: int) -> None:
        self.attempts = [one for one in self.attempts if one.process.alive]
        if not self._slots or self.draining or self._now_ns() < self._send_ns:
            return
        starting = sum(one.found is None for one in self.attempts)
        wanted = min(self._slots - len(self.attempts), ready - starting, STARTING_MAX - starting)
        for _ in range(max(0, wanted)):
            self._started += 1
            attempt = Attempt(self.stage, self, f"{self.process.name}a{self._started}")
            attempt.process.at_death.append(lambda: self.mail.put("child"))
            self.attempts.append(attempt)

    def _start_lane(self) -> None:
        """Keep a lane while there is something for it."""
        self._lanes = [one for one in self._lanes if one.process.alive]
        if not self.stage.plot.lanes or not self._slots or self._lanes or self.draining:
            return
        if self._now_ns() >= self._lane_ns and self._store.lane_ready(1):
            self._lane_ns = self._now_ns() + int(LANE_PART * self.stage.plot.poll_seconds * 1e9)
            self._started += 1
            lane = Lane(self.stage, self, f"{self.process.name}l{self._started}")
            lane.process.at_death.append(lambda: self.mail.put("child"))
            self._lanes.append(lane)

    @property
    def children(self) -> list[Attempt | Lane]:
        """Everybody who has a run in hand."""
        return [*self.attempts, *self._lanes]

    def _drain(self) -> None:
        """Start nothing more; let attempts hand their runs back or finish; queued runs stay queued."""
        if self._lead is not None:
            self._lead.release()
        self.stage.world.totals["drains"] += 1
        for child in self.children:
            child.drain()
        with suppress(FencepostError):
            self._presence.leave(self._store)
        give_up_ns = self._now_ns() + int((self.stage.plot.drain_seconds + 4 * self.stage.knobs.ttl_seconds) * 1e9)
        while any(one.process.alive for one in self.children) and self._now_ns() < give_up_ns:
            self.process.clock.sleep(self.stage.plot.poll_seconds)

    def _now_ns(self) -> int:
        return self.process.clock.awake_ns()


class Lead:
    """The lease that keeps the other schedulers quiet."""

    def __init__(self, station: Station) -> None:
        stage, process = station.stage, station.process
        ttl = stage.knobs.ttl_seconds
        self._store = stage.runtime(process)
        self._term = Term(process.clock, counts_sleep=stage.knobs.many_hosts)
        order = Order((), TENANT, (f"scheduler:{TENANT}",), "scheduler", ttl)
        run_id = stage.new_id("lead")
        claim = Claim(stage.new_id("lease"), TENANT, order.resources, run_id, ttl, process.id)
        admission = Admission(order, stage.tools(process), self._store, wait=process.clock.sleep)
        self._lease: Lease = admission.admit(claim, self._term)
        self._custody = Custody(lambda: stage.runtime(process), process.clock, counts_sleep=stage.knobs.many_hosts)
        self._kept = self._custody.keep(self._lease, self._term)
        self._over = False
        self._process = process
        process.spawn("lead", self._renew)

    @property
    def lost(self) -> bool:
        return self._over or self._kept.lost is not None or self._term.over

    def release(self) -> None:
        self._over = True
        try:
            self._store.release(self._lease, clean=True)
        except FencepostError:
            return  # another scheduler has it, or will soon

    def _renew(self) -> None:
        pause = renew_every(self._lease.ttl_seconds)
        while not self.lost:
            self._process.clock.sleep(pause)
            if not self._over:
                pause = self._custody.step()


class Post:
    """A place on a host where a station belongs: whoever dies there is followed by the next."""

    def __init__(self, stage: Stage, name: str, host: Host, *, ticks: bool, slots: int) -> None:
        self.name = name
        self.host = host
        self.station: Station | None = None
        self.closed_until_ns = 0  # nobody starts one again before: an outage
        self._stage = stage
        self._ticks = ticks
        self._slots = slots
        self._stations = 0

    def live(self) -> None:
        """Start a station, wait for its end, and start the next, for ever."""
        world = self._stage.world
        while True:
            while not self.host.usable or world.now_ns < self.closed_until_ns:
                world.pause(max(SECOND, self.closed_until_ns - world.now_ns))
            self._stations += 1
            self.station = Station(
                self._stage, f"{self.name}.{self._stations}", self.host, ticks=self._ticks, slots=self._slots
            )
            self._await(self.station)
            world.pause(int(world.rng.random() * self._stage.knobs.ttl_seconds * SECOND))

    def _await(self, station: Station) -> None:
        over = Mailbox(self._stage.world)
        station.process.at_death.append(lambda: over.put("over"))
        over.wait(None)
