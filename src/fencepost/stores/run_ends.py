"""How attempts end: written down in batches, each by its fence and the epoch of its lease.

Rows are locked in the order schedule, run, resource, lease, each sorted, as every verb does that waits for them.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from fencepost.model.lease import HELD, LOST, Held, Lease, fate_of, keys_of, owed_after
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.alike_runs import AlikeEnds
from fencepost.ports.alike_runs import leases_of as leases_in
from fencepost.ports.runs import AttemptRow, Ended, RunRow
from fencepost.stores.end_rows import groups_of, note_terminal, write_ends
from fencepost.stores.lease_rows import freed, kept, leases_of, storable
from fencepost.stores.leases import LEFT_BEHIND
from fencepost.stores.transaction import Dialect, Transaction

T = TypeVar("T")
Lost = dict[str, str]  # runs about which nothing was written, and why


class Unexpected(Exception):
    """A lease or a run was not as its keeper had it; nothing of the transaction may stay."""


def end_runs(
    dialect: Dialect, ended: Sequence[Ended], closing: Sequence[Lease] | None, beside: Callable[[Transaction], T]
) -> tuple[T, Lost]:
    """Settle what has ended and end leases, with the rest that is to be done in the same transaction.

    `closing` names the leases that have no run left; None: each run has its own, which ends with it. A run that is
    not ours any more is left alone and named; the others are settled all the same.
    """

    def carry_out(end: Callable[[Transaction], Callable[[], Lost]]) -> tuple[T, Lost]:
        def work(tx: Transaction) -> tuple[T, Lost]:
            lost = end(tx)
            answer = beside(tx)
            return answer, lost()

        return dialect.write(work, often=True)

    if _is_plain(ended):
        try:
            return carry_out(lambda tx: _end_as_expected(tx, ended, closing))
        except Unexpected:  # nothing of it was written
            pass
    return carry_out(lambda tx: _end(tx, ended, closing))


def _is_plain(ended: Sequence[Ended]) -> bool:
    """Tell whether all end for good, and owe no gate its fence: then nothing has to be looked up before."""
    if isinstance(ended, AlikeEnds):
        return ended.settlement.state.terminal
    settlements = {id(one.settlement): one.settlement for one in ended}  # few are different
    return (
        bool(ended)
        and all(settlement.state.terminal for settlement in settlements.values())
        and all(
            one.leased.run.schedule is None and one.clean and not (one.leased.lease.gates or one.leased.lease.fenced)
            for one in ended
        )
    )


def _end_as_expected(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease] | None) -> Callable[[], Lost]:
    """Settle by fence and state alone, and look afterwards whether that was all: it nearly always is.

    Each row is written under its fence, and the leases are locked after the runs, as ever. Where one of them is not
    as it should be, all of it is undone, and done again with a look first.
    """
    leases = _leases(ended, closing or ())
    settled, notices = write_ends(tx, ended)
    if gone := _freed(ended, closing):
        _lock(tx, ended, closing)
        tx.later("free_resources", freed=json.dumps(gone))
    locked = tx.later("lock_leases", ids=json.dumps(sorted(leases)))
    _close(tx, list(leases.values()) if closing is None else closing, unclean=())

    def lost() -> Lost:
        held = {one.id: one for one in leases_of(locked())}
        if any(fate_of(lease, held.get(lease.id)) != HELD for lease in leases.values()) or len(settled()) < len(ended):
            raise Unexpected
        notices()
        return {}

    return lost


def _end(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease] | None) -> Callable[[], Lost]:
    """Settle what is still ours, and return a way to the runs that are not."""
    if not ended and not closing:
        return dict
    ids = json.dumps(sorted({one.leased.run.id for one in ended}))
    leases = _leases(ended, closing or ())
    tx.later("lock_schedules_of", ids=ids)
    locked = tx.later("lock_runs", ids=ids)
    _lock(tx, ended, closing)
    found = tx.later("lock_leases", ids=json.dumps(sorted(leases)))
    held = {one.id: one for one in leases_of(found())}
    now = {row[0]: row[1:] for row in locked()}
    fates = [
        fate_of_attempt(one.leased.lease, held.get(one.leased.lease.id), now.get(one.leased.run.id)) for one in ended
    ]
    ours = [one for one, fate in zip(ended, fates, strict=True) if fate == HELD]  # of two attempts at a run one at most
    if ours:
        _write_ours(tx, [_heeding(one, now[one.leased.run.id][2]) for one in ours], held, closing)
    still = [lease for lease in closing or () if fate_of(lease, held.get(lease.id)) == HELD]
    unclean = {one.leased.lease.id for one in ended if not one.clean}
    _close(tx, [one.leased.lease for one in ours] if closing is None else still, unclean)
    others = [(one, fate) for one, fate in zip(ended, fates, strict=True) if fate != HELD]
    lost = {one.leased.run.id: fate for one, fate in others if not _was_settled(tx, one, now.get(one.leased.run.id))}
    return lambda: lost


def fate_of_attempt(lease: Lease, held: Held | None, now: Sequence[object] | None) -> str:
    """Say whether an attempt is still its keeper's, by the rows of its lease and of its run, which are locked."""
    fate = fate_of(lease, held)
    is_running = now is not None and tuple(now[:2]) == (lease.fence, RunState.RUNNING.value)
    return LOST if fate == HELD and not is_running else fate


