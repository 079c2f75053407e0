"""The queue's verbs: lease the next run, start it, settle it, reap what was lost.

Rows are locked in the order schedule, run, resource, lease by every verb, so that none waits for another in a circle.
"""

import json
from collections.abc import Callable, Mapping

from fencepost.model.definition import schedule_from_json, trigger_of
from fencepost.model.errors import LeaseLost
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.moment import from_us, to_us
from fencepost.model.outcome import Settlement
from fencepost.model.pause import failures_after, pause_on_failure
from fencepost.model.run import Reason, RunState
from fencepost.model.trigger import Ended, EveryTrigger
from fencepost.ports.runs import AttemptRow, LeasedRun, Report, RunRow, Standing
from fencepost.ports.ticks import NewRun
from fencepost.stores.leases import give_back, held_of, take_away
from fencepost.stores.ticks import SqlTicks
from fencepost.stores.transaction import Row, Transaction

CANDIDATES = 50


class SqlRuns(SqlTicks):
    """RunStore's verbs over named statements."""

    def lease_run(
        self, claim_of: Callable[[RunRow], Claim], recheck: Callable[[RunRow, Standing], Reason | None]
    ) -> LeasedRun | None:
        """Lease the next run that may start, cancelling on the way those that may not any more; None: nothing to do."""

        def work(tx: Transaction) -> LeasedRun | None:
            for row in tx.rows("run_candidates", limit=CANDIDATES):
                run = _run(row)
                standing = _standing(tx, run)
                if standing.halted or not _has_room(tx, run):
                    continue
                reason = recheck(run, standing)
                if reason is not None:
                    _end_ready(tx, run, reason)
                    continue
                leased = self._take(tx, run, claim_of(run))
                if leased:
                    return leased
            return None

        return self._dialect.write(work)

    def start_run(self, leased: LeasedRun) -> None:
        """Record that the agent is about to start, or raise LeaseLost."""
        lease = leased.lease

        def work(tx: Transaction) -> None:
            run = tx.rows("start_run", id=lease.run_id, fence=lease.fence)
            held = tx.rows("start", id=lease.id, fence=lease.fence)
            _still_ours([*run, *held] if run and held else [], lease)
            tx.rows("start_attempt", run_id=lease.run_id, fence=lease.fence)

        self._dialect.write(work)

    def settle(self, lease: Lease, settlement: Settlement, report: Report, *, clean: bool) -> None:
        """Write down how an attempt ended and give its lease back, or raise LeaseLost and change nothing."""

        def work(tx: Transaction) -> None:
            run = self._locked(tx, lease.run_id, lease.tenant)
            if run is None:
                raise _lost(lease)
            self._settle(tx, run, lease.fence, settlement, report, lost=_lost(lease))
            give_back(tx, lease, clean=clean)

        self._dialect.write(work)

    def lost_runs(self, limit: int) -> list[RunRow]:
        """Return the runs that are marked running while nobody holds their lease."""
        return self._dialect.read(lambda tx: [_run(row) for row in tx.rows("lost_runs", limit=limit)])

    def reap(self, run: RunRow, settlement: Settlement, report: Report) -> bool:
        """Settle a lost run if it is still as lost as when it was looked at."""
        assert run.fence is not None, "a running run has a fence"
        fence = run.fence

        def work(tx: Transaction) -> bool:
            locked = self._locked(tx, run.id, run.tenant)
            if locked is None or not self._is_lost(tx, locked, fence):
                return False
            self._settle(tx, locked, fence, settlement, report)
            return True

        return self._dialect.write(work)

    def stop_asked(self, lease: Lease) -> str | None:
        """Return why a running run shall stop, if somebody asked; raise LeaseLost if it is not ours any more."""
        rows = self._dialect.read(lambda tx: tx.rows("stop_asked", id=lease.run_id, fence=lease.fence))
        _still_ours(rows, lease)
        return None if rows[0][0] is None else str(rows[0][0])

    def checkpoint(self, run_id: str) -> str | None:
        """Return what the run's last attempt left for the next."""
        return self._dialect.read(lambda tx: _checkpoint(tx, run_id))

    def put_checkpoint(self, lease: Lease, content: str) -> None:
        """Keep what a resumed run shall get back, or raise LeaseLost."""
        self._dialect.write(
            lambda tx: _still_ours(
                tx.rows("put_checkpoint", run_id=lease.run_id, fence=lease.fence, content=content), lease
            )
        )

    def next_ready_us(self) -> int | None:
        """Return when the next run becomes ready."""
        ((value,),) = self._dialect.read(lambda tx: tx.rows("next_ready"))
        return None if value is None else int(value)

    def run(self, run_id: str, *, tenant: str) -> RunRow | None:
        """Return one run."""
        rows = self._dialect.read(lambda tx: tx.rows("run", id=run_id, tenant=tenant))
        return _run(rows[0]) if rows else None

    def runs(
        self,
        *,
        tenant: str,
        state: str = "",
        schedule: str = "",
        agent: str = "",
        live: bool = False,
        kept: bool = False,
        limit: int = 100,
    ) -> list[RunRow]:
        """Return runs, newest first; `live` only those that have not ended, `kept` no discarded ones."""
        values = {"tenant": tenant, "state": state, "schedule": schedule, "agent": agent, "live": live, "kept": kept}
        return self._dialect.read(lambda tx: [_run(row) for row in tx.rows("runs", **values, limit=limit)])

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the tries at a run."""
        return self._dialect.read(lambda tx: [AttemptRow(*row) for row in tx.rows("attempts", run_id=run_id)])

    def enqueue_run(self, run: NewRun) -> RunRow:
        """Put a run into the queue, durably; the same request key finds the run that it made before."""

        def work(tx: Transaction) -> RunRow:
            if run.request_key is not None:
                key = {"tenant": run.tenant, "agent": run.agent, "request_key": run.request_key}
                known = tx.rows("run_by_request", **key)
                if known:
                    return _run(known[0])
            tx.rows("insert_runs", runs=json.dumps([run._asdict()]))
            _audit(tx, run.tenant, actor="door", verb="enqueue", subject=f"run:{run.id}", detail={"agent": run.agent})
            (row,) = tx.rows("run", id=run.id, tenant=run.tenant)
            return _run(row)

        return self._dialect.write(work)

    def cancel(self, run_id: str, *, tenant: str, by: str) -> RunRow | None:
        """End a queued run, or ask a running one to stop; return it as it was, or None if there is none."""

        def work(tx: Transaction) -> RunRow | None:
            run = self._locked(tx, run_id, tenant)
            if run is None:
                return None
            if run.state == RunState.READY:
                _end_ready(tx, run, Reason.CANCELLED, actor=by)
            elif run.state == RunState.RUNNING:
                tx.rows("ask_to_stop", ids=json.dumps([run.id]), reason=Reason.CANCELLED.value)
                _audit(tx, tenant, actor=by, verb="cancel", subject=f"run:{run.id}", detail={"state": run.state})
            return run

        return self._dialect.write(work)

    def discard(self, run_id: str, *, tenant: str, by: str) -> bool:
        """Take a dead letter off the desk; the run stays in the records."""

        def work(tx: Transaction) -> bool:
            done = tx.rows("discard", id=run_id, tenant=tenant)
            if done:
                _audit(tx, tenant, actor=by, verb="discard", subject=f"run:{run_id}", detail={})
            return bool(done)

        return self._dialect.write(work)

    def _take(self, tx: Transaction, run: RunRow, claim: Claim) -> LeasedRun | None:
        answer = self._acquire(tx, claim, dead=(), ticket=None)
        if not isinstance(answer, Granted):
            return None
        lease, worker = answer.lease, f"{claim.supervisor.host.name}:{claim.supervisor.pid}"
        taken = tx.rows("take_run", id=run.id, lease_id=lease.id, fence=lease.fence, worker=worker)
        assert taken, "the run was locked while it was ready"
        number = taken[0][0]
        tx.rows("insert_attempt", run_id=run.id, number=number, fence=lease.fence, worker=worker)
        now = run._replace(
            state="running", attempt=number, lease_id=lease.id, fence=lease.fence, worker=worker, stop=None
        )
        return LeasedRun(now, lease, answer.predecessors, _checkpoint(tx, run.id))

    def _locked(self, tx: Transaction, run_id: str, tenant: str) -> RunRow | None:
        """Read a run with its schedule's row locked first."""
        rows = tx.rows("run", id=run_id, tenant=tenant)
        if not rows:
            return None
        run = _run(rows[0])
        if run.schedule is not None:
            tx.rows("lock_schedule", tenant=tenant, schedule=run.schedule)
            (row,) = tx.rows("run", id=run_id, tenant=tenant)
            run = _run(row)
        return run

    def _is_lost(self, tx: Transaction, run: RunRow, fence: int) -> bool:
        """Look again inside the transaction; a lease whose time is up is taken from its holder now."""
        if run.state != RunState.RUNNING or run.fence != fence:
            return False
        rows = tx.rows("lease_of_run", id=run.lease_id)
        if not rows:
            return True
        held = held_of(rows[0])
        if not held.lost and not held.expired:
            return False
        if not held.lost:
            take_away(tx, held, why="expired")
        return True

    def _settle(
        self,
        tx: Transaction,
        run: RunRow,
        fence: int,
        settlement: Settlement,
        report: Report,
        *,
        lost: LeaseLost | None = None,
    ) -> None:
        rows = tx.rows(
            "settle_run",
            id=run.id,
            fence=fence,
            state=settlement.state.value,
            reason=settlement.reason.value if settlement.reason else None,
            ready_us=to_us(settlement.ready_at) if settlement.ready_at else None,
            refund=0 if settlement.uses_attempt else 1,
            resume=settlement.resume,
            exit_code=report.exit_code,
            cost_micro=report.cost_micro,
            summary=report.summary,
            log=report.log,
        )
        if not rows:
            raise lost or LeaseLost(f"run {run.id} with fence {fence} is no longer running.")
        tx.rows(
            "end_attempt",
            run_id=run.id,
            fence=fence,
            outcome=report.outcome,
            exit_code=report.exit_code,
            last_log=report.last_log,
        )
        detail = {"state": settlement.state.value, "reason": settlement.reason, "fence": fence, "attempt": run.attempt}
        _audit(tx, run.tenant, actor="settler", verb="settle", subject=f"run:{run.id}", detail=detail)
        if settlement.state.terminal and run.schedule is not None:
            _note_end(tx, run, settlement.state, ended_us=rows[0][0])


