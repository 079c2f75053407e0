"""What a simulation has seen of one schedule, counted as it happens."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fencepost.model.budget import FREE, MicroUsd, show_usd
from fencepost.model.disposition import DispositionKind
from fencepost.model.instants import format_instant, from_us
from fencepost.operations.dst import DstEffect
from fencepost.operations.simulation.scenario import Outage, Scenario
from fencepost.ports.ticks import NewTick

LATE_US = 60_000_000  # from a minute on a person would say so
SECOND_US = 1_000_000


@dataclass(slots=True)
class ScheduleTally:
    """The counts of one schedule."""

    ticks: Counter[str] = field(default_factory=Counter)  # by disposition
    ends: Counter[str] = field(default_factory=Counter)  # of runs, by state
    reasons: Counter[str] = field(default_factory=Counter)  # of runs that did not succeed
    attempts: int = 0
    catch_ups: int = 0  # runs of ticks that were later than the schedule's grace
    late: int = 0
    latest_us: int = 0
    waited: int = 0  # runs that were ready and found no room
    longest_wait_us: int = 0
    spend: MicroUsd = FREE
    busy_us: int = 0
    one_by_one: int = 0  # runs that went through the store
    first_budget_at: datetime | None = None
    effects: list[DstEffect] = field(default_factory=list)  # clock changes that it met

    @property
    def runs(self) -> int:
        """How many runs were made."""
        return self.ticks[DispositionKind.RUN]

    @property
    def owed(self) -> int:
        """How many ticks there were, whatever became of them."""
        return self.ticks.total()

    @property
    def overlaps_prevented(self) -> int:
        """How often a run would have run beside another of its schedule, and did not."""
        return self.ticks[DispositionKind.OVERLAP] + self.reasons["overlap"]

    def skipped(self) -> dict[str, int]:
        """Return the ticks without a run of their own, by reason."""
        return {kind: number for kind, number in sorted(self.ticks.items()) if kind != DispositionKind.RUN and number}

    def note_tick(self, tick: NewTick) -> None:
        """Count a decision."""
        self.ticks[tick.disposition] += tick.count
        if tick.disposition == DispositionKind.BUDGET:
            self.first_budget_at = self.first_budget_at or from_us(tick.tick_us)

    def note_work(self, us: int, cost: MicroUsd) -> None:
        """Count time and money that were spent."""
        self.busy_us += us
        self.spend = MicroUsd(self.spend + cost)

    def note_start(self, *, waited_us: int, late_us: int) -> None:
        """Count how a run's first attempt started: after waiting for room, and how late for its tick."""
        self.waited += waited_us >= SECOND_US
        self.longest_wait_us = max(self.longest_wait_us, waited_us)
        self.late += late_us >= LATE_US
        self.latest_us = max(self.latest_us, late_us)

    def note_end(self, state: str, reason: str | None) -> None:
        """Count how a run ended."""
        self.ends[state] += 1
        if reason is not None:
            self.reasons[reason] += 1


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The outcome of a simulation."""

    scenario: Scenario
    tallies: Mapping[str, ScheduleTally]

    @property
    def outages(self) -> tuple[Outage, ...]:
        """What was down when."""
        return self.scenario.outages

    def total(self, name: str) -> int:
        """Sum one count up over all schedules."""
        return sum(int(getattr(tally, name)) for tally in self.tallies.values())


def report_fields(report: SimulationReport) -> Iterator[dict[str, object]]:
    """Yield each schedule as scripts see it, and the sums last."""
    for name, tally in sorted(report.tallies.items()):
        yield {"schedule": name, **_counts(tally), **_assumed(report.scenario, name), **_clock_changes(tally)}
    scenario = report.scenario
    yield {
        "from": format_instant(scenario.start),
        "until": format_instant(scenario.end),
        "workers": scenario.workers,
        "outages": [[format_instant(one.start), format_instant(one.end)] for one in scenario.outages],
        "schedules": len(report.tallies),
        **{name: report.total(name) for name in ("owed", "runs", "overlaps_prevented", "catch_ups", "late", "waited")},
        "spend_usd": show_usd(MicroUsd(report.total("spend"))),
    }


def _counts(tally: ScheduleTally) -> dict[str, object]:
    return {
        "owed": tally.owed,
        "runs": tally.runs,
        "skipped": tally.skipped(),
        "ended": {state: number for state, number in sorted(tally.ends.items()) if number},
        "reasons": {reason: number for reason, number in sorted(tally.reasons.items()) if number},
        "attempts": tally.attempts,
        "overlaps_prevented": tally.overlaps_prevented,
        "catch_ups": tally.catch_ups,
        "late": tally.late,
        "latest_seconds": tally.latest_us / SECOND_US,
        "waited": tally.waited,
        "longest_wait_seconds": tally.longest_wait_us / SECOND_US,
        "busy_seconds": tally.busy_us / SECOND_US,
        "spend_usd": show_usd(tally.spend),
        "budget_first_hit": format_instant(tally.first_budget_at) if tally.first_budget_at else None,
        "one_by_one": tally.one_by_one,
    }


def _assumed(scenario: Scenario, name: str) -> dict[str, object]:
    expected = scenario.expects(name)
    return {
        "run_seconds": expected.duration.total_seconds(),
        "run_seconds_from": expected.duration_from,
        "cost_usd": None if expected.cost is None else show_usd(expected.cost),
        "cost_usd_from": expected.cost_from,
    }


def _clock_changes(tally: ScheduleTally) -> dict[str, object]:
    return {
        "clock_changes": [
            {"at": format_instant(one.change_at), "zone": one.zone, "effect": one.effect, "ticks": one.ticks}
            for one in tally.effects
        ]
    }
