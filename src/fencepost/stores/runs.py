"""The verbs of an attempt and its end: start, settle, reap, stop; and looking at runs.

Rows are locked in the order schedule, run, resource, lease by every verb, so that none waits for another in a circle.
"""

import json
from collections.abc import Sequence

from fencepost.model.errors import LeaseLost, LeaseMoved, StoreUnavailable
from fencepost.model.lease import LOST, MOVED, Lease, keys_of
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import AttemptRow, Completion, Ended, LeasedRun, Report, RunRow, Starting
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.earlier_attempts import checkpoint_of
from fencepost.stores.end_rows import End, note_terminal, write_ends
from fencepost.stores.lease_rows import held_of, still_ours
from fencepost.stores.leases import take_away
from fencepost.stores.past_runs import seen
from fencepost.stores.run_ends import end_runs, heeding
from fencepost.stores.run_leases import SqlRunLeases
from fencepost.stores.run_rows import end_ready, lock_run, run_of
from fencepost.stores.run_starts import start_all
from fencepost.stores.transaction import RowRefused, Transaction


class SqlRuns(SqlRunLeases):
    """The durable queue."""

    def start_runs(self, starting: Sequence[Starting]) -> dict[str, str]:
        """Record that these agents are about to start, in one transaction.

        Returns the runs that are no longer ours, each as `lost` or `moved`; nothing is written about them.
        """
        return self._dialect.write(lambda tx: start_all(tx, starting), often=True) if starting else {}

    def start_run(self, leased: LeasedRun, *, session: str | None = None) -> None:
        """Record that the agent is about to start, with its session if that is known, or raise LeaseLost."""
        _check(self.start_runs([Starting(leased.lease, leased.run, session)]), leased.lease)

    def settle_runs(self, ended: Sequence[Ended]) -> dict[str, str]:
        """Write down how attempts ended and give their leases back, in one transaction.

        Returns the runs about which nothing was written: `lost`, `moved`, or `failed: WHY` for one that the store
        refuses; that one is found by halving, and the others are settled all the same. A lease whose time is up, and
        that is still held, is settled. Asking again after an unknown answer finds an attempt settled, by its fence and
        its outcome.
        """
        if not ended:
            return {}
        try:
            _, lost = end_runs(self._dialect, ended, None, lambda _: None)
        except RowRefused as error:
            if len(ended) == 1:
                return {ended[0].leased.run.id: f"failed: {error}"}
            half = len(ended) // 2
            return self.settle_runs(ended[:half]) | self.settle_runs(ended[half:])
        return lost

    def settle(self, lease: Lease, settlement: Settlement, report: Report, *, clean: bool) -> None:
        """Write down how an attempt ended and give its lease back, or raise LeaseLost and change nothing."""
        run = self.run(lease.run_id, tenant=lease.tenant)
        if run is None:
            raise _lost(lease)
        _check(self.settle_runs([Ended(LeasedRun(run, lease, (), None), settlement, report, clean=clean)]), lease)

    def lost_runs(self, limit: int) -> list[RunRow]:
        """Return the runs that are marked running although their lease has no holder."""
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
            end = End(locked, run.lease_id or "", fence, heeding(locked, settlement), report)
            settled, notices = write_ends(tx, [end])
            note_terminal(tx, [end], settled())
            notices()
            return True

        return self._dialect.write(work)

    def give_up_waiting(self, limit: int) -> int:
        """End the runs that have waited too long for their first start; return how many."""
        overdue = self._dialect.read(lambda tx: [run_of(row) for row in tx.rows("overdue_runs", limit=limit)])
        return sum(self._give_up(run) for run in overdue)

    def checkpoint(self, run_id: str) -> str | None:
        """Return what the run's last attempt left for the next."""
        return self._dialect.read(lambda tx: checkpoint_of(tx, run_id))

    def put_checkpoint(self, lease: Lease, content: str) -> None:
        """Keep what a resumed run shall get back, or raise LeaseLost."""
        values = {"run_id": lease.run_id, "fence": lease.fence, "epoch": lease.epoch, "content": content}
        self._dialect.write(lambda tx: still_ours(tx, tx.rows("put_checkpoint", **values), lease))

    def note_session(self, lease: Lease, session: str) -> None:
        """Record which conversation the agent is in, so that it can be taken up again, or raise LeaseLost."""
        values = {"run_id": lease.run_id, "fence": lease.fence, "epoch": lease.epoch, "session": session}
        self._dialect.write(lambda tx: still_ours(tx, tx.rows("note_session", **values), lease))

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
        rows = self._dialect.read(lambda tx: seen(tx, "run", id=run_id, tenant=tenant))
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
                write_audit(tx, tenant, actor=by, verb="cancel", subject=f"run:{run.id}", detail={"state": run.state})
            return run

        return self._dialect.write(work)

    def discard(self, run_id: str, *, tenant: str, by: str, note: str = "") -> bool:
        """Take a dead letter off the desk; the run stays in the records."""
        said = {"note": note} if note else {}

        def work(tx: Transaction) -> bool:
            done = tx.rows("discard", id=run_id, tenant=tenant)
            if done:
                write_audit(tx, tenant, actor=by, verb="discard", subject=f"run:{run_id}", detail=said)
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


def _check(lost: dict[str, str], lease: Lease) -> None:
    """Raise if nothing was written about the run of a lease."""
    why = lost.get(lease.run_id)
    if why == MOVED:
        raise LeaseMoved(f"run {lease.run_id} with fence {lease.fence} is kept by another worker: it goes on there.")
    if why == LOST:
        raise _lost(lease)
    if why is not None:
        raise StoreUnavailable(f"the store does not take what became of run {lease.run_id}: {why}")


def _was_started(tx: Transaction, run_id: str, fence: int) -> bool:
    rows = tx.rows("attempt_of", run_id=run_id, fence=fence)
    return bool(rows) and AttemptRow(*rows[0]).started_us is not None


def _is_lost(tx: Transaction, run: RunRow) -> bool:
    """Look again with everything locked that a renewal would need; a lease whose time is up is taken away now."""
    seen = tx.rows("leases_named", ids=json.dumps([run.lease_id]))
    if not seen:
        return True
    keys = keys_of(run.tenant, held_of(seen[0]).resources)
    tx.rows("lock_resources", keys=json.dumps(keys))
    rows = tx.rows("lock_leases", ids=json.dumps([run.lease_id]))
    if not rows or held_of(rows[0]).lost:
        return True
    held = held_of(rows[0])
    return held.expired and take_away(tx, held, why="expired")


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"the lease on run {lease.run_id} with fence {lease.fence} is no longer held.")
