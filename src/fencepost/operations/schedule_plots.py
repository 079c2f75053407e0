"""The small plots beside the words: what a schedule's runs took and cost, what became of ticks, how deep the queue was."""

from dataclasses import replace
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from fencepost.drawing.plots import (
    Plot,
    by_day,
    by_hour,
    costs,
    dispositions,
    durations,
    outcomes,
    queue_depth,
    starts,
)
from fencepost.model.disposition import DispositionKind
from fencepost.operations.run_queries import Store

DAY_US = 86_400_000_000
DAYS, HOURS = 30, 24
ATTEMPTS_MAX = 6_000
KINDS = tuple(one.value for one in DispositionKind)


def schedule_plots(store: Store, tenant: str, schedule: str, timezone: str) -> list[Plot]:
    """Return how long the runs of a schedule took, what they cost and how they ended, by the days of its zone."""
    now_us = store.clock_us()
    zone: tzinfo = ZoneInfo(timezone) if timezone else UTC
    buckets = by_day(now_us - (DAYS - 1) * DAY_US, now_us + 1, zone)
    facts = store.charts(tenant).days(schedule, buckets.edges)
    found = [durations(facts, buckets), costs(facts, buckets), outcomes(facts, buckets)]
    return [one for one in found if not one.is_empty]


def tick_plots(store: Store, tenant: str) -> list[Plot]:
    """Return what became of the ticks of all schedules, by days in UTC."""
    now_us = store.clock_us()
    buckets = by_day(now_us - (DAYS - 1) * DAY_US, now_us + 1, UTC)
    bins = store.charts(tenant).tick_bins(buckets.edges[0], buckets.edges[-1], bin_us=DAY_US)
    found = [dispositions(bins, buckets, KINDS), dispositions(bins, buckets, [one for one in KINDS if one != "run"])]
    found[1] = replace(found[1], title="Ticks without a run")
    return [one for one in found if not one.is_empty]


def now_plots(store: Store, tenant: str) -> list[Plot]:
    """Return how many waited, began and were taken over within the last day, by the hour in UTC."""
    now_us = store.clock_us()
    buckets = by_hour(now_us, HOURS)
    facts = store.charts(tenant).attempts(buckets.edges[0], buckets.edges[-1], limit=ATTEMPTS_MAX)
    found = [queue_depth(facts, buckets, now_us), starts(facts, buckets)]
    return [] if all(one.is_empty for one in found) else found
