"""The verbs of an attempt and its end: start, settle, reap, stop; and looking at runs.

Rows are locked in the order schedule, run, resource, lease by every verb, so that none waits for another in a circle.
"""

import json

from fencepost.model.definition import schedule_from_json
from fencepost.model.errors import LeaseLost
from fencepost.model.lease import Lease, keys_of
from fencepost.model.moment import to_us
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState, TriggerKind
from fencepost.ports.runs import AttemptRow, Completion, LeasedRun, Report, RunRow
from fencepost.stores.lease_rows import held_of
from fencepost.stores.leases import give_back, take_away
from fencepost.stores.notices import end_notice, put_notices, run_notice
from fencepost.stores.queue import SqlQueue, checkpoint_of
from fencepost.stores.run_rows import audit, end_ready, lock_run, lock_schedule, note_end, run_of
from fencepost.stores.transaction import Row, Transaction


class SqlRuns(SqlQueue):
    """RunStore's verbs over named statements."""

    def start_run(self, leased: LeasedRun, *, session: str | None = None) -> None:
        """Record that the agent is about to start, with its session if that is known, or raise LeaseLost."""
        lease = leased.lease

        def work(tx: Transaction) -> None:
            _spend_once(tx, leased.run)
            _still_ours(tx.rows("start_run", id=lease.run_id, fence=lease.fence), lease)
            _still_ours(tx.rows("start", id=lease.id, fence=lease.fence), lease)
            tx.rows("start_attempt", run_id=lease.run_id, fence=lease.fence, session=session)
            put_notices(tx, [run_notice(leased.run, f"started {lease.run_id} {lease.fence}", ("started",))])

        self._dialect.write(work)

    def settle(self, lease: Lease, settlement: Settlement, report: Report, *, clean: bool) -> None:
        """Write down how an attempt ended and give its lease back, or raise LeaseLost and change nothing.

        Asking again after an unknown answer finds the attempt settled, by its fence and its outcome.
        """

        def work(tx: Transaction) -> None:
            run = lock_run(tx, lease.run_id, lease.tenant)
            if run is None:
                raise _lost(lease)
            if not settled_before(tx, run, lease.fence, report):
                self._settle(tx, run, lease.fence, settlement, report)
                give_back(tx, lease, clean=clean, answered=report.answered)

        self._dialect.write(work)

    def lost_runs(self, limit: int) -> list[RunRow]:
        """Return the runs that are marked running while nobody holds their lease."""
        return self._dialect.read(lambda tx: [run_of(row) for row in tx.rows("lost_runs", limit=limit)])

    def reap(self, run: RunRow, settlement: Settlement, report: Report, *, started: bool) -> bool:
        """Settle a lost run if it is still as lost, and as (un)started, as when it was looked at."""
        assert run.fence is not None, "a running run has a fence"
        fence = run.fence

        def work(tx: Transaction) -> bool:
            locked = lock_run(tx, run.id, run.tenant)
            if locked is None or locked.state != RunState.RUNNING or locked.fence != fence:
                return False
            if _was_started(tx, run.id, fence) is not started or not _is_lost(tx, locked):
                return False
            self._settle(tx, locked, fence, settlement, report)
            return True

        return self._dialect.write(work)

    def give_up_waiting(self, limit: int) -> int:
        """End the runs that have waited too long for their first start; return how many."""
        overdue = self._dialect.read(lambda tx: [run_of(row) for row in tx.rows("overdue_runs", limit=limit)])
        return sum(self._give_up(run) for run in overdue)

    def stop_asked(self, lease: Lease) -> str | None:
        """Return why a running run shall stop, if somebody asked; raise LeaseLost if it is not ours any more."""
        rows = self._dialect.read(lambda tx: tx.rows("stop_asked", id=lease.run_id, fence=lease.fence))
        _still_ours(rows, lease)
        return None if rows[0][0] is None else str(rows[0][0])

    def checkpoint(self, run_id: str) -> str | None:
        """Return what the run's last attempt left for the next."""
        return self._dialect.read(lambda tx: checkpoint_of(tx, run_id))

    def put_checkpoint(self, lease: Lease, content: str) -> None:
        """Keep what a resumed run shall get back, or raise LeaseLost."""
        values = {"run_id": lease.run_id, "fence": lease.fence, "content": content}
        self._dialect.write(lambda tx: _still_ours(tx.rows("put_checkpoint", **values), lease))

    def note_session(self, lease: Lease, session: str) -> None:
        """Record which conversation the agent is in, so that it can be taken up again, or raise LeaseLost."""
        values = {"run_id": lease.run_id, "fence": lease.fence, "session": session}
        self._dialect.write(lambda tx: _still_ours(tx.rows("note_session", **values), lease))

    def completion(self, run_id: str) -> Completion | None:
        """Return what was last heard of a run that is carried out elsewhere; its end before anything else."""
        rows = self._dialect.read(lambda tx: tx.rows("completion", run_id=run_id))
        return Completion(*rows[0]) if rows else None

    def put_completion(self, run_id: str, *, tenant: str, fence: int, state: str, content: str) -> str | None:
        """Keep a heartbeat or an end from outside; return what stands now, or None if the fence is not the run's."""
        values = {"run_id": run_id, "tenant": tenant, "fence": fence, "state": state, "content": content}
        rows = self._dialect.write(lambda tx: tx.rows("put_completion", **values))
        return str(rows[0][0]) if rows else None

    def next_ready_us(self) -> int | None:
        """Return when the next run becomes ready; those that are ready already are no reason to wait."""
        ((value,),) = self._dialect.read(lambda tx: tx.rows("next_ready"))
        return None if value is None else int(value)

    def run(self, run_id: str, *, tenant: str) -> RunRow | None:
        """Return one run."""
        rows = self._dialect.read(lambda tx: tx.rows("run", id=run_id, tenant=tenant))
        return run_of(rows[0]) if rows else None

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
        return self._dialect.read(lambda tx: [run_of(row) for row in tx.rows("runs", **values, limit=limit)])

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the tries at a run."""
        return self._dialect.read(lambda tx: [AttemptRow(*row) for row in tx.rows("attempts", run_id=run_id)])

    def cancel(self, run_id: str, *, tenant: str, by: str) -> RunRow | None:
        """End a queued run, or ask a running one to stop; return it as it was, or None if there is none."""

        def work(tx: Transaction) -> RunRow | None:
            run = lock_run(tx, run_id, tenant)
            if run is None:
                return None
            if run.state == RunState.READY:
                end_ready(tx, run, Reason.CANCELLED, actor=by)
            elif run.state == RunState.RUNNING:
                tx.rows("ask_to_stop", ids=json.dumps([run.id]), reason=Reason.CANCELLED.value)
                audit(tx, tenant, actor=by, verb="cancel", subject=f"run:{run.id}", detail={"state": run.state})
            return run

        return self._dialect.write(work)

    def discard(self, run_id: str, *, tenant: str, by: str, note: str = "") -> bool:
        """Take a dead letter off the desk; the run stays in the records."""
        said = {"note": note} if note else {}

        def work(tx: Transaction) -> bool:
            done = tx.rows("discard", id=run_id, tenant=tenant)
            if done:
                audit(tx, tenant, actor=by, verb="discard", subject=f"run:{run_id}", detail=said)
            return bool(done)

        return self._dialect.write(work)

    def _give_up(self, run: RunRow) -> bool:
        def work(tx: Transaction) -> bool:
            locked = lock_run(tx, run.id, run.tenant)
            if locked is None or locked.state != RunState.READY or locked.started_us is not None:
                return False
            end_ready(tx, locked, Reason.QUEUE_TIMEOUT, actor="reaper")
            return True

        return self._dialect.write(work)

    def _settle(self, tx: Transaction, run: RunRow, fence: int, settlement: Settlement, report: Report) -> None:
        settlement = heeding(run, settlement)
        rows = tx.rows(
            "settle_run",
            id=run.id,
            fence=fence,
            state=settlement.state.value,
            reason=settlement.reason.value if settlement.reason else None,
            ready_us=to_us(settlement.ready_at) if settlement.ready_at else None,
            steps_back=settlement.reason is Reason.RETRY,
            refund=0 if settlement.uses_attempt else 1,
            resume=settlement.resume,
            exit_code=report.exit_code,
            cost_micro=report.cost_micro,
            summary=report.summary,
            log=report.log,
        )
        if not rows:
            raise LeaseLost(f"run {run.id} with fence {fence} is no longer running: it was settled or leased again.")
        _end_attempt(tx, run.id, fence, report)
        detail = {"state": settlement.state.value, "reason": settlement.reason, "fence": fence, "attempt": run.attempt}
        audit(tx, run.tenant, actor="settler", verb="settle", subject=f"run:{run.id}", detail=detail)
        if settlement.alarm:
            audit_alarm(tx, run, settlement, report, fence)
        put_notices(tx, end_notice(run, fence, settlement, report))
        if settlement.state.terminal:
            note_end(tx, run, settlement.state, ended_us=rows[0][0])
        else:
            tx.rows("announce", what="ready")


def audit_alarm(tx: Transaction, run: RunRow, settlement: Settlement, report: Report, fence: int) -> None:
    """Put down that a person should look; the decision says so once, when its bound is passed."""
    said = {"reason": settlement.reason, "last_log": report.last_log, "fence": fence}
    audit(tx, run.tenant, actor="settler", verb="alarm", subject=f"run:{run.id}", detail=said)


def heeding(run: RunRow, settlement: Settlement) -> Settlement:
    """Let a run that was asked to stop end, where it would otherwise have come back."""
    if settlement.state is not RunState.READY or run.stop is None:
        return settlement
    return Settlement(RunState.CANCELLED, Reason(run.stop), uses_attempt=settlement.uses_attempt)


def settled_before(tx: Transaction, run: RunRow, fence: int, report: Report) -> bool:
    """Tell whether this very attempt was settled with this very outcome; then write it again, to wait for the same disks.

    A synchronous standby may have missed the first answer; a commit that comes later in the log waits for both.
    """
    if run.state == RunState.RUNNING and run.fence == fence:
        return False
    rows = tx.rows("attempt_of", run_id=run.id, fence=fence)
    attempt = AttemptRow(*rows[0]) if rows else None
    if attempt is None or attempt.ended_us is None:
        return False
    if (attempt.outcome, attempt.exit_code) != (report.outcome, report.exit_code):
        return False
    _end_attempt(tx, run.id, fence, report)
    return True


def _end_attempt(tx: Transaction, run_id: str, fence: int, report: Report) -> None:
    tx.rows(
        "end_attempt",
        run_id=run_id,
        fence=fence,
        outcome=report.outcome,
        exit_code=report.exit_code,
        last_log=report.last_log,
        session=report.session,
        cost_micro=report.cost_micro,
        turns=report.turns,
        usage=report.usage,
    )


def _spend_once(tx: Transaction, run: RunRow) -> None:
    """Retire a schedule that shall run once, now that a run of its ticks starts."""
    if run.schedule is None or not TriggerKind(run.trigger).tick_born:
        return
    rows = tx.rows("definition_of", tenant=run.tenant, schedule=run.schedule)
    if not rows or not schedule_from_json(rows[0][0]).once:
        return
    lock_schedule(tx, run.tenant, run.schedule)
    for (cursor_us,) in tx.rows("spend_once", tenant=run.tenant, schedule=run.schedule):
        tx.rows("close_version", tenant=run.tenant, schedule=run.schedule, cursor_us=cursor_us)


def _was_started(tx: Transaction, run_id: str, fence: int) -> bool:
    rows = tx.rows("attempt_of", run_id=run_id, fence=fence)
    return bool(rows) and AttemptRow(*rows[0]).started_us is not None


def _is_lost(tx: Transaction, run: RunRow) -> bool:
    """Look again with everything locked that a renewal would need; a lease whose time is up is taken away now."""
    seen = tx.rows("lease_of", id=run.lease_id)
    if not seen:
        return True
    keys = keys_of(run.tenant, held_of(seen[0]).resources)
    tx.rows("lock_resources", keys=json.dumps(keys))
    rows = tx.rows("lock_lease", id=run.lease_id)
    if not rows or held_of(rows[0]).lost:
        return True
    held = held_of(rows[0])
    return held.expired and take_away(tx, held, why="expired")


def _still_ours(rows: list[Row], lease: Lease) -> None:
    if not rows:
        raise _lost(lease)


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"the lease on run {lease.run_id} with fence {lease.fence} is no longer held.")
