"""Reads the figures, all of one snapshot, once for both dialects; and keeps those of runs that are pruned."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fencepost.ports.metering import BUCKETS_SECONDS, Counts, Figures, Live, Tokens, figures_of
from fencepost.stores.transaction import Dialect, Row, Transaction

SECOND_US = 1_000_000
TOKENS = "tokens:"  # and their kind
Meters = Counter[tuple[str, str, str]]  # by schedule, agent and name
NAMES = ("ended", "took_us", *(f"within_{edge}" for edge in BUCKETS_SECONDS), "cost_micro", "asked_again", "refused")


class Pruned(NamedTuple):
    """A run that is let go of, as far as figures go."""

    id: str
    schedule: str
    agent: str
    started_us: int | None
    ended_us: int | None
    cost_micro: int | None
    requests: int
    reason: str | None


class SqlMetering:
    """Figures over named statements."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def figures(self, tenant: str) -> Figures:
        """Return the figures of a tenant: what is on record, and what was before it was pruned."""

        def work(tx: Transaction) -> Figures:
            ((now_us,),) = tx.rows("store_clock_us")
            meters: Meters = Counter()
            for schedule, agent, name, number in tx.rows("meter_pruned", tenant=tenant):
                meters[schedule, agent, name] += number
            runs: Counter[tuple[str, str]] = Counter()
            for schedule, state, number in tx.rows("meter_tallies", tenant=tenant):
                runs[schedule, state] += number
            for schedule, agent, state, number, *values in tx.rows("meter_runs", tenant=tenant):
                runs[schedule, state] += number
                meters.update({(schedule, agent, name): int(value) for name, value in zip(NAMES, values, strict=True)})
            live = [Live(*row) for row in tx.rows("meter_live", tenant=tenant)]
            for one in live:
                meters[one.schedule, one.agent, "asked_again"] += one.asked_again
            for schedule, agent, kind, number in tx.rows("meter_tokens", tenant=tenant):
                meters[schedule, agent, f"{TOKENS}{kind}"] += int(number)
            ((lost, takeovers, cursor_us),) = tx.rows("meter_lost", tenant=tenant)
            ended, sums = figures_of(meters)
            return Figures(
                int(now_us),
                [Counts(*row) for row in tx.rows("meter_ticks", tenant=tenant)],
                [Counts(*key, number) for key, number in sorted(runs.items()) if number],
                live,
                [one for one in ended if one.number or one.cost_micro],
                [
                    Tokens(schedule, agent, name.removeprefix(TOKENS), number)
                    for (schedule, agent, name), number in sorted(meters.items())
                    if name.startswith(TOKENS)
                ],
                sums._replace(leases_lost=sums.leases_lost + lost, takeovers=sums.takeovers + takeovers),
                cursor_us,
            )

        return self._dialect.read(work)


def meters_of(runs: Sequence[Pruned], attempts: Iterable[Row]) -> Meters:
    """Count what runs came to, as the statement does that reads those on record."""
    meters: Meters = Counter()
    for run in runs:
        who = (run.schedule, run.agent)
        meters[*who, "cost_micro"] += run.cost_micro or 0
        meters[*who, "asked_again"] += run.requests - 1
        meters[*who, "refused"] += run.reason == "fence_refused"
        if run.started_us is not None and run.ended_us is not None:
            took_us = run.ended_us - run.started_us
            meters[*who, "ended"] += 1
            meters[*who, "took_us"] += took_us
            for edge in BUCKETS_SECONDS:
                meters[*who, f"within_{edge}"] += took_us <= edge * SECOND_US
    by_id = {run.id: (run.schedule, run.agent) for run in runs}
    seen_lost: set[str] = set()
    for run_id, _, _, outcome, usage in sorted(attempts, key=lambda row: (row[0], row[1])):
        for kind, number in (json.loads(usage) if usage else {}).items():
            if isinstance(number, int) and not isinstance(number, bool):
                meters[*by_id[run_id], f"{TOKENS}{kind}"] += number
        meters[*by_id[run_id], "takeovers"] += run_id in seen_lost
        meters[*by_id[run_id], "lost"] += outcome == "lost"
        if outcome == "lost":
            seen_lost.add(run_id)
    return meters
