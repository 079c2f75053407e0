"""The leaser's verb: which run is next, may it still start, and who gets it.

One transaction looks at one run that it has locked, and no more: whatever it finds out about it is committed before
the next is looked at. So it holds the rows of one schedule and one set of resources, and never waits in a circle.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fencepost.model.figures import SoFar
from fencepost.model.lease import Claim, Granted
from fencepost.model.project import Workplace, apart
from fencepost.model.run import Reason, RunState
from fencepost.model.usage import llm_tokens
from fencepost.ports.runs import LeasedRun, RunRow, Standing
from fencepost.ports.ticks import Counted
from fencepost.stores.run_rows import ScheduleRow, audit, end_ready, lock_schedule, run_of, try_schedule
from fencepost.stores.seats import take_seats
from fencepost.stores.ticks import MONTH_US, SqlTicks, clock, has_budget, has_time_budget
from fencepost.stores.transaction import Transaction
from fencepost.stores.workplaces import turns

HEADS = 20  # of a line that are looked at before the next line
LOOKS_MAX = 200  # at runs that could not start, before the worker is told to come again

ClaimOf = Callable[[RunRow], Claim | None]
Rechecked = Callable[[RunRow, Standing], Reason | None]


class _Passed(str):
    """The id of a run that was looked at and not leased."""

    __slots__ = ()


class SqlQueue(SqlTicks):
    """Leases the next run."""

    def lease_run(self, claim_of: ClaimOf, recheck: Rechecked, *, places: Sequence[Workplace] = ()) -> LeasedRun | None:
        """Lease the next run that may start, cancelling on the way those that may not any more; None: nothing to do."""
        passed: list[str] = []
        while len(passed) < LOOKS_MAX:
            answer = self._dialect.write(lambda tx: self._look(tx, passed, places, claim_of, recheck))
            if not isinstance(answer, _Passed):
                return answer
            passed.append(answer)
        return None

    def _look(
        self,
        tx: Transaction,
        passed: Sequence[str],
        places: Sequence[Workplace],
        claim_of: ClaimOf,
        recheck: Rechecked,
    ) -> LeasedRun | _Passed | None:
        """Take the first run that nobody else is busy with, or wait for the first of those."""
        busy: tuple[str, str, str] | None = None
        for run_id, tenant, schedule in _heads(tx, passed, places):
            facts = try_schedule(tx, tenant, schedule) if schedule is not None else None
            if schedule is not None and facts is None and _exists(tx, tenant, schedule):
                busy = busy or (run_id, tenant, schedule)
                continue
            answer = self._offer(tx, run_id, facts, claim_of, recheck)
            if schedule is not None or answer is not None:
                return answer or _Passed(run_id)
        if busy is None:
            return None
        run_id, tenant, schedule = busy
        return self._offer(tx, run_id, lock_schedule(tx, tenant, schedule), claim_of, recheck) or _Passed(run_id)

    def _offer(
        self, tx: Transaction, run_id: str, schedule: ScheduleRow | None, claim_of: ClaimOf, recheck: Rechecked
    ) -> LeasedRun | _Passed | None:
        """Look at a run, whose schedule is locked, for the last time before it starts; None: somebody else has it."""
        rows = tx.rows("try_run", id=run_id)
        if not rows:
            return None
        run = run_of(rows[0])
        standing = _standing(tx, run, schedule)
        if standing.halted or not _has_room(tx, run):
            return _Passed(run.id)
        reason = recheck(run, standing)
        if reason is not None:
            end_ready(tx, run, reason, actor="leaser")
            return _Passed(run.id)
        seated = take_seats(tx, run)
        claim = claim_of(seated) if seated else None
        return (self._take(tx, run, claim) if claim else None) or _Passed(run.id)

    def _take(self, tx: Transaction, run: RunRow, claim: Claim) -> LeasedRun | None:
        answer = self._acquire(tx, claim, dead=(), ticket=None)
        if not isinstance(answer, Granted):
            return None
        lease, worker = answer.lease, f"{claim.supervisor.host.name}:{claim.supervisor.pid}"
        taken = tx.rows("take_run", id=run.id, lease_id=lease.id, fence=lease.fence, worker=worker)
        assert taken, "the run was locked while it was ready"
        number = taken[0][0]
        tx.rows("insert_attempt", run_id=run.id, number=number, fence=lease.fence, worker=worker)
        detail = {"fence": lease.fence, "attempt": number, "worker": worker, "manifest_hash": run.manifest_hash}
        audit(tx, run.tenant, actor="leaser", verb="lease", subject=f"run:{run.id}", detail=detail)
        now = run._replace(
            state=RunState.RUNNING.value,
            reason=None,
            attempt=number,
            lease_id=lease.id,
            fence=lease.fence,
            worker=worker,
            stop=None,
        )
        session, so_far = _session(tx, run)
        kept = checkpoint_of(tx, run.id)
        return LeasedRun(now, lease, answer.predecessors, kept, session=session, so_far=so_far)


def checkpoint_of(tx: Transaction, run_id: str) -> str | None:
    """Return what the run's last attempt left for the next."""
    rows = tx.rows("checkpoint", run_id=run_id)
    return str(rows[0][0]) if rows else None


