"""What several of the queue's verbs do with a run's rows, inside their transaction."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from fencepost.model.definition import schedule_from_json, trigger_of
from fencepost.model.instants import FOREVER_US, from_us, to_us
from fencepost.model.outcome import Settlement
from fencepost.model.pause import OPEN_END, failures_after, pause_on_failure
from fencepost.model.run import Reason, RunState
from fencepost.model.trigger import EndedRun, EveryTrigger
from fencepost.ports.runs import RunRow
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.notices import end_notice, put_notices
from fencepost.stores.past_runs import seen
from fencepost.stores.transaction import Row, Transaction

_WIDTH = len(RunRow._fields)
_LINES_UP, _RESUME, _MANIFEST = (RunRow._fields.index(name) for name in ("lines_up", "resume", "manifest"))


class LockedSchedule(NamedTuple):
    """What the queue wants to know of a schedule whose row it has locked."""

    definition: str
    in_force: bool
    once_done: bool
    failures: int
    last_success_us: int | None
    last_run: str | None


def run_of(row: Row, manifest: str | None = None) -> RunRow:
    """Read a row of the view run_fact, or of run_seen, which has more, or of lane_row with the manifest that it leaves out."""
    fields = list(row[:_WIDTH])
    if manifest is not None:
        fields[_MANIFEST] = manifest
    fields[_LINES_UP], fields[_RESUME] = bool(row[_LINES_UP]), bool(row[_RESUME])
    return RunRow(*fields)


def schedules_of(rows: Sequence[Row]) -> dict[tuple[str, str], LockedSchedule]:
    """Read schedules that are locked, by their key."""
    return {(row[0], row[1]): _schedule_of(row[2:]) for row in rows}


def _schedule_of(row: Sequence[Any]) -> LockedSchedule:
    found = LockedSchedule(*row)
    return found._replace(in_force=bool(found.in_force), once_done=bool(found.once_done))


def lock_run(tx: Transaction, run_id: str, tenant: str) -> RunRow | None:
    """Lock a run, its schedule's row first, and return it as it is now; a past one needs no lock."""
    tx.later("lock_schedules_of", ids=json.dumps([run_id]))
    locked = seen(tx, "lock_run", id=run_id, tenant=tenant)
    return run_of(locked[0]) if locked else None


def end_ready(tx: Transaction, run: RunRow, reason: Reason, *, actor: str) -> None:
    """End a run that waits and is locked: no worker will lease it any more."""
    state = RunState.DEAD if reason is Reason.QUEUE_TIMEOUT else RunState.CANCELLED
    ended = tx.rows("end_ready", ids=json.dumps([run.id]), state=state.value, reason=reason.value)
    assert ended, "the run was locked while it was ready"
    verb = "give_up" if state is RunState.DEAD else "cancel"
    write_audit(tx, run.tenant, actor=actor, verb=verb, subject=f"run:{run.id}", detail={"reason": reason.value})
    put_notices(tx, end_notice(run, None, Settlement(state, reason), None))
    note_ends(tx, [(run, state, int(ended[0][1]))])


def note_ends(tx: Transaction, ended: Sequence[tuple[RunRow, RunState, int]]) -> None:
    """Tell the schedules, whose rows are locked: failures in a row, the last success, and when `every` is due again."""
    mine = [one for one in ended if one[0].schedule is not None]
    if not mine:
        return
    schedules = schedules_of(tx.rows("lock_schedules_of", ids=json.dumps(sorted(run.id for run, *_ in mine))))
    ends: dict[tuple[str, str], dict[str, int | None]] = {}
    for run, state, ended_us in mine:
        key = (run.tenant, run.schedule or "")
        if key not in schedules:
            continue
        before = schedules[key]
        failures = failures_after(before.failures, state)
        schedules[key] = before._replace(failures=failures, last_success_us=_last_success(before, run, state))
        if before.last_run == run.id:
            ends[key] = {"ended_us": ended_us, "due_us": _due_again(before, run, ended_us)}
        if state is RunState.DEAD:
            _pause_on_failure(tx, key, schedules[key], from_us(ended_us))
    learned = [
        {
            "tenant": key[0],
            "name": key[1],
            "failures": row.failures,
            "last_success_us": row.last_success_us,
            **ends.get(key, {}),
        }
        for key, row in schedules.items()
    ]
    tx.later("note_ends", schedules=json.dumps(learned))


def _pause_on_failure(tx: Transaction, key: tuple[str, str], schedule: LockedSchedule, now: datetime) -> None:
    limit = schedule_from_json(schedule.definition).pause_on_failure
    pause = pause_on_failure(schedule.failures, limit=limit, now=now)
    if pause is not None:
        until_us = FOREVER_US if pause.until == OPEN_END else to_us(pause.until)
        values = {"since_us": to_us(pause.since), "until_us": until_us, "note": pause.note}
        tx.rows("insert_pause", tenant=key[0], schedule=key[1], **values, by_whom="fencepost")


def _last_success(schedule: LockedSchedule, run: RunRow, state: RunState) -> int | None:
    if state is not RunState.SUCCEEDED or run.tick_us is None:
        return schedule.last_success_us
    return max(schedule.last_success_us or run.tick_us, run.tick_us)


def _due_again(schedule: LockedSchedule, run: RunRow, ended_us: int) -> int | None:
    """Return when an `every` that counted from this run is due; a disabled one is not."""
    definition = schedule_from_json(schedule.definition)
    trigger = trigger_of(definition)
    if not definition.enabled or not isinstance(trigger, EveryTrigger):
        return None
    owed = trigger.due(EndedRun(run.id, from_us(ended_us)), applied_at=from_us(ended_us))
    return to_us(owed.tick_at) if owed else None
