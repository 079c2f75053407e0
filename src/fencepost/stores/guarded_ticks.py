"""The ticks of crontab lines, in the transaction in which the lease of a guarded command is granted or ends."""

from fencepost.model import fast_json as json
from fencepost.model import tick_claim
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Sequence
from fencepost.model.lease import Claim, Held, Lease
from fencepost.model.tick_claim import ClaimFacts, Leave, Take, TickOrder, TickRecord

if TYPE_CHECKING:
    from fencepost.stores.transaction import Transaction


def decide_tick(tx: "Transaction", claim: Claim, blocking: Sequence[Held]) -> Take | Leave | None:
    """Decide about the claim's tick, and write down what there is; None: only the end of the lease in force will tell."""
    order = claim.tick
    assert order is not None, "it was asked for"
    ((_, clock_us, _),) = tx.rows("fence_facts")
    record = _record(tx, claim.tenant, claim.resources[0], order.job)
    holding = blocking[0].fence if blocking else None
    decided = tick_claim.decide(order, ClaimFacts(record, order.wall_us(), holding, clock_us))
    if not isinstance(decided, Leave):
        return decided
    if blocking and tick_claim.is_waited_for(order, decided):
        return None
    if decided.record is not None and not blocking:
        _put(tx, claim.tenant, claim.resources[0], decided.record)
    return decided


def over_here(order: TickOrder, holders: Collection[Held]) -> list[str]:
    """Return the leases that are known to be over, although the store was not told."""
    return [held.id for held in holders if tick_claim.has_ended(order, held.fence)]


def note_claim(tx: "Transaction", lease: Lease, claim: Claim, take: Take) -> Lease:
    """Write the claim down beside its lease."""
    record = take.record._replace(run=lease.run_id, host=claim.supervisor.host.name, fence=lease.fence)
    _put(tx, lease.tenant, lease.resources[0], tick_claim.started(record) if lease.started else record)
    return lease._replace(tick=take.granted)


def found_claim(tx: "Transaction", lease: Lease, order: TickOrder) -> Lease:
    """Return a lease that is granted once more with the tick that came with it."""
    record = _record(tx, lease.tenant, lease.resources[0], order.job)
    if record is None or record.fence != lease.fence:
        return lease
    return lease._replace(tick=tick_claim.granted_again(order, record))


def note_start(tx: "Transaction", lease: Lease) -> None:
    """Record that the command is about to start."""
    record = _of_lease(tx, lease)
    if record is not None:
        _move(tx, lease, tick_claim.started(record))


def note_end(tx: "Transaction", lease: Lease, *, well: bool) -> None:
    """Record how the run of a tick ended."""
    record = _of_lease(tx, lease)
    if record is not None:
        _move(tx, lease, tick_claim.ended(record, well=well))


def _of_lease(tx: "Transaction", lease: Lease) -> TickRecord | None:
    """Return the record that came with a lease; None if a later one has taken its place."""
    assert lease.tick is not None, "it was asked for"
    record = _record(tx, lease.tenant, lease.resources[0], lease.tick.job)
    return record if record is not None and record.fence == lease.fence else None


def _record(tx: "Transaction", tenant: str, resource: str, job: str) -> TickRecord | None:
    rows = tx.rows("tick_record", tenant=tenant, resource=resource, job=job)
    return tick_claim.record_of(json.loads(rows[0][0])) if rows else None


def _move(tx: "Transaction", lease: Lease, record: TickRecord) -> None:
    """Change the record of a lease's tick, if it is still the one of this lease."""
    values = {"tenant": lease.tenant, "resource": lease.resources[0], "job": record.job, "fence": lease.fence}
    tx.rows("move_tick_record", **values, record=json.dumps(record._asdict()))


def _put(tx: "Transaction", tenant: str, resource: str, record: TickRecord) -> None:
    values = {"tenant": tenant, "resource": resource, "job": record.job, "fence": record.fence}
    tx.rows("put_tick_record", **values, record=json.dumps(record._asdict()))
