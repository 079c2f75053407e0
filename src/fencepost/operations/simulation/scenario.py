"""What is to be simulated: definitions, a span of time, outages, and what a run is taken to need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise

from fencepost.model.budget import MicroUsd
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, timeouts_of, trigger_of
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.instants import format_instant
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.nearest_name import nearest
from fencepost.model.repeatable_random import spread
from fencepost.model.trigger import CronTrigger, EveryTrigger

SPAN_MAX = timedelta(days=3660)
TICKS_MAX = 5_000_000
CRASHES_MAX = 10_000
DOWN_MIN, DOWN_MAX = timedelta(minutes=1), timedelta(hours=12)
DURATION = timedelta(minutes=5)
GAPS = 50  # ticks that are looked at for the usual time between them


@dataclass(frozen=True, slots=True)
class Outage:
    """A stretch [start, end) in which nothing of Fencepost is up; what was running is lost."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Expected:
    """What one run of a schedule is taken to need, and how we know."""

    duration: timedelta = DURATION
    duration_from: str = "assumed"
    cost: MicroUsd | None = None  # None: its agent reports none, and is charged what it reserves
    cost_from: str = "none reported"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that decides how a simulation goes: the same scenario, the same report."""

    tenant: str
    agents: Mapping[str, AgentDefinition]
    schedules: Mapping[str, ScheduleDefinition]
    start: datetime
    end: datetime
    outages: tuple[Outage, ...] = ()
    expected: Mapping[str, Expected] = field(default_factory=dict)
    projects: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    workers: int = 2
    thorough: bool = False  # play every run, also those that could be counted

    def expects(self, schedule: str) -> Expected:
        """Return what a run of a schedule needs."""
        return self.expected.get(schedule) or assumed(self, schedule)


def assumed(scenario: Scenario, name: str) -> Expected:
    """Return what a run without a record is taken to need: five minutes, or half of its time-out or of the time between ticks."""
    schedule = scenario.schedules[name]
    bounds = [DURATION]
    if (limit := timeouts_of(scenario.agents[schedule.agent]).timeout) is not None:
        bounds.append(limit / 2)
    trigger = trigger_of(schedule)
    if isinstance(trigger, CronTrigger | MergedTrigger):
        ticks = list(islice(trigger.instants(scenario.start, scenario.end), GAPS))
        bounds += [(later - earlier) / 2 for earlier, later in pairwise(ticks) if later > earlier]
    return Expected(duration=min(bounds))


def only(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """Leave all other schedules out."""
    for name in names:
        if name not in scenario.schedules:
            near = nearest(name, scenario.schedules)
            hint = f" Did you mean {near!r}?" if near else ""
            raise Unknown(f"there is no schedule {name!r} here.{hint}")
    return replace(scenario, schedules={name: scenario.schedules[name] for name in dict.fromkeys(names)})


def check_span(start: datetime, end: datetime) -> None:
    """Refuse a span that is empty, or too long to be meant."""
    if end <= start:
        raise Invalid(f"until {format_instant(end)} is not after {format_instant(start)}; swap them.")
    if end - start > SPAN_MAX:
        raise Invalid(f"{(end - start).days} days are more than {SPAN_MAX.days}; simulate a shorter span.")


def check_size(scenario: Scenario) -> int:
    """Count the ticks that lie ahead, and refuse more than a person would wait for."""
    total = 0
    for name, schedule in scenario.schedules.items():
        trigger = trigger_of(schedule)
        if not isinstance(trigger, EveryTrigger):
            ticks = trigger.count_between(scenario.start, scenario.end)
            total += ticks
            if ticks > TICKS_MAX:
                raise Invalid(
                    f"{name} has {ticks:,} ticks in this span, more than {TICKS_MAX:,}; "
                    "simulate a shorter one, for example with --for 7d."
                )
    return total


def in_order(outages: Iterable[Outage], start: datetime, end: datetime) -> tuple[Outage, ...]:
    """Sort outages, cut them to the span, and join those that touch."""
    joined: list[Outage] = []
    for one in sorted(outages, key=lambda outage: outage.start):
        cut = Outage(max(one.start, start), min(one.end, end))
        if cut.end <= cut.start:
            continue
        if joined and cut.start <= joined[-1].end:
            joined[-1] = Outage(joined[-1].start, max(joined[-1].end, cut.end))
        else:
            joined.append(cut)
    return tuple(joined)


def crashes(count: int, seed: int, start: datetime, end: datetime) -> Iterator[Outage]:
    """Yield so many crashes at instants that the seed decides; each lasts from a minute to half a day, mostly short."""
    if not 0 <= count <= CRASHES_MAX:
        raise Invalid(f"--crashes is a number from 0 to {CRASHES_MAX}, not {count}.")
    for number in range(count):
        at = start + (end - start) * spread("crash", seed, number)
        down = DOWN_MIN + (DOWN_MAX - DOWN_MIN) * spread("down", seed, number) ** 4
        yield Outage(at.replace(microsecond=0), (at + down).replace(microsecond=0))
