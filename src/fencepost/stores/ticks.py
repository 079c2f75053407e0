"""The ticker's verbs: read what is due, let it be decided, write it down, all in one transaction.

Rows are locked in the order schedule, run, resource, lease by every verb, so that none waits for another in a circle.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from fencepost.model.overlap import LiveRun, Standing
from fencepost.model.run import RunId, TriggerKind
from fencepost.ports.ticks import Around, Counted, DueSchedule, Key, NewTick, PauseRow, TickPlan
from fencepost.stores.leases import SqlLeases
from fencepost.stores.transaction import Transaction

MONTH_US = 32 * 24 * 3600 * 1_000_000


class SqlTicks(SqlLeases):
    """TickStore's verbs over named statements."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        return self._dialect.read(_clock)

    def next_due_us(self) -> int | None:
        """Return when the ticker must look next, or None if no schedule has a tick to come."""
        return self._dialect.read(lambda tx: _only(tx, "next_due"))

    def tick(self, limit: int, decide: Callable[[Sequence[DueSchedule], Around], Sequence[TickPlan]]) -> int:
        """Decide what is due and commit ticks, runs, cursors and audit rows together; return how many schedules."""

        def work(tx: Transaction) -> int:
            due = [DueSchedule(*row) for row in tx.rows("due_schedules", limit=limit)]
            if not due:
                return 0
            return _write(tx, decide(due, _around(tx, due)))

        return self._dialect.write(work)


def _around(tx: Transaction, due: Sequence[DueSchedule]) -> Around:
    now_us = _clock(tx)
    keys = json.dumps([one.key for one in due])
    live: dict[Key, list[LiveRun]] = defaultdict(list)
    for tenant, schedule, run_id, trigger, state, attempt, lines_up in tx.rows("live_runs", schedules=keys):
        standing = Standing.RUNNING if state == "running" else Standing.DEFERRED if attempt else Standing.QUEUED
        live[tenant, schedule].append(LiveRun(RunId(run_id), TriggerKind(trigger), standing, bool(lines_up)))
    pauses: dict[Key, list[PauseRow]] = defaultdict(list)
    oldest = min(one.cursor_us for one in due)
    for tenant, schedule, *pause in tx.rows("pauses_since", schedules=keys, since_us=oldest):
        pauses[tenant, schedule].append(PauseRow(*pause))
    spending: dict[Key, list[Counted]] = defaultdict(list)
    if any(_has_budget(one) for one in due):
        for tenant, schedule, *counted in tx.rows("spending", schedules=keys, since_us=now_us - MONTH_US):
            spending[tenant, schedule].append(Counted(*counted))
    return Around(now_us, live, pauses, spending)


def _has_budget(due: DueSchedule) -> bool:
    return "budget" in due.definition or "max_runs" in due.definition or "budget" in due.manifest


def _write(tx: Transaction, plans: Sequence[TickPlan]) -> int:
    moved = {tuple(row) for row in tx.rows("move_cursors", moves=json.dumps([_move(plan) for plan in plans]))}
    kept = [plan for plan in plans if plan.due.key in moved]
    known = _known(tx, [tick for plan in kept for tick in plan.ticks])
    ticks = [tick for plan in kept for tick in plan.ticks if _identity(tick) not in known]
    made = {tick.run_id for tick in ticks if tick.run_id}
    runs = [run for plan in kept for run in plan.runs if run.id in made]
    tx.rows("insert_ticks", ticks=json.dumps([tick._asdict() for tick in ticks]))
    tx.rows("insert_runs", runs=json.dumps([run._asdict() for run in runs]))
    _make_room(tx, kept)
    tx.rows("write_audit", entries=json.dumps([_entry(plan) for plan in kept if plan.ticks]))
    return len(kept)


def _make_room(tx: Transaction, plans: Iterable[TickPlan]) -> None:
    displaced = [run for plan in plans for run in plan.displaces]
    if displaced:
        tx.rows("end_ready", ids=json.dumps(displaced), state="cancelled", reason="overlap")
    stopped = [run for plan in plans for run in plan.stops]
    if stopped:
        tx.rows("ask_to_stop", ids=json.dumps(stopped), reason="overlap")


def _known(tx: Transaction, ticks: Sequence[NewTick]) -> set[tuple[str, str, str]]:
    """Return which occurrences were decided before: a new tzdata may bring a slot back that is already recorded."""
    rows = tx.rows("known_ticks", occurrences=json.dumps([_identity(tick) for tick in ticks]))
    return {(tenant, schedule, occurrence) for tenant, schedule, occurrence in rows}


def _identity(tick: NewTick) -> tuple[str, str, str]:
    return (tick.tenant, tick.schedule, tick.occurrence)


def _move(plan: TickPlan) -> dict[str, object]:
    every = any(run.trigger == "every" for run in plan.runs)
    return {
        "tenant": plan.due.tenant,
        "name": plan.due.name,
        "version": plan.due.version,
        "cursor_was_us": plan.due.cursor_us,
        "cursor_us": plan.cursor_us,
        "due_us": plan.due_us,
        "skip_next": plan.skip_next,
        "last_run": plan.runs[-1].id if every else None,
    }


def _entry(plan: TickPlan) -> dict[str, object]:
    counts: dict[str, int] = defaultdict(int)
    for tick in plan.ticks:
        counts[tick.disposition] += tick.count
    detail = {"version": plan.due.version, "ticks": counts, "runs": [run.id for run in plan.runs]}
    return {
        "tenant": plan.due.tenant,
        "actor": "ticker",
        "verb": "tick",
        "subject": f"schedule:{plan.due.name}",
        "detail": json.dumps(detail),
    }


def _clock(tx: Transaction) -> int:
    return int(_only(tx, "clock") or 0)


def _only(tx: Transaction, name: str) -> int | None:
    ((value,),) = tx.rows(name)
    return None if value is None else int(value)
