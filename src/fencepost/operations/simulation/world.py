"""What the parts of a simulation share: the scenario, the store with its moved clock, unended runs, and the counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fencepost.flow.tick_rows import Meaning, meaning_of
from fencepost.model.budget import FREE, BudgetPolicy, Counted, MicroUsd, used_up
from fencepost.model.definition import timeouts_of
from fencepost.model.errors import Invalid
from fencepost.model.instants import EPOCH, from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.project import Workplace
from fencepost.model.registry_plan import spell
from fencepost.model.run import Reason, RunState
from fencepost.model.trigger import CronTrigger, EveryTrigger, jitter_offset
from fencepost.operations.dst import DstEffect, effects_on
from fencepost.operations.simulation.budget_sums import SimulatedBudget
from fencepost.operations.simulation.machine import Crew, VirtualClock
from fencepost.operations.simulation.scenario import Scenario
from fencepost.operations.simulation.tally import ScheduleTally
from fencepost.ports.ticks import DueSchedule

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

EVER_US = 1 << 62
TTL_SECONDS = 10 * 366 * 86_400.0  # leases are not renewed here: one ends with its run, or with the machine


@dataclass(slots=True)
class SimulatedRun:
    """A run that has not ended."""

    schedule: str
    tick_us: int
    ready_us: int
    began: bool = False
    worked_us: int = 0  # in attempts that were lost


class Stage:
    """Where a simulation takes place."""

    def __init__(self, scenario: Scenario, store: "RuntimeStore", clock: VirtualClock) -> None:
        self.scenario = scenario
        self.store = store
        self.clock = clock
        self.crew = Crew()
        self.end_us = to_us(scenario.end)
        self.outages = list(scenario.outages)
        self.live: dict[str, SimulatedRun] = {}
        self.ended_us: dict[
            str, int
        ] = {}  # of each `every`: the end of its last run, if that was counted and not played
        self.meanings = {name: _meaning(scenario, name) for name in scenario.schedules}
        self.tallies = {name: ScheduleTally(effects=list(self._effects(name))) for name in scenario.schedules}
        self.places = tuple(_workplaces(scenario))
        self.simulated_budgets = dict(self._simulated_budgets())
        self._ended: list[tuple[str, str]] = []  # runs of schedules with a budget, with their schedules
        self._numbers = 0

    @property
    def now_us(self) -> int:
        """The moment."""
        return self.clock.wall_us()

    def new_id(self) -> str:
        """Name a run or a lease."""
        self._numbers += 1
        return f"{self._numbers:012d}"

    def over(self, run_id: str, state: RunState, reason: Reason | None) -> None:
        """Count the end of a run."""
        live = self.live.pop(run_id, None)
        if live is None:
            return
        tally = self.tallies[live.schedule]
        tally.note_end(state.value, reason.value if reason else None)
        if live.schedule in self.simulated_budgets:
            self._ended.append((live.schedule, run_id))
        if reason is Reason.BUDGET:
            tally.first_budget_at = tally.first_budget_at or from_us(self.now_us)

    def settle_purses(self) -> None:
        """Charge each budget for the runs that ended since the last time; a run that never started is free."""
        for schedule, run_id in self._ended:
            run = self.store.run(run_id, tenant=self.scenario.tenant)
            if run is not None and run.started_us is not None:
                cost = run.reserved_micro if run.cost_micro is None else run.cost_micro
                self.simulated_budgets[schedule].play(Counted(run.counted_us, cost))
        self._ended.clear()

    def beside(self, schedule: str | None) -> tuple[Counted, ...]:
        """Return what a schedule's counted runs have spent; they are not in the store."""
        simulated_budget = self.simulated_budgets.get(schedule or "")
        return simulated_budget.beside(self.now_us) if simulated_budget else ()

    def brought_up(self, due: DueSchedule) -> DueSchedule:
        """Return a schedule as if its counted runs were in the store: the next tick of an `every` follows its last run."""
        ended_us = self.ended_us.get(due.name)
        return due if ended_us is None else due._replace(last_run=due.last_run or "counted", last_ended_us=ended_us)

    def charge(self, schedule: str) -> MicroUsd:
        """Return what a successful run is charged: what it costs, or what it had reserved."""
        cost = self.scenario.expects(schedule).cost
        return (self.meanings[schedule].policies.budget.per_run or FREE) if cost is None else cost

    def held_back_us(self, schedule: str) -> int:
        """Return by how much the schedule's jitter holds its runs back."""
        jitter = self.meanings[schedule].jitter
        return in_us(jitter_offset(jitter, tenant=self.scenario.tenant, schedule=schedule))

    def timeout_us(self, schedule: str) -> int:
        """Return how long an agent may work."""
        limit = timeouts_of(self.meanings[schedule].agent).timeout
        return EVER_US if limit is None else in_us(limit)

    def shared(self, schedule: str) -> dict[str, int]:
        """Return what a schedule's runs share with runs of other schedules, and how many may have it at once."""
        meaning, found = self.meanings[schedule], {}
        if meaning.schedule.concurrency_key:
            found[f"key:{meaning.schedule.concurrency_key}"] = meaning.schedule.concurrency or 1
        for place in self.places:
            if place.project == meaning.agent.project and not place.isolated:
                found[place.resource] = place.slots
        return found

    def _simulated_budgets(self) -> Iterator[tuple[str, SimulatedBudget]]:
        """Make one for each schedule whose budget can be reckoned.

        Its ticks are known, no run uses up the whole budget, and there is no limit to the time of its runs: a
        simulated budget does not see how long the runs took that the real store carries.
        """
        for name, meaning in self.meanings.items():
            budget, expected = meaning.policies.budget, self.scenario.expects(name)
            too_dear = bool(expected.cost and used_up(budget, expected.cost))
            counted = budget != BudgetPolicy() and budget.max_time_per_day is None and not too_dear
            if not counted or isinstance(meaning.trigger, EveryTrigger):
                continue
            zone = ZoneInfo(meaning.schedule.timezone or "UTC")
            yield name, SimulatedBudget(budget, zone, charge=self.charge(name))

    def _effects(self, name: str) -> Iterator[DstEffect]:
        trigger = self.meanings[name].trigger
        for one in trigger.crons if isinstance(trigger, MergedTrigger) else (trigger,):
            if isinstance(one, CronTrigger) and self.meanings[name].schedule.enabled:
                yield from effects_on(name, one, self.scenario.start, self.scenario.end)


def in_us(span: timedelta) -> int:
    """Return a span as the store keeps it."""
    return to_us(EPOCH + span)


def _meaning(scenario: Scenario, name: str) -> Meaning:
    schedule = scenario.schedules[name]
    agent = scenario.agents.get(schedule.agent)
    if agent is None:
        raise Invalid(
            f'{name} runs agent "{schedule.agent}", which this file does not define; '
            "apply all your files, and simulate what is in the registry with --applied."
        )
    return meaning_of(spell(schedule).text, spell(agent).text)


def _workplaces(scenario: Scenario) -> Iterator[Workplace]:
    """Pretend that every project is here: what counts is how many runs may be in it at once."""
    for name in sorted({agent.project for agent in scenario.agents.values() if agent.project}):
        values = scenario.projects.get(name, {})
        slots = int(str(values.get("concurrency") or 1))
        isolated = values.get("isolation") == "worktree"
        yield Workplace(scenario.tenant, name, f"project:{name}", f"/simulated/{name}", slots, isolated)