def _session(tx: Transaction, run: RunRow) -> tuple[str | None, SoFar]:
    """Return the conversation that a resumed run shall go on with, and what it came to so far."""
    rows = tx.rows("sessions_of", run_id=run.id) if run.resume else []
    if not rows:
        return None, SoFar()
    told = [(cost_micro, usage) for session, cost_micro, usage in rows if session == rows[0][0]]
    usage = sum((Counter(llm_tokens(text)) for _, text in told), Counter[str]())
    return str(rows[0][0]), SoFar(sum(cost_micro or 0 for cost_micro, _ in told), tuple(sorted(usage.items())))


def _heads(
    tx: Transaction, passed: Sequence[str], places: Sequence[Workplace]
) -> Iterator[tuple[str, str, str | None]]:
    """Yield whose turn it is: tenants in turn, within a tenant by priority, then who has been ready longest.

    Within a project it is first come, first served, whoever the tenant.
    """
    project = {"turns": json.dumps(turns(tx, places, passed)), "apart": json.dumps(apart(places))}
    for tenant, rank in tx.rows("ready_lines"):
        values = {"tenant": tenant, "rank": rank, "passed": json.dumps(passed), "limit": HEADS, **project}
        for run_id, schedule in tx.rows("line_heads", **values):
            yield run_id, tenant, schedule


def _exists(tx: Transaction, tenant: str, schedule: str) -> bool:
    return bool(tx.rows("definition_of", tenant=tenant, schedule=schedule))


def _standing(tx: Transaction, run: RunRow, schedule: ScheduleRow | None) -> Standing:
    now_us = clock(tx)
    keys = json.dumps([(run.tenant, run.schedule or "")])
    pauses = [row for row in tx.rows("pauses_since", schedules=keys, since_us=now_us) if row[2] <= now_us]
    return Standing(
        now_us=now_us,
        definition=schedule.definition if schedule else None,
        in_force=schedule.in_force if schedule else _agent_in_force(tx, run),
        paused=any(row[1] == run.schedule for row in pauses if run.schedule),
        halted=any(row[1] == "" for row in pauses),
        once_done=schedule.once_done if schedule else False,
        spending=spending_beside(tx, run, schedule, now_us),
    )


def _agent_in_force(tx: Transaction, run: RunRow) -> bool:
    """Tell whether a run without a schedule may run; one whose schedule is gone without a trace may not."""
    return run.schedule is None and bool(tx.rows("agent_in_force", tenant=run.tenant, agent=run.agent))


def spending_beside(tx: Transaction, run: RunRow, schedule: ScheduleRow | None, now_us: int) -> tuple[Counted, ...]:
    """Return what counts against a budget beside this run; nothing where there is no budget."""
    if schedule is None or not has_budget(schedule.definition, run.manifest):
        return ()
    rows = tx.rows(
        "spending_beside",
        tenant=run.tenant,
        schedule=run.schedule,
        since_us=min(now_us, run.counted_us) - MONTH_US,
        id=run.id,
        counted_us=run.counted_us,
        timed=has_time_budget(schedule.definition),
    )
    return tuple(Counted(*row) for row in rows)


def _has_room(tx: Transaction, run: RunRow) -> bool:
    """Keep to the schedule's bound on every path, also for what lines up or comes back after a loss."""
    if run.schedule is None:
        return True
    ((running,),) = tx.rows("running_of", tenant=run.tenant, schedule=run.schedule)
    return bool(running < run.lease_max)
