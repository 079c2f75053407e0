"""The lane's verb: settle a batch of runs that ended and lease the next, in one transaction.

The first half waits for rows in the order schedule, run, resource, lease, each sorted, as every verb does. The second
half waits for nobody: what somebody else has locked is left to them. So a turn never stands in a circle of waiters.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from fencepost.model.lease import Lease, keys_of, still_owed
from fencepost.model.moment import to_us
from fencepost.model.notice import Notice
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Ended, LeasedRun, Turned, Wanted
from fencepost.stores.grants import Hunch, grant
from fencepost.stores.lane_offers import Key
from fencepost.stores.lease_rows import held_of
from fencepost.stores.notices import end_notices, put_notices
from fencepost.stores.run_rows import batch_entry, lock_schedule, note_end
from fencepost.stores.runs import SqlRuns, audit_alarm, heeding, settled_before
from fencepost.stores.transaction import Later, Row, Transaction


class SqlBatches(SqlRuns):
    """LaneStore's verbs over named statements."""

    _hunch: Hunch | None = None  # what the next turn will probably meet

    def turn(self, ended: Sequence[Ended], closing: Sequence[Lease], wanted: Wanted | None) -> Turned:
        """Settle what has ended, end leases that have no run left, and lease the next runs."""
        absent: set[Key] = set()

        def turned_by(end: Callable[[Transaction, Sequence[Ended], Sequence[Lease]], Callable[[], set[str]]]) -> Turned:
            def work(tx: Transaction) -> Turned:
                absent.clear()
                lost = end(tx, ended, closing)
                leased: tuple[LeasedRun, ...] = ()
                if wanted:
                    leased = tuple(grant(tx, wanted, store_id=self._store_id, absent=absent, hunch=self._hunch))
                return Turned(leased, tuple(sorted(lost())))

            return self._dialect.write(work, often=True)

        try:
            turned = turned_by(_end_as_expected if _is_plain(ended) else _end)
        except _Unexpected:  # nothing of it was written
            turned = turned_by(_end)
        if turned.leased:
            self._hunch = Hunch.of(turned.leased)
        if absent:  # made apart, because an insert may have to wait for another one
            self._dialect.write(lambda tx: tx.rows("ensure_resources", keys=json.dumps(sorted(absent))))
        return turned

    def stops_asked(self, lease: Lease) -> dict[str, str]:
        """Return which running runs of a batch shall stop, and why."""
        rows = self._dialect.read(lambda tx: tx.rows("stops_asked", lease_id=lease.id, fence=lease.fence))
        return {str(run_id): str(reason) for run_id, reason in rows}

    def lane_ready(self, limit: int) -> int:
        """Return how many runs wait for a lane, up to a limit."""
        ((ready,),) = self._dialect.read(lambda tx: tx.rows("lane_ready", limit=limit))
        return int(ready)


class _Settled(NamedTuple):
    """Runs that ended alike, a way to the rows that say so, and a way to what there is to tell of them."""

    group: Sequence[Ended]
    rows: Later
    notices: Callable[[], list[Notice]]


class _Unexpected(Exception):
    """What should have been ours was not."""


def _is_plain(ended: Sequence[Ended]) -> bool:
    """Tell whether all end for good, and hold nothing that others may want: then nothing has to be looked up before."""
    return bool(ended) and all(
        one.settlement.state.terminal and one.leased.run.schedule is None and one.clean and not _to_free(one)
        for one in ended
    )


def _end_as_expected(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease]) -> Callable[[], set[str]]:
    """Settle by fence and state alone, and look afterwards whether that was all: it nearly always is.

    Each row is written under its fence, and the leases are locked after the runs, as ever. Where one of them is not
    as it should be, the whole turn is undone, and done again with a look first.
    """
    leases = {one.leased.lease.id: one.leased.lease for one in ended} | {lease.id: lease for lease in closing}
    groups = _settle(tx, ended)
    rows = [(lease, tx.later("lock_lease", id=lease.id)) for lease in sorted(leases.values())]
    _close(tx, closing, ended)

    def lost() -> set[str]:
        if not all(_is_held(found(), lease) for lease, found in rows):
            raise _Unexpected
        for group, settled, notices in groups:
            if len(settled()) != len(group):
                raise _Unexpected
            put_notices(tx, notices())
        return set()

    return lost


