"""The simulation itself: the real ticker, leaser, settler and reaper on a real store, event after event."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fencepost.flow.ticker import Ticker
from fencepost.model.instants import from_us, to_us
from fencepost.model.new_run import NewRun
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.simulation.fast_forward import QuietTimes
from fencepost.operations.simulation.machine import VirtualClock
from fencepost.operations.simulation.scenario import Scenario
from fencepost.operations.simulation.tally import ScheduleTally, SimulationReport
from fencepost.operations.simulation.workers import Workers
from fencepost.operations.simulation.world import SimulatedRun, Stage, in_us
from fencepost.ports.ticks import Around, DueSchedule, TickPlan

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

STUCK_MAX = 100  # steps at one instant; then whatever is due cannot be decided yet, and time goes on
AGAIN_US = 1_000_000

Progress = Callable[[datetime], None]
Opener = Callable[[str, VirtualClock], "RuntimeStore"]


def simulate(scenario: Scenario, open_store: Opener, *, progress: Progress = lambda _: None) -> SimulationReport:
    """Run the schedules through the span of time and return the counts."""
    with TemporaryDirectory(prefix="fencepost-simulate-") as folder, _stage(scenario, open_store, folder) as stage:
        _World(stage).run(progress)
        return SimulationReport(scenario, stage.tallies)


@contextmanager
def _stage(scenario: Scenario, open_store: Opener, folder: str) -> Iterator[Stage]:
    """Make a store that holds the definitions, applied right before the span begins."""
    clock = VirtualClock(to_us(scenario.start) - 1)
    store = open_store(os.path.join(folder, "state.db"), clock)
    try:
        stage = Stage(scenario, store, clock)
        wanted = want(scenario.tenant, "simulated", agents=scenario.agents, schedules=scenario.schedules)
        store.registry().apply(wanted, actor="simulate")
        yield stage
    finally:
        store.close()


class _World:
    """The machine with its schedules."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._workers = Workers(stage)
        self._quiet = QuietTimes(stage, self._workers)
        self._stuck = 0
        self._ticker = Ticker(_Noted(stage, self._note), stage.new_id)

    def run(self, progress: Progress) -> None:
        """Go from event to event; runs are counted from a moment on at which nothing is due."""
        self._stage.clock.move(to_us(self._stage.scenario.start))
        self._workers.start_up()
        while self._stage.now_us < self._stage.end_us:
            self._step()
            if not self._quiet.skip(lambda at_us: progress(from_us(at_us))):
                self._go_on()
            progress(from_us(self._stage.now_us))
        for run_id, live in self._stage.live.items():  # what has not ended at the end of the span
            self._stage.tallies[live.schedule].note_end(
                "running" if run_id in self._workers.working else "waiting", None
            )

    def _step(self) -> None:
        """Do what is due: crash, decide ticks, then end and start what can; a run that ends with a tick still meets it."""
        outages = self._stage.outages
        if outages and to_us(outages[0].start) <= self._stage.now_us:
            self._workers.crash(to_us(outages.pop(0).end))
        self._ticker.step()  # what is left for another step is due at once, and the clock stands still for it
        self._workers.step()

    def _go_on(self) -> None:
        """Move the clock to the next event."""
        stage, agenda = self._stage, self._stage.store.agenda(1)
        times = [agenda.next_due_us, agenda.next_ready_us]
        times += [one.ends_us for one in self._workers.working.values()]
        times += [to_us(stage.outages[0].start)] if stage.outages else []
        following = min((at for at in times if at is not None), default=stage.end_us)
        self._stuck = self._stuck + 1 if following <= stage.now_us else 0
        if self._stuck > STUCK_MAX:
            following = stage.now_us + AGAIN_US
        stage.clock.move(min(stage.end_us, max(stage.now_us, following)))

    def _note(self, plans: Sequence[TickPlan]) -> None:
        """Count what the ticker has decided."""
        for plan in plans:
            tally = self._stage.tallies[plan.due.name]
            for tick in plan.ticks:
                tally.note_tick(tick)
            for run in plan.runs:
                self._note_run(plan.due, run, tally)
            for run_id in plan.displaces:
                self._stage.over(run_id, RunState.CANCELLED, Reason.OVERLAP)
            for run_id in plan.stops:
                self._workers.stop(run_id)

    def _note_run(self, due: DueSchedule, run: NewRun, tally: ScheduleTally) -> None:
        stage = self._stage
        assert run.tick_us is not None, "a tick has made it"
        stage.ended_us.pop(due.name, None)
        stage.live[run.id] = SimulatedRun(due.name, run.tick_us, run.ready_us)
        tally.one_by_one += 1
        grace = stage.meanings[due.name].policies.missed.grace
        tally.catch_ups += run.trigger != "every" and stage.now_us - run.tick_us > in_us(grace)


class _Noted:
    """The store's ticks; every decision is also shown to the simulation. Only it writes here, so all decisions are kept."""

    def __init__(self, stage: Stage, note: Callable[[Sequence[TickPlan]], None]) -> None:
        self._stage = stage
        self._store = store = stage.store
        self._note = note
        self.next_due_us = store.next_due_us
        self.coming = store.coming
        self.clock_us = store.clock_us

    def tick(
        self, limit: int, decide: Callable[[Sequence[DueSchedule], Around], Sequence[TickPlan]], *, tzdata: str = ""
    ) -> int:
        """Decide and write down, and let the decisions be seen."""
        plans: list[TickPlan] = []

        def noted(due: Sequence[DueSchedule], around: Around) -> Sequence[TickPlan]:
            beside = {one.key: rows for one in due if (rows := self._stage.beside(one.name))}
            spending = {key: [*around.spending.get(key, ()), *rows] for key, rows in beside.items()}
            brought_up = [self._stage.brought_up(one) for one in due]
            decided = decide(brought_up, around._replace(spending={**around.spending, **spending}))
            plans[:] = [plan._replace(due=one) for plan, one in zip(decided, due, strict=True)]
            return plans

        found = self._store.tick(limit, noted, tzdata=tzdata)
        self._note(plans)
        return found
