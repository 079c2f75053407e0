"""Agents at work in a simulation: durations and costs under real leases, settled by the real rules."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.flow.reaper import Reaper
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.model.budget import MicroUsd, used_up
from fencepost.model.definition import agent_from_json, retry_of
from fencepost.model.instants import from_us
from fencepost.model.lease import Claim
from fencepost.model.outcome import Outcome, OverBudget, Stopped, Succeeded, TimedOut
from fencepost.model.retry import settle
from fencepost.model.run import Reason, RunId, RunState
from fencepost.operations.simulation.world import TTL_SECONDS, SimulatedRun, Stage, in_us
from fencepost.ports.runs import LeasedRun, Report, RunRow, Standing

BATCH = 500


@dataclass(slots=True)
class AgentAtWork:
    """An agent at work: when it will end and how, if nothing comes between."""

    leased: LeasedRun
    began_us: int
    ends_us: int
    outcome: Outcome
    cost: MicroUsd | None

    def share(self, us: int) -> MicroUsd:
        """Return what a part of the work costs."""
        return MicroUsd((self.cost or 0) * us // max(1, self.ends_us - self.began_us))


class Workers:
    """The machine's workers: they lease, work, settle, and are lost when it crashes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._reaper = Reaper(stage.store, stage.store, stage.crew, lambda: from_us(stage.now_us))
        self.working: dict[str, AgentAtWork] = {}
        self._began_us: dict[str, int] = {}
        self._up_since_us = 0

    def take_up(self, began_us: Mapping[str, int]) -> None:
        """Go on with runs that began earlier; those that are not ready yet begin in their turn."""
        self._began_us.update((run_id, at_us) for run_id, at_us in began_us.items() if at_us <= self._stage.now_us)
        self._lease()

    def start_up(self) -> None:
        """Do what a worker does first: settle the runs that the last one left, and tell the store its projects."""
        stage = self._stage
        self._reaper.step()
        if stage.places:
            stage.store.keep_workplaces("simulated", stage.crew.myself(), stage.places, ttl_seconds=TTL_SECONDS)

    def step(self) -> None:
        """Settle what has ended, give up what waits too long, and start what can start."""
        for one in sorted(self.working.values(), key=lambda one: one.ends_us):
            if one.ends_us <= self._stage.now_us:
                self._settle(one)
        if len(self._stage.live) > len(self.working):
            self._give_up_waiting()
            self._lease()

    def stop(self, run_id: str) -> None:
        """Stop an agent that a newer run displaces."""
        if run_id in self.working:
            self.working[run_id].outcome = Stopped(Reason.OVERLAP)
            self.working[run_id].ends_us = self._stage.now_us

    def crash(self, back_us: int) -> None:
        """Lose everything at once, be away, and come back."""
        stage = self._stage
        for one in self.working.values():
            live = stage.live[one.leased.run.id]
            worked_us = stage.now_us - one.began_us
            live.worked_us += worked_us
            stage.tallies[live.schedule].note_work(worked_us, one.share(worked_us))
        lost, self.working = list(self.working), {}
        stage.crew.crash()
        stage.clock.move(max(stage.now_us, back_us))
        self._up_since_us = stage.now_us
        self.start_up()
        for run_id in lost:
            self._note_fate(run_id)

    def _lease(self) -> None:
        while len(self.working) < min(self._stage.scenario.workers, len(self._stage.live)):
            found = self._stage.store.lease_run(self._claim, self._recheck, places=self._stage.places)
            if found is None:
                return
            self._stage.store.start_run(found)
            self._begin(found)

    def _claim(self, run: RunRow) -> Claim:
        stage = self._stage
        project = agent_from_json(run.manifest).project
        place = next((one for one in stage.places if one.project == project and not one.isolated), None)
        return claim_for(
            run,
            lease_id=stage.new_id(),
            supervisor=stage.crew.myself(),
            ttl_seconds=TTL_SECONDS,
            also=(place.resource,) if place else (),
            slots=place.slots if place else 1,
        )

    def _recheck(self, run: RunRow, standing: Standing) -> Reason | None:
        """Look a second time as every worker does, and count what that ends."""
        spending = (*standing.spending, *self._stage.beside(run.schedule))
        reason = recheck_for(run, standing._replace(spending=spending))
        if reason is not None:
            state = RunState.DEAD if reason is Reason.QUEUE_TIMEOUT else RunState.CANCELLED
            self._stage.over(run.id, state, reason)
        return reason

    def _begin(self, found: LeasedRun) -> None:
        stage, run = self._stage, found.run
        live, began_us = stage.live[run.id], self._began_us.pop(run.id, stage.now_us)
        tally = stage.tallies[live.schedule]
        tally.attempts += 1
        if not live.began:
            live.began = True
            late_us = began_us - live.tick_us - stage.held_back_us(live.schedule)
            waited_us = max(0, began_us - max(live.ready_us, self._up_since_us))  # for room, not for the machine
            tally.note_start(waited_us=waited_us, late_us=late_us)
        self.working[run.id] = self._course(found, live, began_us)

    def _course(self, found: LeasedRun, live: SimulatedRun, began_us: int) -> AgentAtWork:
        """Work out how the attempt will end; a resumed one has only the rest to do."""
        stage = self._stage
        expected, budget = stage.scenario.expects(live.schedule), stage.meanings[live.schedule].policies.budget
        needs_us = max(1, in_us(expected.duration) - (live.worked_us if found.run.resume else 0))
        ends: list[tuple[int, Outcome]] = [(needs_us, Succeeded())]
        if expected.cost and used_up(budget, expected.cost):
            assert budget.per_run is not None, "something was used up"
            ends.append((needs_us * budget.per_run // expected.cost, OverBudget()))
        if stage.timeout_us(live.schedule) <= needs_us:
            ends.append((stage.timeout_us(live.schedule), TimedOut(Reason.TIMEOUT)))
        after_us, outcome = min(ends, key=lambda one: one[0])
        cost = None if expected.cost is None else MicroUsd(expected.cost * after_us // needs_us)
        return AgentAtWork(found, began_us, began_us + after_us, outcome, cost)

    def _settle(self, one: AgentAtWork) -> None:
        stage, run = self._stage, one.leased.run
        retry = retry_of(agent_from_json(run.manifest))
        now = from_us(stage.now_us)
        settlement = settle(one.outcome, run_id=RunId(run.id), attempt=run.attempt, retry=retry, now=now)
        code = 0 if isinstance(one.outcome, Succeeded) else None
        report = Report(type(one.outcome).__name__.lower(), exit_code=code, cost_micro=one.cost)
        stage.store.settle(one.leased.lease, settlement, report, clean=True)
        del self.working[run.id]
        charged = MicroUsd(run.reserved_micro) if one.cost is None else one.cost
        stage.tallies[stage.live[run.id].schedule].note_work(stage.now_us - one.began_us, charged)
        if settlement.state.terminal:
            stage.over(run.id, settlement.state, settlement.reason)

    def _give_up_waiting(self) -> None:
        if self._stage.store.give_up_waiting(BATCH):
            for run_id in [one for one in self._stage.live if one not in self.working]:
                self._note_fate(run_id)

    def _note_fate(self, run_id: str) -> None:
        """Ask the store what became of a run, and count it if that is its end."""
        run = self._stage.store.run(run_id, tenant=self._stage.scenario.tenant)
        if run is not None and RunState(run.state).terminal:
            self._stage.over(run_id, RunState(run.state), Reason(run.reason) if run.reason else None)