def _end(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease]) -> Callable[[], set[str]]:
    """Settle what is still ours, and return a way to the runs that are not."""
    lost = _end_what_is_ours(tx, ended, closing)
    return lambda: lost


def _end_what_is_ours(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease]) -> set[str]:
    """Settle what is still ours, and return the runs that are not."""
    if not ended and not closing:
        return set()
    runs = {one.leased.run.id: one for one in ended}
    for tenant, schedule in sorted({(one.leased.run.tenant, one.leased.run.schedule or "") for one in ended}):
        if schedule:
            lock_schedule(tx, tenant, schedule)
    locked = tx.later("lock_runs", ids=json.dumps(sorted(runs)))
    leases = {one.leased.lease.id: one.leased.lease for one in ended} | {lease.id: lease for lease in closing}
    freed = {key for one in ended for key in _to_free(one)}
    if freed:
        tx.later("lock_resources", keys=json.dumps(sorted(freed)))
    rows = [(lease, tx.later("lock_lease", id=lease.id)) for lease in sorted(leases.values())]
    held = {lease.id for lease, found in rows if _is_held(found(), lease)}
    now = {row[0]: row[1:] for row in locked()}
    ours: list[Ended] = []
    others: list[Ended] = []
    for one in ended:
        (ours if _is_ours(one, now.get(one.leased.run.id), held) else others).append(one)
    groups = _settle(tx, [_heeding(one, now[one.leased.run.id][2]) for one in ours])
    _free(tx, ours)
    _close(tx, [lease for lease in closing if lease.id in held], ended)
    for group, settled, notices in groups:
        _note_ends(tx, group, settled())
        put_notices(tx, notices())
    return {one.leased.run.id for one in others if not _was_settled(tx, one, now)}


def _is_held(rows: Sequence[Row], lease: Lease) -> bool:
    return bool(rows) and not held_of(rows[0]).lost and held_of(rows[0]).fence == lease.fence


def _is_ours(one: Ended, now: Sequence[object] | None, held: set[str]) -> bool:
    lease = one.leased.lease
    return now is not None and lease.id in held and tuple(now[:2]) == (lease.fence, RunState.RUNNING.value)


def _was_settled(tx: Transaction, one: Ended, now: dict[str, tuple[object, ...]]) -> bool:
    """Tell whether an earlier turn, whose answer was lost, has settled this attempt in this very way."""
    run, fence = one.leased.run, one.leased.lease.fence
    if run.id not in now:
        return False
    found_fence, state, _ = now[run.id]
    seen = run._replace(state=str(state), fence=found_fence if isinstance(found_fence, int) else None)
    return settled_before(tx, seen, fence, one.report)


def _heeding(one: Ended, stop: object) -> Ended:
    if stop is None and one.leased.run.stop is None:
        return one
    asked = one.leased.run._replace(stop=None if stop is None else str(stop))
    return one._replace(settlement=heeding(asked, one.settlement))


def _settle(tx: Transaction, ended: Sequence[Ended]) -> list[_Settled]:
    """Write those down together that ended alike; most have."""
    if ended and all(_is_the_same(one, ended[0]) for one in ended):
        return [_settle_alike(tx, ended)]
    alike: dict[tuple[object, ...], list[Ended]] = defaultdict(list)
    for one in ended:
        never_began = not one.began and one.leased.run.started_us is None
        key = (one.leased.lease.fence, one.settlement, one.report, one.began, never_began)
        alike[key].append(one)
    return [_settle_alike(tx, group) for group in alike.values()]


def _is_the_same(one: Ended, other: Ended) -> bool:
    """Tell without a closer look whether two began, and ended alike: a lane that is in a hurry says so by one object."""
    return (
        one.settlement is other.settlement
        and one.report is other.report
        and one.began
        and other.began
        and one.leased.lease.fence == other.leased.lease.fence
    )


