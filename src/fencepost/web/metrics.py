"""`/metrics` for Prometheus: figures of the key's tenant, read from the store; no run ids, so that series stay few."""

from collections.abc import Iterator
from importlib.metadata import version

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response

from fencepost.operations.looking import Store
from fencepost.ports.metering import BUCKETS_SECONDS, Figures
from fencepost.web.door import caller_of, door_of

router = APIRouter(tags=["metrics"])
SECOND_US = 1_000_000
WHO = ["schedule", "agent"]


class Reading(Collector):
    """The figures of one moment, as Prometheus names them."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._counts()
        yield from self._live()
        yield from self._ended()
        yield from self._sums()

    def _counts(self) -> Iterator[Metric]:
        ticks = CounterMetricFamily(
            "fencepost_ticks", "Ticks by what became of them.", labels=["schedule", "disposition"]
        )
        runs = CounterMetricFamily("fencepost_runs", "Runs that have ended, by how.", labels=["schedule", "state"])
        for one in self._figures.counts:
            (ticks if one.kind == "tick" else runs).add_metric([one.schedule, one.name], one.number)
        yield from (ticks, runs)

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
        took = HistogramMetricFamily("fencepost_run_duration_seconds", "How long the runs on record took.", labels=WHO)
        cost = CounterMetricFamily("fencepost_cost_usd", "What the runs on record cost, as they said.", labels=WHO)
        for one in self._figures.ended:
            who = [one.schedule, one.agent]
            names = [f"{edge:.1f}" for edge in BUCKETS_SECONDS]
            within = [*zip(names, map(float, one.within), strict=True), ("+Inf", float(one.number))]
            took.add_metric(who, within, one.took_us / SECOND_US)
            cost.add_metric(who, one.cost_micro / SECOND_US)
        tokens = CounterMetricFamily(
            "fencepost_llm_tokens", "The llm_tokens that the runs on record used, as they said.", labels=[*WHO, "kind"]
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
            ("fencepost_writes_refused", "Runs that ended because a gate refused their fence.", sums.writes_refused),
        ):
            yield CounterMetricFamily(name, words, value=number)
        if sums.cursor_us is not None:
            words = "How far behind now the scheduler has looked."
            lag = (self._figures.now_us - sums.cursor_us) / SECOND_US
            yield GaugeMetricFamily("fencepost_scheduler_cursor_age_seconds", words, value=lag)
        build = GaugeMetricFamily("fencepost_build_info", "Which Fencepost this is.", labels=["version"])
        build.add_metric([version("fencepost")], 1)
        yield build


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Return the figures of the key's tenant in the format of Prometheus or OpenMetrics."""
    figures = await door_of(request).desk.ask(_figures, caller_of(request).tenant)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Reading(figures))
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"Content-Type": kind})


def _figures(store: Store, tenant: str) -> Figures:
    return store.metering().figures(tenant)
