"""The rows that guarded commands leave, each written in the transaction in which their lease is granted, kept or ends."""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model.fast_typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from fencepost.model.lease import Claim, Held, Lease
    from fencepost.stores.transaction import Transaction

KEPT_US = 90 * 86_400 * 1_000_000
FORGET_EVERY, FORGOTTEN_AT_ONCE = 32, 64  # grants of a lock; more go than come
METER = "command:"  # and the state, or `refused`


def note_command(tx: Transaction, lease: Lease, predecessors: Iterable[Held]) -> None:
    """Open the row of a command that was granted its lease, and close those of its predecessors as lost."""
    tx.rows("note_command", id=lease.id, fence=lease.fence)
    if lease.fence % FORGET_EVERY == 0:
        tx.rows("forget_commands", tenant=lease.tenant, kept_us=KEPT_US, limit=FORGOTTEN_AT_ONCE)
    note_lost(tx, lease.tenant, predecessors)


def note_lost(tx: Transaction, tenant: str, gone: Iterable[Held | Lease]) -> None:
    """Close the rows of commands whose leases were lost before they told of their end."""
    ids = [(one.run_id, one.fence) for one in gone]
    lost = tx.rows("lose_commands", ids=json.dumps(ids)) if ids else ()
    if lost:
        _count(tx, tenant, "lost", len(lost))


def note_refusal(tx: Transaction, claim: Claim, holders: Iterable[Held]) -> None:
    """Count a command that came in vain, with the one that was in its way."""
    tx.rows("refuse_command", ids=json.dumps([(held.run_id, held.fence) for held in holders]))
    _count(tx, claim.tenant, "refused", 1)


def note_end(tx: Transaction, lease: Lease, code: int | None) -> None:
    """Close the row; one that never started leaves none."""
    if code is None:
        tx.rows("drop_command", run_id=lease.run_id, fence=lease.fence)
        return
    state = "succeeded" if code == 0 else "failed"
    tx.rows("end_command", run_id=lease.run_id, fence=lease.fence, state=state, exit_code=code)
    _count(tx, lease.tenant, state, 1)


def _count(tx: Transaction, tenant: str, what: str, number: int) -> None:
    tx.rows("count_command", tenant=tenant, name=f"{METER}{what}", number=number)
