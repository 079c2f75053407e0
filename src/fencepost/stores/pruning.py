"""The pruner's verbs: a page of old records in one short transaction, and what is left of them, counts and watermarks."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from fencepost.model.retention import Horizon
from fencepost.model.run import TriggerKind
from fencepost.ports.pruning import OldLog, PrunedPage, PrunePlace, Tally, Watermark
from fencepost.stores.manifests import FRESH_US
from fencepost.stores.metering import TICKS, Meters, Spent, add_meters, count_runs, folded_until
from fencepost.stores.transaction import Dialect, Row, Transaction

SCHEDULES_MAX = 100  # that one transaction looks into


class SqlPruning:
    """Lets go of old records. With `dry`, each verb only counts."""

    _dialect: Dialect

    def prune_leases(self, horizon: Horizon, _place: PrunePlace, limit: int, *, dry: bool = False) -> PrunedPage:
        """Let go of lost leases whose processes were not seen dead for so long that they never will be."""

        def work(tx: Transaction) -> PrunedPage:
            values = {"tenant": horizon.tenant, "horizon_us": horizon.leases_us}
            if dry:
                return PrunedPage(int(tx.rows("count_lost_leases", **values)[0][0]), None)
            gone = tx.rows("prune_lost_leases", **values, limit=limit)
            return PrunedPage(len(gone), PrunePlace("leases") if len(gone) == limit else None)

        return self._prune(work, dry=dry)

    def prune_runs(self, horizon: Horizon, place: PrunePlace, limit: int, *, dry: bool = False) -> PrunedPage:
        """Look at a page of runs, oldest first, and let go of those that nothing rests on, with all that is theirs."""

        def work(tx: Transaction) -> PrunedPage:
            rows = tx.rows(
                "prune_run_page",
                tenant=horizon.tenant,
                horizon_us=horizon.horizon_us,
                spending_us=horizon.spending_us,
                after_us=place.at_us,
                after=place.id,
                limit=limit,
            )
            old = [str(row[0]) for row in rows if row[-1]]
            gone = len(old) if dry else _let_runs_go(tx, horizon, old)
            if not dry and len(rows) < limit:
                folded_until(tx, horizon.tenant, "run")  # no run moves meanwhile
                tx.rows("prune_past_commons", tenant=horizon.tenant)
                tx.rows("prune_manifests", tenant=horizon.tenant, fresh_us=FRESH_US)
            return PrunedPage(gone, PrunePlace("runs", "", rows[-1][1], rows[-1][0]) if len(rows) == limit else None)

        return self._prune(work, dry=dry)

    def prune_ticks(self, horizon: Horizon, place: PrunePlace, limit: int, *, dry: bool = False) -> PrunedPage:
        """Look at a page of ticks, schedule by schedule, and let go of those whose run is gone or never was."""

        def work(tx: Transaction) -> PrunedPage:
            names = tx.rows(
                "prune_schedule_page",
                tenant=horizon.tenant,
                after=place.schedule,
                horizon_us=horizon.horizon_us,
                limit=SCHEDULES_MAX,
            )
            here, left, gone = place, limit, 0
            for name, cursor_us, has_old in names:
                if name != here.schedule:
                    here = PrunePlace("ticks", name)
                if not has_old:
                    continue
                rows = _tick_page(tx, horizon, here, cursor_us, left)
                old = [row for row in rows if row[-1]]
                gone += sum(row[3] for row in old) if dry else _let_ticks_go(tx, horizon, name, old)
                left -= len(rows)
                if not left:
                    return PrunedPage(gone, PrunePlace("ticks", name, rows[-1][1], rows[-1][0]))
            if len(names) < SCHEDULES_MAX:
                return PrunedPage(gone, None)
            return PrunedPage(
                gone, PrunePlace("ticks", f"{names[-1][0]}\x01")
            )  # behind this name, before every other one

        return self._prune(work, dry=dry)

    def prune_pauses(self, horizon: Horizon, _place: PrunePlace, limit: int, *, dry: bool = False) -> PrunedPage:
        """Let go of pauses that are over and that no undecided tick asks for."""

        def work(tx: Transaction) -> PrunedPage:
            rows = tx.rows("prune_pause_page", tenant=horizon.tenant, horizon_us=horizon.horizon_us, limit=limit)
            if dry or not rows:
                return PrunedPage(len(rows), None)
            gone = tx.rows("prune_pauses", tenant=horizon.tenant, ids=json.dumps([row[0] for row in rows]))
            return PrunedPage(len(gone), PrunePlace("pauses") if len(rows) == limit else None)

        return self._prune(work, dry=dry)

    def prune_logs(self, horizon: Horizon, _place: PrunePlace, limit: int, *, dry: bool = False) -> PrunedPage:
        """Let go of log files whose worker has not been heard of since their attempts went."""

        def work(tx: Transaction) -> PrunedPage:
            gone = tx.rows("prune_old_logs", tenant=horizon.tenant, horizon_us=horizon.horizon_us, limit=limit)
            return PrunedPage(len(gone), PrunePlace("logs") if len(gone) == limit else None)

        return PrunedPage(0, None) if dry else self._dialect.write(work)

    def watermark(self, tenant: str, schedule: str) -> Watermark | None:
        """Return up to where a schedule's records may be gone; with '' those of the tenant's runs."""
        return self._dialect.read(lambda tx: watermark_of(tx, tenant, schedule))

    def tallies(self, tenant: str, schedule: str) -> list[Tally]:
        """Return how many ticks and runs of a schedule there ever were, by what became of them."""
        return self._dialect.read(
            lambda tx: [Tally(*row) for row in tx.rows("tallies", tenant=tenant, schedule=schedule)]
        )

    def old_logs(self, host: str, limit: int) -> list[OldLog]:
        """Return log files on a host whose attempts were pruned."""
        return self._dialect.read(lambda tx: [OldLog(*row) for row in tx.rows("old_logs", host=host, limit=limit)])

    def forget_old_logs(self, host: str, logs: Sequence[OldLog]) -> None:
        """Note that a host has removed these."""
        self._dialect.write(lambda tx: tx.rows("forget_old_logs", host=host, logs=json.dumps(logs)))

    def _prune(self, work: Callable[[Transaction], PrunedPage], *, dry: bool) -> PrunedPage:
        return self._dialect.read(work) if dry else self._dialect.write(work)


def watermark_of(tx: Transaction, tenant: str, schedule: str) -> Watermark | None:
    """Return up to where records may be gone. On PostgreSQL, ask for this after the records that were missed."""
    rows = tx.rows("watermark", tenant=tenant, schedule=schedule)
    return Watermark(*rows[0]) if rows else None


def _let_runs_go(tx: Transaction, horizon: Horizon, old: Sequence[str]) -> int:
    if not old:
        return 0
    folded_us = folded_until(tx, horizon.tenant, "run")
    which = {"tenant": horizon.tenant, "ids": json.dumps(old), "horizon_us": horizon.horizon_us}
    rows = tx.rows("prune_runs", **which)
    past = tx.rows("past_to_prune", **which) if len(rows) < len(old) else []
    rows += past
    ids = json.dumps([row[0] for row in rows])
    attempts = tx.rows("prune_attempts", ids=ids)
    if past:
        attempts += tx.rows("past_attempts_to_prune", ids=ids)
        tx.rows("drop_past_runs", ids=ids)
    _remember_logs(tx, horizon.tenant, attempts)
    for what in ("checkpoints", "completions", "deliveries", "gatherings"):
        tx.rows(f"prune_{what}", ids=ids)
    tx.rows("prune_effects", tenant=horizon.tenant, ids=ids)
    _let_resources_go(tx, horizon.tenant, ids)
    _keep_first_starts(tx, horizon.tenant, rows)
    _keep_figures(tx, horizon.tenant, rows, attempts, folded_us)
    _count(tx, horizon.tenant, Counter((schedule or "", "run", state) for _, schedule, state, *_ in rows))
    marks = {"": horizon.horizon_us}
    for _, schedule, _, _, _, tick_us, *_ in rows:
        if schedule is not None and tick_us is not None:
            marks[schedule] = max(tick_us, marks.get(schedule, tick_us))
    _mark(tx, horizon, [(name, at_us, "") for name, at_us in marks.items()])
    return len(rows)


def _remember_logs(tx: Transaction, tenant: str, attempts: Iterable[Row]) -> None:
    """Leave word for the workers: each removes from its own disk what is no longer on record."""
    logs = [(worker.rpartition(":")[0], run_id, fence) for run_id, fence, worker, *_ in attempts]
    if logs:
        tx.rows("add_old_logs", tenant=tenant, logs=json.dumps(logs))


def _let_resources_go(tx: Transaction, tenant: str, ids: str) -> None:
    """Forget the resources that only these runs could lease; their fences stay below the floor."""
    fences = [int(fence) for (fence,) in tx.rows("prune_resources", tenant=tenant, ids=ids)]
    if fences:
        tx.rows("lift_floor", fence=str(max(fences)))


def _keep_first_starts(tx: Transaction, tenant: str, rows: Iterable[Row]) -> None:
    first: dict[tuple[str, int], int] = {}
    for _, schedule, _, trigger, version, _, started_us, *_ in rows:
        if schedule is not None and started_us is not None and TriggerKind(trigger).tick_born:
            first[schedule, version] = min(started_us, first.get((schedule, version), started_us))
    if first:
        starts = [(name, version, at_us) for (name, version), at_us in first.items()]
        tx.rows("keep_first_starts", tenant=tenant, starts=json.dumps(starts))


def _keep_figures(tx: Transaction, tenant: str, rows: Iterable[Row], attempts: Iterable[Row], folded_us: int) -> None:
    """Write down what these came to, so that no figure ever falls; most of it was long before."""
    asked_again: Meters = Counter()
    spent: dict[str, Spent] = {}
    counted: set[str] = set()
    for run_id, schedule, state, _, _, _, started_us, ended_us, agent, cost_micro, requests, reason, created_us in rows:
        asked_again[schedule or "", agent, "asked_again"] += requests - 1
        spent[run_id] = Spent(run_id, schedule or "", agent, state, started_us, ended_us, cost_micro, reason)
        if created_us <= folded_us:
            counted.add(run_id)
    late = tx.rows("drop_unfolded", tenant=tenant, ids=json.dumps(sorted(counted))) if counted else []
    counted -= {run_id for (run_id,) in late}
    news = [one for run_id, one in spent.items() if run_id not in counted]
    count_runs(tx, tenant, news, [row for row in attempts if row[0] not in counted])
    add_meters(tx, tenant, asked_again)


def _tick_page(tx: Transaction, horizon: Horizon, place: PrunePlace, cursor_us: int, limit: int) -> list[Row]:
    return tx.rows(
        "prune_tick_page",
        tenant=horizon.tenant,
        schedule=place.schedule,
        horizon_us=horizon.horizon_us,
        until_us=horizon.ticks_until_us(cursor_us),
        after_us=place.at_us,
        after=place.id,
        limit=limit,
    )


def _let_ticks_go(tx: Transaction, horizon: Horizon, schedule: str, old: Sequence[Row]) -> int:
    if not old:
        return 0
    folded_us = folded_until(tx, horizon.tenant, "tick")
    occurrences = json.dumps([row[0] for row in old])
    rows = tx.rows("prune_ticks", tenant=horizon.tenant, schedule=schedule, occurrences=occurrences)
    counts: Counter[tuple[str, str, str]] = Counter()
    news: Meters = Counter()
    for disposition, number, _, _, decided_us in rows:
        counts[schedule, "tick", disposition] += number
        if decided_us > folded_us:
            news[schedule, "", f"{TICKS}{disposition}"] += number
    _count(tx, horizon.tenant, counts)
    add_meters(tx, horizon.tenant, news)
    if rows:
        newest = max(rows, key=lambda row: int(row[2]))
        _mark(tx, horizon, [(schedule, newest[2], newest[3])])
    return sum(counts.values())


def _count(tx: Transaction, tenant: str, counts: Counter[tuple[str, str, str]]) -> None:
    if counts:
        tx.rows("add_tallies", tenant=tenant, counts=json.dumps([(*key, number) for key, number in counts.items()]))


def _mark(tx: Transaction, horizon: Horizon, marks: Sequence[tuple[str, int, str]]) -> None:
    tx.rows("raise_watermarks", tenant=horizon.tenant, kept_for_us=horizon.kept_for_us, marks=json.dumps(marks))
