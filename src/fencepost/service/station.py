"""The loop of `up`, `scheduler` and `worker`: tick, reap, start attempts, and sleep until something is due."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

from fencepost.flow.foresight import Foresight
from fencepost.flow.ticker import Ticker, plan_of
from fencepost.model.errors import Busy, LeaseLost, StoreUnavailable
from fencepost.model.fast_typing import NamedTuple
from fencepost.ports.agenda import Agenda
from fencepost.service.adoption import Adoption
from fencepost.service.chores import Chore, Chores
from fencepost.service.command_order import Order, Tools, new_id
from fencepost.service.held_lease import HeldLease, hold
from fencepost.service.leftovers import Leftovers
from fencepost.service.message_pipe import readable
from fencepost.service.nursery import Nursery
from fencepost.service.projects import Presence
from fencepost.service.wakeup import Hint
from fencepost.service.worker import Worker
from fencepost.stores.runtime import RuntimeStore

POLL_SECONDS = 0.5  # hints may be lost; looking is the truth
DEAF_TIMES = 10  # after a step, hints are ignored for this many times its length: a busy store must not keep us busy
PROBE_SECONDS = 2.0
BACKOFF_MIN_SECONDS, BACKOFF_MAX_SECONDS = 0.2, 5.0
LANES_MAX = 2
LANE_BUSY = 500  # runs that wait for a lane, from which on a second one helps
LANES_FIRST_SECONDS = 0.005  # lanes hear the same hint, and have a run begun in less than it takes us to look around
LANE_SECONDS = 1.0  # between two lanes that are started: one that ends at once must not be started in a hurry
TICKS_MAX = 20  # steps of the ticker, before others have their turn
ADOPT_SECONDS = 1.0
LEAVE, LEAVE_SECONDS = "leave", 120.0
LANES_SECONDS = 5.0
END_SECONDS = 20.0  # how long agents that are ended at the end of a drain may take


class StationPlan(NamedTuple):
    """What this process shall do."""

    tenant: str
    ticks: bool
    slots: int
    ttl_seconds: float
    drain_seconds: float


class Station:
    """One process that schedules, works, or both."""

    def __init__(
        self,
        plan: StationPlan,
        tools: Tools,
        open_store: Callable[[], RuntimeStore],
        worker: Worker | None,
        chores: Sequence[Chore],
        *,
        nursery: Nursery | None = None,
        adoption: Adoption | None = None,
        presence: Presence | None = None,
        hint: Hint | None = None,
        beside: Callable[[], float] | None = None,
        on_term: str = "",
    ) -> None:
        """`on_term` says what SIGTERM means: `leave` running agents to the next worker, or drain."""
        self._on_term, self._leaves = on_term, False
        self._plan = plan
        self._hint = hint or Hint()
        self._deaf_until_ns = 0
        self._presence = presence
        self._tools = tools
        self._open_store = open_store
        self._worker = worker
        self._nursery = nursery
        self._adoption = adoption
        self._adopt_ns = 0
        self._store: RuntimeStore | None = None
        self._lead: HeldLease | None = None
        self._said_passive, self._said_why = False, ""
        self._probe_ns = self._lane_ns = 0
        self._foresight = Foresight(plan_of)
        self._chores = Chores(chores, tools.clock, beside)
        self._began = False
        self._leftovers = Leftovers(tools.processes, tools.clock, tools.say, worker.keeper if worker else "")
        self._backoff = BACKOFF_MIN_SECONDS
        self._asked_to_stop = False
        self._wakeup = self._take_signals()

    def serve(self) -> int:
        """Go on until asked to stop, then drain."""
        while not self._asked_to_stop and not self._is_crippled():
            began_ns = self._tools.clock.awake_ns()
            self._chores.look_beside()
            try:
                pause = self._step()
                self._backoff = BACKOFF_MIN_SECONDS
                now = self._tools.clock.awake_ns()
                self._deaf_until_ns = now + DEAF_TIMES * (now - began_ns)
                self._wait(pause, self._hint)
            except StoreUnavailable as error:
                self._wait(self._retry_later(error))
        crippled = self._is_crippled()
        if crippled:
            self._leaves = True
            self._tools.say("the helper that starts agents was killed, so this worker ends. Start it again.")
        self._hint.close()
        self._drain()
        return int(crippled)

    def _is_crippled(self) -> bool:
        """Tell whether a helper that starts agents was killed: then we can only end, to be started again."""
        return (self._worker is not None and self._worker.is_crippled) or (
            self._nursery is not None and self._nursery.is_gone
        )

    def _step(self) -> float:
        """Do what is due and return how long nothing will be."""
        self._store = store = self._store or self._open_store()
        leads = self._plan.ticks and self._leads()
        self._adopt(store)
        if not self._began:  # listeners are added before there is anything to tell
            self._chores.step(store, leads=leads)
            self._began = True
        ticker = Ticker(store, lambda: new_id(self._tools.clock), foresight=self._foresight)
        if leads:
            for _ in range(TICKS_MAX):
                if not ticker.step():
                    break
        self._chores.step(store, leads=leads)
        if self._presence is not None:
            self._presence.step(store)
        agenda = store.agenda(self._plan.slots)
        if self._worker is not None:
            self._leftovers.clear(store)
            self._worker.hear()
            self._worker.serve(store)
            self._worker.look(store)
            self._worker.lease(store, agenda.ready)
        if self._nursery is not None:
            self._start_lanes(self._nursery, store)
        if leads and ticker.prepare(now_us=agenda.now_us, next_due_us=agenda.next_due_us):
            return 0.0
        return _until_next(agenda, ticks=leads)  # what another is to decide is no reason to look again at once

    def _adopt(self, store: RuntimeStore) -> None:
        """Take over what other workers have left on this host, before anything is reaped."""
        now = self._tools.clock.awake_ns()
        if self._adoption is None or now < self._adopt_ns:
            return
        self._adopt_ns = now + round(ADOPT_SECONDS * 1e9)
        adopted = self._adoption.step(store)
        if adopted:
            self._tools.say(f"adopted {adopted} running agent{'s' if adopted > 1 else ''} of a worker that is gone.")

    def _leads(self) -> bool:
        """Hold `scheduler:<tenant>`, so that one drives and the others stay quiet; the unique tick decides anyway."""
        if self._lead is not None and not self._lead.lost:
            return True
        now = self._tools.clock.awake_ns()
        if now < self._probe_ns:
            return False
        self._probe_ns = now + round(PROBE_SECONDS * 1e9)
        self._let_go_of_lead()
        order = Order((), self._plan.tenant, (f"scheduler:{self._plan.tenant}",), "scheduler", self._plan.ttl_seconds)
        try:
            self._lead = hold(order, self._tools)
        except Busy as busy:
            if not self._said_passive:
                self._said_passive = True
                self._tools.say(f"passive: {busy} Ready to take over.")
            return False
        if self._said_passive:
            self._said_passive = False
            self._tools.say(f"takes over: this process drives the schedules of tenant {self._plan.tenant} now.")
        return True

    def _let_go_of_lead(self) -> None:
        """End the lead for good: a renewal that came through late must not keep it alive while no scheduler drives."""
        lead, self._lead = self._lead, None
        if lead is not None:
            with suppress(LeaseLost, StoreUnavailable):  # another scheduler has it, or will soon
                lead.release()

    def _start_lanes(self, nursery: Nursery, store: RuntimeStore) -> None:
        """Keep as many lanes as there is work for; an idle one ends by itself."""
        now = self._tools.clock.awake_ns()
        if self._asked_to_stop or nursery.lanes >= LANES_MAX or now < self._lane_ns:
            return
        ready = store.lane_ready(LANE_BUSY)
        if ready and nursery.why != self._said_why:
            self._said_why = nursery.why
            if nursery.why:
                self._tools.say(f"warning: runs wait, because no lane can begin: {nursery.why}")
        for _ in range((LANES_MAX if ready >= LANE_BUSY else min(ready, 1)) - nursery.lanes):
            self._lane_ns = now + round(LANE_SECONDS * 1e9)
            nursery.start_lane()

    def _wait(self, seconds: float, hint: Hint | None = None) -> None:
        """Sleep until the time is over, a signal or an attempt has something to say, or a hint is heard."""
        until_ns = self._tools.clock.awake_ns() + round(seconds * 1e9)
        while not self._is_woken(until_ns, hint) and self._tools.clock.awake_ns() < until_ns:
            pass

    def _is_woken(self, until_ns: int, hint: Hint | None) -> bool:
        helpers = [one for one in (self._worker, self._nursery) if one is not None]
        now = self._tools.clock.awake_ns()
        patience = (until_ns - now) / 1e9
        deaf = (self._deaf_until_ns - now) / 1e9
        if hint is not None:
            patience = min(patience, deaf if deaf > 0 else hint.poll_seconds())
        listened = hint.fds() if hint is not None and deaf <= 0 else []
        fds = [self._wakeup, *(one.fd for one in helpers), *listened]
        ready = readable(fds, max(0.0, patience))
        if self._nursery and self._nursery.fd in ready:
            self._nursery.hear()
        if self._wakeup in ready:
            os.read(self._wakeup, 4096)
        news = self._worker is not None and self._worker.fd in ready and self._attend(self._worker)
        heard = hint is not None and deaf <= 0 and hint.heard(ready)
        if heard and self._nursery and self._nursery.lanes:
            self._tools.clock.sleep(LANES_FIRST_SECONDS)
        if heard and self._worker is not None and self._store is not None:
            self._worker.lease(self._store)  # what the hint is about, most likely; all the rest comes after
        return heard or news or self._wakeup in ready or (self._nursery is not None and self._nursery.fd in ready)

    def _attend(self, worker: Worker) -> bool:
        """Do for the guards what they wait for, without a look at all the rest; return whether there is room again."""
        news = worker.hear()
        if self._store is None:
            return False
        freed = news and worker.serve(self._store)
        if freed or worker.wants_runs:
            worker.lease(self._store)
        return freed

    def _retry_later(self, error: StoreUnavailable) -> float:
        if self._backoff == BACKOFF_MIN_SECONDS:
            self._tools.say(f"the store is out of reach, trying again: {error}")
        self._close_store()
        if self._adoption is not None:
            self._adoption.doubt()
        pause, self._backoff = self._backoff, min(2 * self._backoff, BACKOFF_MAX_SECONDS)
        return pause

    def _drain(self) -> None:
        """Start nothing more; let attempts hand their runs back or finish; queued runs stay queued."""
        self._let_go_of_lead()
        if self._presence is not None and self._store is not None:
            with suppress(StoreUnavailable):  # our word goes stale by itself
                self._presence.leave(self._store)
        if self._worker is not None and not (self._leaves and self._leave(self._worker)):
            self._drain_worker(self._worker)
        self._close_store()

    def _leave(self, worker: Worker) -> bool:
        """Leave running agents to their guards, as a restart of the service wants it; False if the store is away."""
        try:
            store = self._store = self._store or self._open_store()
            worker.hear()
            worker.serve(store)
            left = worker.leave(store, LEAVE_SECONDS)
        except StoreUnavailable:
            return False
        if left:
            self._tools.say(f"left {left} running agent{'s' if left > 1 else ''} to the next worker of this host.")
        if self._nursery is not None:
            self._nursery.drain()
            self._see_off_lanes(self._nursery)
        worker.close()
        return True

    def _see_off_lanes(self, nursery: Nursery) -> None:
        """Give lanes a moment to hand back what they have: they are not adopted."""
        give_up_ns = self._tools.clock.awake_ns() + round(LANES_SECONDS * 1e9)
        while nursery.lanes and not nursery.is_gone and self._tools.clock.awake_ns() < give_up_ns:
            if readable([nursery.fd], POLL_SECONDS):
                nursery.hear()
        nursery.close()

    def _drain_worker(self, worker: Worker) -> None:
        if worker.running:
            self._tools.say(f"draining {worker.running} running; again to end them now.")
        worker.drain()
        if self._nursery is not None:
            self._nursery.drain()
        self._asked_to_stop = False
        self._see_off(worker, self._plan.drain_seconds + END_SECONDS)
        if worker.running:
            worker.end_all()
            self._asked_to_stop = False
            self._see_off(worker, END_SECONDS)
        worker.close()
        if self._nursery is not None:
            self._nursery.close()

    def _see_off(self, worker: Worker, seconds: float) -> None:
        """Settle what ends, until nothing runs, the time is over, or we are asked again to stop."""
        give_up_ns = self._tools.clock.awake_ns() + round(seconds * 1e9)
        lanes = self._nursery
        while worker.running or (lanes is not None and lanes.lanes and not lanes.is_gone):
            if self._asked_to_stop or self._tools.clock.awake_ns() >= give_up_ns:
                return
            try:
                if worker.running:
                    self._store = self._store or self._open_store()
                    worker.hear()
                    worker.serve(self._store)
                    worker.look(self._store)
                if worker.running or (lanes is not None and lanes.lanes):
                    self._wait(POLL_SECONDS)
            except StoreUnavailable as error:
                self._wait(self._retry_later(error))

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(StoreUnavailable):  # nothing is owed to this connection
                store.close()

    def _take_signals(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        return reader

    def _on_signal(self, number: int, _: object) -> None:
        self._asked_to_stop = True
        self._leaves = self._on_term == LEAVE and number == signal.SIGTERM


def _until_next(agenda: Agenda, *, ticks: bool) -> float:
    """Return how long to sleep: until the next tick or run, but never longer than a poll."""
    times = [agenda.next_ready_us] + ([agenda.next_due_us] if ticks else [])
    left = [(at - agenda.now_us) / 1e6 for at in times if at is not None]
    return max(0.0, min([POLL_SECONDS, *left]))
