"""The ticker's verbs: read what is due, let it be decided, write it down, all in one transaction.

Rows are locked in the order schedule, run, resource, lease by every verb, so that none waits for another in a circle.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fencepost.model.budget import Counted
from fencepost.model.new_run import NewRun
from fencepost.model.notice import Notice
from fencepost.model.overlap import LiveStanding, UnendedRun
from fencepost.model.run import Reason, RunId, RunState, TriggerKind
from fencepost.ports.ticks import Around, DueSchedule, Key, NewTick, PauseRow, TickPlan
from fencepost.stores.leases import SqlLeases
from fencepost.stores.manifests import keep_manifests
from fencepost.stores.notices import put_notices
from fencepost.stores.tick_draft import TickDraft, draft_of, moves_text, runs_text
from fencepost.stores.transaction import Later, Row, Transaction
from fencepost.stores.tzdata import follow

DECIDED_AT_ONCE = 250  # in one part of a transaction; the server writes one while the next is decided
DAY_US = 24 * 3600 * 1_000_000
MONTH_US = 32 * DAY_US
TOLD = ("missed", "budget")  # what may happen to a tick that a person would want to hear of

Decide = Callable[[Sequence[DueSchedule], Around], Sequence[TickPlan]]


class SqlTicks(SqlLeases):
    """Due schedules and their decisions."""

    _tzdata = ""  # the release that this object has seen to

    def clock_us(self) -> int:
        """Return the store's own time."""
        return self._dialect.read(clock)

    def next_due_us(self) -> int | None:
        """Return when the ticker must look next, or None if no schedule has a tick to come."""
        return self._dialect.read(lambda tx: _only(tx, "next_due"))

    def coming(self, within_us: int, limit: int) -> list[DueSchedule]:
        """Return schedules that are not due, and will be within so long, soonest first."""
        rows = self._dialect.read(lambda tx: tx.rows("coming_schedules", within_us=within_us, limit=limit))
        return [DueSchedule(*row) for row in rows]

    def tick(self, limit: int, decide: Decide, *, tzdata: str = "") -> int:
        """Decide what is due and commit ticks, runs, cursors and audit rows together; return how many schedules.

        A `tzdata` that is newer than the last one has every schedule looked at again, some at a time and only while
        nothing is due: they are many, and none of them is in a hurry.
        """

        def work(tx: Transaction) -> tuple[int, list[Row]]:
            applying = tx.later("next_applying")
            due = [DueSchedule(*row) for row in tx.rows("due_schedules", limit=limit)]
            return _write(tx, _decided(tx, due, decide)) if due else 0, applying()

        found, applying = self._dialect.write(work, often=True)
        for (tenant,) in applying:
            found += self._go_on_applying(tenant)
        if found or tzdata == self._tzdata:
            return found
        looked_at = self._dialect.write(lambda tx: follow(tx, tzdata))
        if not looked_at:
            self._tzdata = tzdata
        return looked_at

    def _go_on_applying(self, tenant: str) -> int:
        """Write down a step of an apply: its process may be dead, and no tick of this tenant is decided before its end."""
        from fencepost.stores.applying import write_next

        return self._dialect.write(partial(write_next, tenant=tenant), often=True)


def _decided(tx: Transaction, due: Sequence[DueSchedule], decide: Decide) -> Iterator[Sequence[TickPlan]]:
    """Decide what is due, some at a time."""
    around = _around(tx, due)
    for first in range(0, len(due), DECIDED_AT_ONCE):
        yield decide(due[first : first + DECIDED_AT_ONCE], around)


def _around(tx: Transaction, due: Sequence[DueSchedule]) -> Around:
    keys = json.dumps([one.key for one in due])
    now = tx.later("clock")
    live_rows = tx.later("live_runs", schedules=keys)
    pause_rows = tx.later("pauses_since", schedules=keys, since_us=min(one.cursor_us for one in due))
    now_us = int(now()[0][0])
    live: dict[Key, list[UnendedRun]] = defaultdict(list)
    for tenant, schedule, *run in live_rows():
        live[tenant, schedule].append(live_run(run))
    pauses: dict[Key, list[PauseRow]] = defaultdict(list)
    for tenant, schedule, *pause in pause_rows():
        pauses[tenant, schedule].append(PauseRow(*pause))
    spending: dict[Key, list[Counted]] = defaultdict(list)
    if any(has_budget(one.definition, one.manifest) for one in due):
        timed = any(has_time_budget(one.definition) for one in due)
        rows = tx.rows("spending", schedules=keys, since_us=now_us - MONTH_US, timed=timed)
        for tenant, schedule, *counted in rows:
            spending[tenant, schedule].append(Counted(*counted))
    return Around(now_us, live, pauses, spending)


def live_run(row: Sequence[object]) -> UnendedRun:
    """Read a run as admission sees it."""
    run_id, trigger, state, started_us, lines_up = row
    waiting = LiveStanding.QUEUED if started_us is None else LiveStanding.DEFERRED
    standing = LiveStanding.RUNNING if state == RunState.RUNNING else waiting
    return UnendedRun(RunId(str(run_id)), TriggerKind(str(trigger)), standing, bool(lines_up))


