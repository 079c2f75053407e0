"""`/metrics` for Prometheus: figures of the key's tenant, read from the store; no run ids, so that series stay few."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import chain

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response

from fencepost.operations.run_queries import Store, dead_waiting
from fencepost.ports.metering import BUCKETS_SECONDS, Figures
from fencepost.web.door import caller_of, door_of
from fencepost.web.security import TENANT_HEADER
from fencepost.web.store_threads import StoreThreads

router = APIRouter(tags=["metrics"])
SECOND_US = 1_000_000
FRESH_SECONDS = 5.0
SHARE = 20  # times as long as a look takes there is no other, so that looking is little of the store's work
WHO = ["schedule", "agent"]


class Reading(Collector):
    """The figures of one moment, as Prometheus names them."""

    def __init__(self, tenant: str, figures: Figures, *, dead: int, ahead_seconds: float) -> None:
        self._tenant = tenant
        self._figures = figures
        self._dead = dead
        self._ahead_seconds = ahead_seconds

    def collect(self) -> Iterator[Metric]:
        """Yield every family; each figure says whose it is, since one Prometheus may ask with several tenants' keys."""
        for family in chain(self._counts(), self._live(), self._ended(), self._sums()):
            family.samples = [one._replace(labels={"tenant": self._tenant, **one.labels}) for one in family.samples]
            yield family

    def _counts(self) -> Iterator[Metric]:
        ticks = CounterMetricFamily(
            "fencepost_ticks", "Ticks by what became of them.", labels=["schedule", "disposition"]
        )
        for tick in self._figures.ticks:
            ticks.add_metric([tick.schedule, tick.name], tick.number)
        runs = CounterMetricFamily("fencepost_runs", "Runs that have ended, by how.", labels=["schedule", "state"])
        for run in self._figures.runs:
            runs.add_metric([run.schedule, run.name], run.number)
        commands = CounterMetricFamily(
            "fencepost_commands", "Guarded commands by how they ended; refused ones found it busy.", labels=["state"]
        )
        for state, number in sorted(self._figures.commands.items()):
            commands.add_metric([state], number)
        yield from (ticks, runs, commands)

    def _live(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("fencepost_runs_running", "Runs that are running.", labels=WHO)
        depth = GaugeMetricFamily("fencepost_queue_depth", "Runs that wait.", labels=WHO)
        age = GaugeMetricFamily("fencepost_queue_age_seconds", "How long the oldest of them has waited.", labels=WHO)
        for one in self._figures.live:
            who = [one.schedule, one.agent]
            (running if one.state == "running" else depth).add_metric(who, one.number)
            if one.state != "running":
                age.add_metric(who, max(0, self._figures.now_us - one.oldest_us) / SECOND_US)
        yield from (running, depth, age)

    def _ended(self) -> Iterator[Metric]:
        took = HistogramMetricFamily(
            "fencepost_run_duration_seconds", "How long runs took, from their first start to their end.", labels=WHO
        )
        cost = CounterMetricFamily("fencepost_cost_usd", "What runs cost, as they said.", labels=WHO)
        for one in self._figures.ended:
            who = [one.schedule, one.agent]
            names = [f"{edge:.1f}" for edge in BUCKETS_SECONDS]
            within = [*zip(names, map(float, one.within), strict=True), ("+Inf", float(one.number))]
            took.add_metric(who, within, one.took_us / SECOND_US)
            cost.add_metric(who, one.cost_micro / SECOND_US)
        tokens = CounterMetricFamily(
            "fencepost_llm_tokens", "The llm_tokens that runs used, as they said.", labels=[*WHO, "kind"]
        )
        for used in self._figures.tokens:
            tokens.add_metric([used.schedule, used.agent, used.kind], used.number)
        yield from (took, cost, tokens)

    def _sums(self) -> Iterator[Metric]:
        sums = self._figures.sums
        for name, words, number in (
            ("fencepost_duplicate_requests", "Requests whose key had made a run before.", sums.asked_again),
            ("fencepost_leases_lost", "Attempts whose lease was lost.", sums.leases_lost),
            ("fencepost_takeovers", "Attempts that took over from a lost one.", sums.takeovers),
            (
                "fencepost_writes_refused",
                "Writes of runs that were refused, at a gate or before it.",
                sums.writes_refused,
            ),
            ("fencepost_runs_refused", "Runs that ended because a gate refused a write of theirs.", sums.runs_refused),
        ):
            yield CounterMetricFamily(name, words, value=number)
        yield GaugeMetricFamily("fencepost_dead_letters", "Dead letters that wait for a person.", value=self._dead)
        if self._figures.cursor_us is not None:
            words = "How far behind now the scheduler has looked."
            lag = (self._figures.now_us - self._figures.cursor_us) / SECOND_US
            yield GaugeMetricFamily("fencepost_scheduler_cursor_age_seconds", words, value=lag)
        words = "How far the store's clock is ahead of this server's."
        yield GaugeMetricFamily("fencepost_clock_skew_seconds", words, value=round(self._ahead_seconds, 3))
        build = GaugeMetricFamily("fencepost_build_info", "Which Fencepost this is.", labels=["version"])
        build.add_metric([version("fencepost")], 1)
        yield build


class Readings(Collector):
    """The figures of several tenants, each family once."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = list(readings)

    def collect(self) -> Iterator[Metric]:
        """Yield every family with the samples of all."""
        found: dict[str, Metric] = {}
        for family in chain.from_iterable(one.collect() for one in self._readings):
            if family.name in found:
                found[family.name].samples += family.samples
            else:
                found[family.name] = family
        yield from found.values()


class MetricsReader:
    """Reads the figures of each tenant every few seconds at most, however many ask for them."""

    def __init__(self, desk: StoreThreads, now_us: Callable[[], int]) -> None:
        self._desk = desk
        self._now_us = now_us
        self._locks: dict[str, asyncio.Lock] = {}
        self._read: dict[str, tuple[float, Reading]] = {}  # and until when it is new enough

    async def reading(self, tenant: str) -> Reading:
        """Return figures that are new enough; of several who ask at once one reads."""
        clock = asyncio.get_running_loop().time
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            until, reading = self._read.get(tenant, (0.0, None))
            if reading is None or clock() >= until:
                start = clock()
                reading = await self._desk.ask(self._look, tenant)
                self._read[tenant] = (clock() + max(FRESH_SECONDS, SHARE * (clock() - start)), reading)
            return reading

    def _look(self, store: Store, tenant: str) -> Reading:
        before_us = self._now_us()
        ahead_us = store.clock_us() - (before_us + self._now_us()) // 2
        figures, dead = store.metering().figures(tenant), dead_waiting(store, tenant)
        return Reading(tenant, figures, dead=dead, ahead_seconds=ahead_us / SECOND_US)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the figures of the key's tenant, or of all for an operator's key, for Prometheus or OpenMetrics."""
    registry, caller = CollectorRegistry(auto_describe=False), caller_of(request)
    names = [caller.tenant]
    if caller.operator and TENANT_HEADER not in request.headers:
        names = await door_of(request).desk.ask(_tenants) or names
    registry.register(Readings([await request.app.state.meter.reading(name) for name in names]))
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"Content-Type": kind})


def _tenants(store: Store) -> list[str]:
    return store.registry().tenants()
