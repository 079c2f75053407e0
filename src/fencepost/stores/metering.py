"""Reads the figures, all of one snapshot, once for both dialects.

What is old enough to change no more is counted once, into meters (`fold`), so that a look costs as much as there are
meters and recent records, however many are kept. Pruning takes records that are in the meters already.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fencepost.model.instants import FOREVER_US
from fencepost.ports.metering import BUCKETS_SECONDS, Counts, Figures, LiveCounts, Tokens, figures_of
from fencepost.stores.guarded_commands import METER
from fencepost.stores.transaction import Dialect, Row, Transaction

SECOND_US = 1_000_000
SETTLED_US = 600 * SECOND_US  # after so long every transaction that wrote a record has committed, or never will
PAGE = 500
TOKENS = "tokens:"  # and their kind
RUNS, TICKS = "run:", "tick:"  # and the state, or the disposition
ENDED = ("succeeded", "dead", "cancelled")
Meters = Counter[tuple[str, str, str]]  # by schedule, agent and name
NAMES = ("ended", "took_us", *(f"within_{edge}" for edge in BUCKETS_SECONDS), "cost_micro", "refused")


class Spent(NamedTuple):
    """A run that has ended, as far as figures go."""

    id: str
    schedule: str
    agent: str
    state: str
    started_us: int | None
    ended_us: int | None
    cost_micro: int | None
    reason: str | None


class SqlMetering:
    """Figures over named statements."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def figures(self, tenant: str) -> Figures:
        """Return the figures of a tenant: what is in the meters, and what is not there yet."""

        def work(tx: Transaction) -> Figures:
            ((now_us,),) = tx.rows("store_clock_us")
            marks: dict[str, int] = dict(tx.rows("folded", tenant=tenant))
            recent = {"tenant": tenant, "after_us": marks.get("run", 0)}
            meters = _meters(tx, tenant, recent, marks.get("tick", 0))
            ((lost, takeovers, cursor_us),) = tx.rows("meter_lost", **recent)
            ended, sums = figures_of(meters)
            return Figures(
                int(now_us),
                _counts(meters, TICKS),
                _counts(meters, RUNS),
                [LiveCounts(*row) for row in tx.rows("meter_live", tenant=tenant)],
                [one for one in ended if one.number or one.cost_micro],
                [
                    Tokens(schedule, agent, name.removeprefix(TOKENS), number)
                    for (schedule, agent, name), number in sorted(meters.items())
                    if name.startswith(TOKENS)
                ],
                sums._replace(leases_lost=sums.leases_lost + lost, takeovers=sums.takeovers + takeovers),
                cursor_us,
                {name.removeprefix(METER): number for (_, _, name), number in meters.items() if name.startswith(METER)},
            )

        return self._dialect.read(work)

    def fold(self, tenant: str) -> bool:
        """Count a page of what changes no more into the meters; tell whether there is more of it."""

        def work(tx: Transaction) -> bool:
            ((now_us,),) = tx.rows("store_clock_us")
            until_us = int(now_us) - SETTLED_US
            return any([_fold_runs(tx, tenant, until_us), _fold_ticks(tx, tenant, until_us)])  # both

        return self._dialect.write(work)


def folded_until(tx: Transaction, tenant: str, what: str) -> int:
    """Return up to when records are in the meters; until the transaction ends, no other one moves that."""
    tx.rows("begin_folding", tenant=tenant, what=what)
    ((until_us,),) = tx.rows("lock_folded", tenant=tenant, what=what)
    return int(until_us)


def count_runs(tx: Transaction, tenant: str, runs: Sequence[Spent], attempts: Iterable[Row]) -> None:
    """Put runs that have ended into the meters."""
    add_meters(tx, tenant, meters_of(runs, attempts))


def add_meters(tx: Transaction, tenant: str, meters: Meters) -> None:
    """Let meters rise."""
    counts = [(*key, number) for key, number in sorted(meters.items()) if number]
    if counts:
        tx.rows("add_meters", tenant=tenant, counts=json.dumps(counts))