def has_budget(definition: str, manifest: str) -> bool:
    """Tell whether anything is limited that has to be summed up."""
    return "budget" in definition or "max_runs" in definition or has_time_budget(definition) or "budget" in manifest


def has_time_budget(definition: str) -> bool:
    """Tell whether the time that runs take is limited; to sum it up costs a look at every attempt."""
    return "max_time" in definition


def _write(tx: Transaction, decided: Iterator[Sequence[TickPlan]]) -> int:
    """Write down what is decided, part by part: the next one is decided and spelled while the server writes."""
    found, plans = 0, next(decided, ())
    while plans:
        moving = tx.later("move_cursors", moves=moves_text(plans))
        draft = _moved(draft_of(plans), moving)
        recording = tx.later("insert_ticks", ticks=draft.ticks_text) if draft.ticks else None
        plans = next(decided, ())
        draft = _recorded(draft, recording) if recording else draft
        _make_runs(tx, draft)
        found += len(draft.plans)
    return found


def _moved(draft: TickDraft, moving: Later) -> TickDraft:
    """Leave out the schedules that another scheduler has decided; we hold their rows, so there is hardly ever one."""
    moved = {tuple(row) for row in moving()}
    if len(moved) == len(draft.plans):
        return draft
    return draft_of([plan for plan in draft.plans if plan.due.key in moved])


def _recorded(draft: TickDraft, recording: Later) -> TickDraft:
    """Leave out the ticks that are known: a new tzdata may bring a slot back that was decided before."""
    new = {tuple(row) for row in recording()}
    if len(new) == len(draft.ticks):
        return draft
    return draft_of(draft.plans, lambda tick: (tick.tenant, tick.schedule, tick.occurrence) in new)


def _make_runs(tx: Transaction, draft: TickDraft) -> None:
    """Make the runs for new ticks, the room for them, and tell of it."""
    if draft.runs:
        send_runs(tx, draft.runs, draft.runs_text)
    plans = draft.plans
    make_room(tx, [run for plan in plans for run in plan.displaces], [run for plan in plans for run in plan.stops])
    if draft.entries_text:
        tx.later("write_audit", entries=draft.entries_text)
    put_notices(tx, [*_notices(draft.ticks), *(_held_notice(plan.held, plan.due_us) for plan in plans if plan.held)])


def put_runs(tx: Transaction, runs: Sequence[NewRun]) -> set[str]:
    """Put runs into the queue and wake the workers that listen; return which are new, and not known by their key."""
    if not runs:
        return set()
    return {str(run_id) for (run_id,) in send_runs(tx, runs)()}


def send_runs(tx: Transaction, runs: Sequence[NewRun], text: str = "") -> Later:
    """Put runs, spelled already or not, into the queue and wake the workers; return a way to the ids of those that are new."""
    keep_manifests(tx, runs)
    made = tx.later("insert_runs", runs=text or runs_text(runs))
    tx.later("announce", what="ready")
    return made


def make_room(tx: Transaction, displaced: Sequence[str], stopped: Sequence[str]) -> None:
    """End those that wait, and ask those that run to stop; their schedule's row is locked already."""
    if displaced:
        gone = tx.rows(
            "end_ready",
            ids=json.dumps(displaced),
            state=RunState.CANCELLED.value,
            reason=Reason.OVERLAP.value,
        )
        tx.rows("note_displaced", ended=json.dumps(gone))
    if stopped:
        tx.rows("ask_to_stop", ids=json.dumps(stopped), reason=Reason.OVERLAP.value)


def _notices(ticks: Sequence[NewTick]) -> list[Notice]:
    """Return what there is to tell: of each schedule one notice about all the ticks that it lost for one reason."""
    lost: dict[tuple[str, str, str], list[NewTick]] = defaultdict(list)
    for tick in ticks:
        if tick.disposition in TOLD:
            lost[tick.tenant, tick.schedule, tick.disposition].append(tick)
    return [_lost_notice(*which, some) for which, some in lost.items()]


def _held_notice(tick: NewTick, looks_again_us: int | None) -> Notice:
    """Tell of a tick that waits, once on each day on which it does."""
    told = _lost_notice(tick.tenant, tick.schedule, tick.disposition, [tick])
    day = (looks_again_us or tick.tick_us) // DAY_US
    return told._replace(key=f"{tick.disposition} {tick.tenant} {tick.schedule} day {day}")


def _lost_notice(tenant: str, schedule: str, disposition: str, ticks: Sequence[NewTick]) -> Notice:
    body = {
        "tenant": tenant,
        "schedule": schedule,
        "count": sum(tick.count for tick in ticks),
        "first_slot": ticks[0].slot,
        "last_slot": ticks[-1].slot_until or ticks[-1].slot,
    }
    # What is over its budget stays so for hours: who is told once a day need not be told at each tick.
    once = f"day {ticks[0].tick_us // DAY_US}" if disposition == "budget" else ticks[0].occurrence
    key = f"{disposition} {tenant} {schedule} {once}"
    return Notice(tenant, key, (disposition,), f"schedule:{schedule}", schedule, body)


def clock(tx: Transaction) -> int:
    """Return the store's own time."""
    return int(_only(tx, "clock") or 0)


def _only(tx: Transaction, name: str) -> int | None:
    ((value,),) = tx.rows(name)
    return None if value is None else int(value)
