"""The ledger's verbs, written once for both dialects; each is one transaction.

The lease is locked before the entry, like every verb that locks both. A caller that gets an answer, even one that was
recorded before, holds its lease at that moment.
"""

from __future__ import annotations

from fencepost.model.effect_ledger import (
    AMBIGUOUS,
    COMPLETED,
    WHOLE_TENANT,
    Answered,
    EffectCall,
    Entry,
    New,
    Verdict,
    check_answer,
    check_key,
    doubt_of,
    is_in_doubt,
    judge,
)
from fencepost.model.errors import Busy, LeaseLost
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.lease_rows import check_not_moved, still_ours

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from fencepost.stores.transaction import Dialect, Row, Transaction

TRIES = 3

EVER_US = 2**63 - 1


class SqlLedger:
    """Effects recorded once, by key."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def begin(self, lease: Lease, call: EffectCall) -> Verdict:
        """Write the effect down as in progress, or say what is known of it; raise LeaseLost."""
        check_key(call.key)
        return self._dialect.write(lambda tx: _begin(tx, lease, call))

    def complete(self, lease: Lease, call: EffectCall, answer: str) -> None:
        """Record the answer of an effect that this call began, or raise LeaseLost if it is not its any more."""
        check_answer(answer)

        def work(tx: Transaction) -> None:
            if tx.rows("ledger_complete", **_of(lease, call), answer=answer):
                return
            entry = _entry(tx, lease.tenant, call.scope, call.key)
            known = entry is not None and entry.call == call.id and entry.state == COMPLETED and entry.answer == answer
            asked = tx.rows("ledger_asked", **_asked(lease, call)) if known else []
            _still_its(tx, asked, lease, call)

        self._dialect.write(work)

    def doubt(self, lease: Lease, call: EffectCall, why: str) -> None:
        """Record that this call cannot tell whether its effect took place, or raise LeaseLost."""
        values = {**_of(lease, call), "doubt": doubt_of(why)}
        self._dialect.write(lambda tx: _still_its(tx, tx.rows("ledger_doubt", **values), lease, call))

    def release(self, lease: Lease, call: EffectCall) -> None:
        """Forget an effect that certainly did not take place, or raise LeaseLost; asking again finds it forgotten."""

        def work(tx: Transaction) -> None:
            if tx.rows("ledger_release", **_of(lease, call)):
                return
            _hold(tx, lease)
            entry = _entry(tx, lease.tenant, call.scope, call.key)
            if entry is not None and entry.call == call.id:
                _still_its(tx, [], lease, call)

        self._dialect.write(work)

    def take_over(self, lease: Lease, call: EffectCall, seen: Entry) -> bool:
        """Begin an ambiguous effect anew, which a probe found not done; False if it has changed since it was seen."""

        def work(tx: Transaction) -> bool:
            _hold(tx, lease)
            if not _is_as_seen(tx, seen, {AMBIGUOUS}, lease):
                return False
            values = {**_of(lease, call), "run_id": lease.run_id, "seen": seen.call}
            done = bool(tx.rows("ledger_take_over", **values))
            if done:
                _audit(tx, seen, actor=f"run:{lease.run_id}", verb="ledger_probe", found="not done")
            return done

        return self._dialect.write(work)

    def settle_doubt(self, lease: Lease, seen: Entry, answer: str) -> bool:
        """Record the answer of an ambiguous effect, which a probe found done; False if it has changed meanwhile."""
        check_answer(answer)

        def work(tx: Transaction) -> bool:
            _hold(tx, lease)
            if not _is_as_seen(tx, seen, {AMBIGUOUS}, lease):
                return False
            by = f"probe of run:{lease.run_id}"
            values = {
                **_named(seen),
                "lease_id": lease.id,
                "fence": lease.fence,
                "epoch": lease.epoch,
                "seen": seen.call,
            }
            done = bool(tx.rows("ledger_settle_doubt", **values, answer=answer, by=by))
            if done:
                _audit(tx, seen, actor=f"run:{lease.run_id}", verb="ledger_probe", found="done")
            return done

        return self._dialect.write(work)

    def unreplayed(self, lease: Lease, scope: str) -> list[Entry]:
        """Return what earlier attempts in this scope have begun, and this one has not asked for again."""
        return self._dialect.read(lambda tx: list(_unreplayed(tx, lease, scope)))

    def entry(self, tenant: str, key: str, scope: str = WHOLE_TENANT) -> Entry | None:
        """Return one entry."""
        return self._dialect.read(lambda tx: _entry(tx, tenant, scope, key))

    def entries(
        self,
        tenant: str,
        *,
        scope: str | None = None,
        standing: str = "",
        after: tuple[int, str, str] = (EVER_US, "", ""),
        limit: int = 100,
    ) -> list[Entry]:
        """Return entries, newest first; of one scope, or of all; `after` is where an earlier page ended."""
        before_us, key, name = after
        values = {"tenant": tenant, "any_scope": scope is None, "scope": scope or "", "standing": standing}
        values |= {"before_us": before_us, "after_key": key, "after_scope": name}
        return self._dialect.read(
            lambda tx: [_entry_of(row) for row in tx.rows("ledger_entries", **values, limit=limit)]
        )

    def of_run(self, tenant: str, run_id: str, *, since_us: int, until_us: int, limit: int) -> list[Entry]:
        """Return what a run has begun in its time, newest first."""
        values = {"tenant": tenant, "run_id": run_id, "since_us": since_us, "until_us": until_us, "limit": limit}
        return self._dialect.read(lambda tx: [_entry_of(row) for row in tx.rows("ledger_of_run", **values)])

    def resolve(self, seen: Entry, *, answer: str | None, by: str) -> bool:
        """Let a person end an ambiguity: with its answer, or None to forget it; False if it has changed meanwhile.

        A completed entry may be forgotten too, so that its effect can be had once more on purpose.
        """
        if answer is not None:
            check_answer(answer)

        def work(tx: Transaction) -> bool:
            if not _is_as_seen(tx, seen, {AMBIGUOUS} if answer is not None else {AMBIGUOUS, COMPLETED}):
                return False
            if answer is None:
                done = tx.rows("ledger_forget", **_named(seen), seen=seen.call, state=seen.state)
            else:
                done = tx.rows("ledger_resolve", **_named(seen), seen=seen.call, answer=answer, by=by)
            found = "forgotten" if answer is None else "completed"
            _audit(tx, seen, actor=by, verb="ledger_resolve", found=found)
            return bool(done)

        return self._dialect.write(work)


def _begin(tx: Transaction, lease: Lease, call: EffectCall) -> Verdict:
    _hold(tx, lease)
    unreplayed = _unreplayed(tx, lease, call.scope) if call.strict else ()
    for _ in range(TRIES):
        tx.rows("lock_ledger", tenant=lease.tenant, scope=call.scope, key=call.key)
        entry = _entry(tx, lease.tenant, call.scope, call.key)
        verdict = judge(entry, call, lease_id=lease.id, run_id=lease.run_id, unreplayed=unreplayed)
        if entry is None and isinstance(verdict, New):
            if tx.rows("ledger_begin", **_of(lease, call), run_id=lease.run_id):
                return verdict
            continue  # another transaction was quicker and has committed by now: look at what it wrote
        if isinstance(verdict, New | Answered):
            tx.rows("ledger_asked", **_asked(lease, call))
        return verdict
    raise Busy(f"others begin and give up {call.key!r} all the time; try again.")


def _hold(tx: Transaction, lease: Lease) -> None:
    """Keep the lease from being given away until this is committed, or raise LeaseLost."""
    values = {"lease_id": lease.id, "fence": lease.fence, "epoch": lease.epoch, "tenant": lease.tenant}
    still_ours(tx, tx.rows("lock_ledger_lease", **values), lease)


def _is_as_seen(tx: Transaction, seen: Entry, standings: set[str], lease: Lease | None = None) -> bool:
    where = _named(seen)
    tx.rows("lock_ledger", **where)
    now = _entry(tx, seen.tenant, seen.scope, seen.key)
    if now is None or (now.call, now.state) != (seen.call, seen.state):
        return False
    return now.standing in standings or (lease is not None and is_in_doubt(now, lease_id=lease.id, run_id=lease.run_id))


def _unreplayed(tx: Transaction, lease: Lease, scope: str) -> tuple[Entry, ...]:
    rows = tx.rows("ledger_unreplayed", tenant=lease.tenant, scope=scope, fence=lease.fence)
    return tuple(_entry_of(row) for row in rows)


def _entry(tx: Transaction, tenant: str, scope: str, key: str) -> Entry | None:
    rows = tx.rows("ledger_entry", tenant=tenant, scope=scope, key=key)
    return _entry_of(rows[0]) if rows else None


def _entry_of(row: Row) -> Entry:
    return Entry(*row)._replace(lease_live=bool(row[-1]))


def _named(entry: Entry) -> dict[str, object]:
    return {"tenant": entry.tenant, "scope": entry.scope, "key": entry.key}


def _of(lease: Lease, call: EffectCall) -> dict[str, object]:
    """Spell what every write of a call matches on."""
    return {**_asked(lease, call), "call": call.id}


def _asked(lease: Lease, call: EffectCall) -> dict[str, object]:
    where = {"tenant": lease.tenant, "scope": call.scope, "key": call.key}
    return {**where, "lease_id": lease.id, "fence": lease.fence, "epoch": lease.epoch}


def _audit(tx: Transaction, entry: Entry, *, actor: str, verb: str, found: str) -> None:
    detail = {"scope": entry.scope, "found": found, "begun_by": entry.run_id, "fence": entry.fence}
    write_audit(tx, entry.tenant, actor=actor, verb=verb, subject=f"ledger:{entry.key}", detail=detail)


def _still_its(tx: Transaction, rows: list[Row], lease: Lease, call: EffectCall) -> None:
    if not rows:
        check_not_moved(tx, lease)
        raise LeaseLost(f"the ledger entry {call.key!r} is no longer this run's, whose fence is {lease.fence}: stop.")