def _standing(tx: Transaction, run: RunRow) -> Standing:
    ((now_us,),) = tx.rows("clock")
    keys = json.dumps([(run.tenant, run.schedule or "")])
    pauses = [row for row in tx.rows("pauses_since", schedules=keys, since_us=now_us) if row[2] <= now_us]
    rows = tx.rows("schedule_standing", tenant=run.tenant, schedule=run.schedule) if run.schedule else []
    return Standing(
        now_us=now_us,
        definition=str(rows[0][1]) if rows else None,
        in_force=bool(rows[0][3]) if rows else run.schedule is None,
        paused=any(row[1] == run.schedule for row in pauses if run.schedule),
        halted=any(row[1] == "" for row in pauses),
    )


def _has_room(tx: Transaction, run: RunRow) -> bool:
    """Keep to the schedule's bound on every path, also for what lines up or comes back after a loss."""
    if run.schedule is None or run.lease_max == 1:
        return True  # the schedule itself is leased, which leaves room for one
    ((running,),) = tx.rows("running_of", tenant=run.tenant, schedule=run.schedule)
    return bool(running < run.lease_max)


def _end_ready(tx: Transaction, run: RunRow, reason: Reason, *, actor: str = "leaser") -> None:
    state = RunState.DEAD if reason is Reason.QUEUE_TIMEOUT else RunState.CANCELLED
    ended = tx.rows("end_ready", ids=json.dumps([run.id]), state=state.value, reason=reason.value)
    if ended:
        _audit(tx, run.tenant, actor=actor, verb="cancel", subject=f"run:{run.id}", detail={"reason": reason.value})
        if run.schedule is not None:
            ((now_us,),) = tx.rows("clock")
            _note_end(tx, run, state, ended_us=now_us)