def _fold_runs(tx: Transaction, tenant: str, until_us: int) -> bool:
    after_us = folded_until(tx, tenant, "run")
    cut = tx.rows("fold_run_cut", tenant=tenant, after_us=after_us, until_us=until_us, limit=PAGE)
    page_us = int(cut[0][0]) if cut else until_us
    found = [Spent(*row) for row in tx.rows("fold_runs", tenant=tenant, after_us=after_us, until_us=page_us)]
    late = [Spent(*row) for row in tx.rows("fold_stragglers", tenant=tenant, limit=PAGE)]
    done = [*(one for one in found if one.state in ENDED), *late]
    if done:
        count_runs(tx, tenant, done, tx.rows("fold_attempts", ids=_spelt(one.id for one in done)))
    if late:
        tx.rows("drop_unfolded", tenant=tenant, ids=_spelt(one.id for one in late))
    alive = [one.id for one in found if one.state not in ENDED]
    if alive:
        tx.rows("put_unfolded", tenant=tenant, ids=_spelt(alive))
    if found:  # else the mark may stay where it is, and an idle store is not written to
        tx.rows("raise_folded", tenant=tenant, what="run", until_us=page_us)
    return bool(cut) or len(late) == PAGE


def _fold_ticks(tx: Transaction, tenant: str, until_us: int) -> bool:
    after_us = folded_until(tx, tenant, "tick")
    cut = tx.rows("fold_tick_cut", tenant=tenant, after_us=after_us, until_us=until_us, limit=PAGE)
    page_us = int(cut[0][0]) if cut else until_us
    rows = tx.rows("meter_ticks", tenant=tenant, after_us=after_us, until_us=page_us)
    add_meters(tx, tenant, Counter({(schedule, "", f"{TICKS}{name}"): int(number) for schedule, name, number in rows}))
    if rows:
        tx.rows("raise_folded", tenant=tenant, what="tick", until_us=page_us)
    return bool(cut)


def _meters(tx: Transaction, tenant: str, recent: dict[str, object], ticks_us: int) -> Meters:
    meters: Meters = Counter()
    for schedule, agent, name, number in tx.rows("meters", tenant=tenant):
        meters[schedule, agent, name] += number
    for schedule, agent, state, number, *values in tx.rows("meter_runs", **recent):
        meters[schedule, agent, f"{RUNS}{state}"] += number
        meters.update({(schedule, agent, name): int(value) for name, value in zip(NAMES, values, strict=True)})
    for schedule, name, number in tx.rows("meter_ticks", tenant=tenant, after_us=ticks_us, until_us=FOREVER_US):
        meters[schedule, "", f"{TICKS}{name}"] += int(number)
    for schedule, agent, number in tx.rows("meter_asked_again", tenant=tenant):
        meters[schedule, agent, "asked_again"] += int(number)
    for schedule, agent, kind, number in tx.rows("meter_tokens", **recent):
        meters[schedule, agent, f"{TOKENS}{kind}"] += int(number)
    return meters


def _counts(meters: Meters, kind: str) -> list[Counts]:
    """Return how many of a kind there were, by schedule and name."""
    found: Counter[tuple[str, str]] = Counter()
    for (schedule, _, name), number in meters.items():
        if name.startswith(kind):
            found[schedule, name.removeprefix(kind)] += number
    return [Counts(*key, number) for key, number in sorted(found.items()) if number]


def _spelt(ids: Iterable[str]) -> str:
    return json.dumps(list(ids))


def meters_of(runs: Sequence[Spent], attempts: Iterable[Row]) -> Meters:
    """Count what runs came to, as the statements do that read those on record."""
    meters: Meters = Counter()
    for run in runs:
        who = (run.schedule, run.agent)
        meters[*who, f"{RUNS}{run.state}"] += 1
        meters[*who, "cost_micro"] += run.cost_micro or 0
        meters[*who, "refused"] += run.reason == "fence_refused"
        if run.started_us is not None and run.ended_us is not None:
            took_us = run.ended_us - run.started_us
            meters[*who, "ended"] += 1
            meters[*who, "took_us"] += took_us
            for edge in BUCKETS_SECONDS:
                meters[*who, f"within_{edge}"] += took_us <= edge * SECOND_US
    by_id = {run.id: (run.schedule, run.agent) for run in runs}
    _count_attempts(meters, by_id, attempts)
    return meters


def _count_attempts(meters: Meters, by_id: dict[str, tuple[str, str]], attempts: Iterable[Row]) -> None:
    seen_lost: set[str] = set()
    for run_id, _, _, outcome, usage in sorted(attempts, key=lambda row: (row[0], row[1])):
        for kind, number in (json.loads(usage) if usage else {}).items():
            if isinstance(number, int) and not isinstance(number, bool):
                meters[*by_id[run_id], f"{TOKENS}{kind}"] += number
        meters[*by_id[run_id], "takeovers"] += run_id in seen_lost
        meters[*by_id[run_id], "lost"] += outcome == "lost"
        if outcome == "lost":
            seen_lost.add(run_id)