def _settle_alike(tx: Transaction, group: Sequence[Ended]) -> _Settled:
    first = group[0]
    settlement, report, fence = first.settlement, first.report, first.leased.lease.fence
    ids = json.dumps(sorted(one.leased.run.id for one in group))
    refund = 0 if settlement.uses_attempt else 1
    settled = tx.later(
        "settle_runs",
        ids=ids,
        lease_id=first.leased.lease.id,
        fence=fence,
        state=settlement.state.value,
        reason=settlement.reason.value if settlement.reason else None,
        ready_us=to_us(settlement.ready_at) if settlement.ready_at else None,
        steps_back=settlement.reason is Reason.RETRY,
        refund=refund,
        resume=settlement.resume,
        never_began=not first.began and first.leased.run.started_us is None,
        exit_code=report.exit_code,
        cost_micro=report.cost_micro,
        summary=report.summary,
        log=report.log,
    )
    values = {"outcome": report.outcome, "exit_code": report.exit_code, "last_log": report.last_log}
    tx.later("end_attempts", ids=ids, fence=fence, began=first.began, **values)
    _audit_settled(tx, group)
    if settlement.alarm:
        for one in group:
            audit_alarm(tx, one.leased.run, settlement, report, fence)
    if not settlement.state.terminal:
        tx.later("announce", what="ready")
    return _Settled(group, settled, end_notices(tx, group))


def _audit_settled(tx: Transaction, group: Sequence[Ended]) -> None:
    """Write down the decision once for all runs about which it says the same."""
    settlement, lease = group[0].settlement, group[0].leased.lease
    alike: dict[int, list[str]] = defaultdict(list)
    for one in group:
        alike[one.leased.run.attempt].append(one.leased.run.id)
    said = {"state": settlement.state.value, "reason": settlement.reason, "fence": lease.fence}
    entries = [
        batch_entry(lease.tenant, lease.id, ids, actor="settler", verb="settle", detail={**said, "attempt": attempt})
        for attempt, ids in alike.items()
    ]
    tx.later("write_audit", entries=json.dumps(entries))


def _note_ends(tx: Transaction, group: Sequence[Ended], rows: Sequence[Row]) -> None:
    """Tell the schedules of those that ended for good."""
    assert len(rows) == len(group), "the runs were locked while they were running"
    ended_us: dict[str, int] = dict(rows)
    for one in group:
        run, state = one.leased.run, one.settlement.state
        if run.schedule is not None and state.terminal:
            note_end(tx, run, state, ended_us=int(ended_us[run.id]))


def _to_free(one: Ended) -> list[Key]:
    """Return what others may want. Nobody ever asks again for a run that has ended, so that is left with its lease."""
    run, lease = one.leased.run, one.leased.lease
    if lease.resources == (f"run:{run.id}",) and not lease.gates and one.settlement.state.terminal:
        return []
    return keys_of(lease.tenant, lease.resources)


def _free(tx: Transaction, ended: Iterable[Ended]) -> None:
    groups: dict[tuple[str, int, str | None], list[Key]] = defaultdict(list)
    for one in ended:
        lease = one.leased.lease
        owed = json.dumps(still_owed(lease.gates, answered=one.report.answered)) if one.began and one.clean else None
        groups[lease.id, lease.fence, owed] += _to_free(one)
    for (lease_id, fence, owed), keys in groups.items():
        if keys:
            tx.later("free_resources", keys=json.dumps(sorted(keys)), id=lease_id, fence=fence, owed_gates=owed)


def _close(tx: Transaction, closing: Sequence[Lease], ended: Sequence[Ended]) -> None:
    """End leases without runs; one whose processes may still be about is kept as lost, for whoever comes next."""
    unclean = {one.leased.lease.id for one in ended if not one.clean}
    for lease in closing:
        if lease.id in unclean:
            tx.later("lose", id=lease.id, fence=lease.fence, why="ended with processes left")
        else:
            tx.later("forget_held", id=lease.id, fence=lease.fence)