def _note_end(tx: Transaction, run: RunRow, state: RunState, *, ended_us: int) -> None:
    """Tell the schedule: failures in a row, the last success, and when `every` is due again."""
    rows = tx.rows("lock_schedule", tenant=run.tenant, schedule=run.schedule)
    if not rows:
        return
    definition, failures_before, last_success_us, last_run = rows[0]
    schedule = schedule_from_json(definition)
    failures = failures_after(failures_before, state)
    due_us = None
    trigger = trigger_of(schedule)
    if isinstance(trigger, EveryTrigger) and last_run == run.id:
        owed = trigger.due(Ended(run.id, from_us(ended_us)), applied_at=from_us(ended_us))
        due_us = to_us(owed.tick_at) if owed else None
    if state is RunState.SUCCEEDED and run.tick_us is not None:
        last_success_us = max(last_success_us or run.tick_us, run.tick_us)
    tx.rows(
        "note_end",
        tenant=run.tenant,
        schedule=run.schedule,
        failures=failures,
        last_success_us=last_success_us,
        run_id=run.id,
        ended_us=ended_us,
        due_us=due_us,
    )
    pause = pause_on_failure(failures, limit=schedule.pause_on_failure, now=from_us(ended_us))
    if pause is not None and state is RunState.DEAD:
        values = {"since_us": to_us(pause.since), "until_us": to_us(pause.until), "note": pause.note}
        tx.rows("insert_pause", tenant=run.tenant, schedule=run.schedule, **values, by_whom="fencepost")


def _audit(tx: Transaction, tenant: str, *, actor: str, verb: str, subject: str, detail: Mapping[str, object]) -> None:
    entry = {"tenant": tenant, "actor": actor, "verb": verb, "subject": subject, "detail": json.dumps(detail)}
    tx.rows("write_audit", entries=json.dumps([entry]))


def _checkpoint(tx: Transaction, run_id: str) -> str | None:
    rows = tx.rows("checkpoint", run_id=run_id)
    return str(rows[0][0]) if rows else None


def _run(row: Row) -> RunRow:
    run = RunRow(*row)
    return run._replace(lines_up=bool(run.lines_up), resume=bool(run.resume))


def _still_ours(rows: list[Row], lease: Lease) -> None:
    if not rows:
        raise _lost(lease)


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"the lease on run {lease.run_id} with fence {lease.fence} is no longer held.")
