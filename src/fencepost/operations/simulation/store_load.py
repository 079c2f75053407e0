"""The load that schedules put on their store, if there were many more agents like those of the file."""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from fencepost.model.lease import TTL_DEFAULT_SECONDS, renew_every
from fencepost.operations.simulation import costs
from fencepost.operations.simulation.costs import UnitCost
from fencepost.operations.simulation.tally import SimulationReport

DAY_SECONDS = 86_400
WHOLE_FROM = 100


class LoadPart(NamedTuple):
    """One kind of work, how much of it there is in a second, and what one costs."""

    what: str
    per_second: float
    cost: UnitCost

    @property
    def transactions(self) -> float:
        """How many transactions a second it takes."""
        return self.per_second * self.cost.transactions

    @property
    def processors(self) -> float:
        """How many processors of the server it keeps busy."""
        return self.per_second * self.cost.server_us / 1e6


class StoreLoad(NamedTuple):
    """What the store has to bear, on average over the span."""

    agents: int
    workers: int
    at_work: float  # agents at once
    parts: tuple[LoadPart, ...]
    kept_bytes_per_day: float

    @property
    def transactions(self) -> float:
        """How many transactions a second."""
        return sum(one.transactions for one in self.parts)

    @property
    def processors(self) -> float:
        """How many processors of the server are busy."""
        return sum(one.processors for one in self.parts)

    @property
    def wal_bytes_per_day(self) -> float:
        """How much the server writes ahead, and sends to a standby."""
        return sum(one.per_second * one.cost.wal_bytes for one in self.parts) * DAY_SECONDS

    @property
    def connections(self) -> int:
        """How many sessions there are; one scheduler has its own."""
        return (self.workers + 1) * costs.WORKER_CONNECTIONS


def load_of(report: SimulationReport, *, agents: int, workers: int) -> StoreLoad:
    """Estimate the load of a number of agents, scheduled like those of the report, on a number of workers."""
    scenario = report.scenario
    seconds = (scenario.end - scenario.start).total_seconds()
    times = agents / max(1, len({one.agent for one in scenario.schedules.values()})) / seconds
    ticks, runs = report.total("owed") * times, report.total("runs") * times
    at_work = report.total("busy_us") / 1e6 * times
    every = renew_every(TTL_DEFAULT_SECONDS)
    parts = (
        LoadPart("ticks", ticks, costs.TICK),
        LoadPart("runs", runs, costs.RUN),
        LoadPart("renewals", at_work / every, costs.RENEWAL),
        LoadPart("renewing", renewing(at_work, workers) / every, costs.RENEWING),
        LoadPart("idle workers", workers, costs.IDLE_WORKER_SECOND),
        LoadPart("scheduler", 1, costs.IDLE_SCHEDULER_SECOND),
    )
    kept = (runs * costs.RUN_KEPT_BYTES + (ticks - runs) * costs.TICK_KEPT_BYTES) * DAY_SECONDS
    return StoreLoad(agents, workers, at_work, parts, kept)


def renewing(at_work: float, workers: int) -> float:
    """Return how many transactions renew all leases once: each worker renews its own together, so many at most."""
    holders = min(workers, at_work)
    return holders * ceil(at_work / holders / costs.RENEWED_TOGETHER) if holders else 0


def load_fields(load: StoreLoad) -> dict[str, object]:
    """Spell a load as scripts see it."""
    rates = {f"{one.what.replace(' ', '_')}_per_second": round(one.per_second, 4) for one in load.parts[:4]}
    return {
        "agents": load.agents,
        "workers": load.workers,
        "agents_at_work": round(load.at_work, 2),
        **rates,
        "transactions_per_second": round(load.transactions, 2),
        "server_processors": round(load.processors, 3),
        "wal_bytes_per_day": round(load.wal_bytes_per_day),
        "kept_bytes_per_day": round(load.kept_bytes_per_day),
        "connections": load.connections,
    }


def load_rows(load: StoreLoad) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each kind of work, and the sum."""
    for one in load.parts:
        yield one.what, short(one.per_second), short(one.transactions), short(one.processors)
    yield "in all", "", short(load.transactions), short(load.processors)


def short(number: float) -> str:
    """Spell a number with as many digits as an estimate is worth."""
    return f"{number:,.0f}" if number >= WHOLE_FROM else f"{number:.3g}"
