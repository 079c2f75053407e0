"""How a simulation is told to a person: one table, then what stands out, schedule by schedule."""

from collections.abc import Iterator
from datetime import timedelta

from fencepost.cli import options, render
from fencepost.model.budget import show_usd
from fencepost.model.instants import format_instant
from fencepost.operations.phrases import counted, span
from fencepost.operations.simulation.scenario import Scenario
from fencepost.operations.simulation.store_load import StoreLoad, load_rows, short
from fencepost.operations.simulation.tally import ScheduleTally, SimulationReport

HEAD = ("SCHEDULE", "TICKS", "RUNS", "LATEST", "USD", "NOT RUN")
LOAD_HEAD = ("WHAT", "A SECOND", "TRANSACTIONS", "PROCESSORS")
EFFECTS_SHOWN = 4
GIGABYTE = 1e9
DAY = timedelta(days=1)


def page(report: SimulationReport) -> Iterator[str]:
    """Yield the lines for a person."""
    yield from map(options.wrapped, _opening(report.scenario))
    yield ""
    yield from render.table(HEAD, [_row(*one) for one in sorted(report.tallies.items())]).split("\n")
    for name, tally in sorted(report.tallies.items()):
        yield ""
        yield render.plain(f"{name}: {_needs(report.scenario, name)}")
        yield from (options.wrapped(line, indent="  ") for line in _standing_out(tally))


def load_page(load: StoreLoad) -> Iterator[str]:
    """Yield what a store would have to bear."""
    yield ""
    who = f"{counted(load.agents, 'such agent')} by {counted(load.workers, 'worker')}, {short(load.at_work)} at work at once"
    yield options.wrapped(f"what a PostgreSQL server has to do for {who}:")
    yield from render.table(LOAD_HEAD, list(load_rows(load))).split("\n")
    yield options.wrapped(
        f"{load.connections:,} connections; {short(load.wal_bytes_per_day / GIGABYTE)} GB of write-ahead log and "
        f"{short(load.kept_bytes_per_day / GIGABYTE)} GB of records a day; averages, from costs measured on another machine"
    )


def _opening(scenario: Scenario) -> Iterator[str]:
    length = scenario.end - scenario.start
    days = f"{length / DAY:g} days" if not length % DAY else span(length // timedelta(microseconds=1))
    yield (
        f"{days} from {format_instant(scenario.start)}, {counted(scenario.workers, 'worker')}, "
        f"{_outage_words(scenario)}"
    )
    if not scenario.schedules:
        yield "there is no schedule to simulate"


def _outage_words(scenario: Scenario) -> str:
    if not scenario.outages:
        return "no outage"
    down = sum((one.end - one.start for one in scenario.outages), timedelta())
    return f"{counted(len(scenario.outages), 'outage')}, down for {span(down // timedelta(microseconds=1))} in all"


def _row(name: str, tally: ScheduleTally) -> tuple[str, ...]:
    skipped = ", ".join(f"{number} {kind}" for kind, number in tally.skipped().items())
    latest = span(tally.latest_us) if tally.latest_us else "on time"
    return render.plain(name), str(tally.owed), str(tally.runs), latest, show_usd(tally.spend), skipped or "-"


def _needs(scenario: Scenario, name: str) -> str:
    expected = scenario.expects(name)
    takes = f"a run takes {span(expected.duration // timedelta(microseconds=1))} ({expected.duration_from})"
    if expected.cost is None:
        return takes
    return f"{takes} and costs {show_usd(expected.cost)} dollars ({expected.cost_from})"


def _standing_out(tally: ScheduleTally) -> Iterator[str]:
    """Yield what a person would want to know; nothing where all went as usual."""
    for effect in tally.effects[:EFFECTS_SHOWN]:
        yield f"{effect.change_at:%Y-%m-%d}: {effect.note}"
    if len(tally.effects) > EFFECTS_SHOWN:
        yield f"... and {counted(len(tally.effects) - EFFECTS_SHOWN, 'more clock change')}; see: fencepost dst-check"
    if tally.overlaps_prevented:
        yield f"{counted(tally.overlaps_prevented, 'overlap')} prevented"
    if tally.waited:
        yield f"{counted(tally.waited, 'run')} waited for room, the longest for {span(tally.longest_wait_us)}"
    if tally.late:
        yield f"{counted(tally.late, 'run')} started a minute or more after the tick, the latest by {span(tally.latest_us)}"
    if tally.catch_ups:
        yield f"{counted(tally.catch_ups, 'run')} caught up on ticks that were missed"
    if tally.first_budget_at is not None:
        yield f"a budget stood in the way, first at {format_instant(tally.first_budget_at)}"
    yield from _ends(tally)


def _ends(tally: ScheduleTally) -> Iterator[str]:
    for state, words in (("dead", "ended as dead letters"), ("cancelled", "were cancelled")):
        if tally.ends[state]:
            why = ", ".join(f"{number} {reason}" for reason, number in sorted(tally.reasons.items()))
            yield f"{counted(tally.ends[state], 'run')} {words}: {why}"
    for state, words in (("running", "still at work"), ("waiting", "still waiting")):
        if tally.ends[state]:
            yield f"{counted(tally.ends[state], 'run')} {words} at the end of the span"