def _freed(ended: Sequence[Ended], closing: Sequence[Lease] | None) -> list[dict[str, object]]:
    if isinstance(ended, AlikeEnds) and closing is not None:
        return []  # each had only itself, and has ended for good
    return [row for one in ended if _frees(one, closing) for row in freed(one.leased.lease, None)]


def _leases(ended: Sequence[Ended], closing: Sequence[Lease]) -> dict[str, Lease]:
    runs = ended.runs if isinstance(ended, AlikeEnds) else [one.leased for one in ended]
    return leases_in(runs) | {lease.id: lease for lease in closing}


def _write_ours(
    tx: Transaction, ended: Sequence[Ended], held: dict[str, Held], closing: Sequence[Lease] | None
) -> None:
    settled, notices = write_ends(tx, ended)
    _free(tx, ended, held, closing)
    rows = settled()
    assert len(rows) == len(ended), "the runs were locked while they were running"
    note_terminal(tx, ended, rows)
    notices()


def _heeding(one: Ended, stop: object) -> Ended:
    asked = one.leased.run._replace(stop=None if stop is None else str(stop))
    return one._replace(settlement=heeding(asked, one.settlement))


def heeding(run: RunRow, settlement: Settlement) -> Settlement:
    """Let a run that was asked to stop end, where it would otherwise have come back."""
    if settlement.state is not RunState.READY or run.stop is None:
        return settlement
    return Settlement(RunState.CANCELLED, Reason(run.stop), uses_attempt=settlement.uses_attempt)


def _was_settled(tx: Transaction, one: Ended, now: Sequence[object] | None) -> bool:
    """Tell whether this attempt was settled in this very way, and the answer lost; then write it again.

    A synchronous standby may have missed the first answer; a commit that comes later in the log waits for both.
    """
    lease, report = one.leased.lease, one.report
    if now is None or tuple(now[:2]) == (lease.fence, RunState.RUNNING.value):
        return False
    rows = tx.rows("attempt_of", run_id=one.leased.run.id, fence=lease.fence)
    attempt = AttemptRow(*rows[0]) if rows else None
    if attempt is None or attempt.ended_us is None:
        return False
    if (attempt.outcome, attempt.exit_code) != (storable(report.outcome), report.exit_code):
        return False
    tx.rows("end_attempts", ended=json.dumps(groups_of([one])))
    return True


def _frees(one: Ended, closing: Sequence[Lease] | None) -> bool:
    """Tell whether others may want what an attempt had.

    No worker asks again for a run that has ended. Lanes are in a hurry: what is only that is left with their lease.
    """
    if closing is None:
        return True
    lease = one.leased.lease
    is_itself = lease.resources == (f"run:{one.leased.run.id}",) and not lease.gates
    return not is_itself or one.settlement.state is RunState.READY


def _lock(tx: Transaction, ended: Sequence[Ended], closing: Sequence[Lease] | None) -> None:
    """Lock what is to be let go of, in the order in which all transactions do."""
    leases = [one.leased.lease for one in ended if _frees(one, closing) or one.leased.lease.fenced]
    keys = {key for lease in leases for key in keys_of(lease.tenant, (*lease.resources, *lease.fenced))}
    if keys:
        tx.later("lock_resources", keys=json.dumps(sorted(keys)))


def _free(tx: Transaction, ended: Sequence[Ended], held: dict[str, Held], closing: Sequence[Lease] | None) -> None:
    """Let go of what the attempts' leases are on, and settle what is owed to gates by those that ended well."""
    gone: list[dict[str, object]] = []
    for one in ended:
        lease = one.leased.lease
        settled = one.clean and one.began and held[lease.id].started_us is not None
        if _frees(one, closing):
            owed = owed_after(lease, settled=settled, clean=one.clean, answered=one.report.answered)
            gone += freed(lease, owed)
        if settled and lease.fenced:
            places = json.dumps(keys_of(lease.tenant, lease.fenced))
            tx.later("settle_places", keys=places, fence=lease.fence)
    if gone:
        tx.later("free_resources", freed=json.dumps(gone))


def _close(tx: Transaction, closing: Sequence[Lease], unclean: Collection[str]) -> None:
    """End leases without runs; one whose processes may still be about is kept as lost, for the next holder."""
    left = [lease for lease in closing if lease.id in unclean]
    clean = [lease for lease in closing if lease.id not in unclean]
    if left:
        tx.later("lose_leases", leases=kept(left), why=LEFT_BEHIND)
    if clean:
        tx.later("forget_leases", leases=kept(clean))
