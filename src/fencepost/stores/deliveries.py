"""Deliveries that share a run: each is known by its id, and all of one window make one run, in one transaction each."""

from collections.abc import Callable

from fencepost.model.webhook import held_until_us
from fencepost.ports.requests import Ask, Grounds, Placement
from fencepost.ports.webhooks import Delivered, Parcel
from fencepost.stores.requests import grounds_of, known_by_key, place_run, target_to_run
from fencepost.stores.run_rows import audit
from fencepost.stores.ticks import clock
from fencepost.stores.transaction import Dialect, Transaction


class SqlDeliveries:
    """Deliveries that share a run."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def deliver(self, ask: Ask, parcel: Parcel, decide: Callable[[Grounds], Placement]) -> Delivered:
        """Let a delivery join the run that its hook gathers for, or make one; a known one changes nothing."""

        def work(tx: Transaction) -> Delivered:
            target = target_to_run(tx, ask, None)  # locked: deliveries of one hook come one after the other
            known = _known(tx, ask, parcel, target.schedule or target.agent)
            if known is not None:
                return known
            now_us = clock(tx)
            joined = _join(tx, ask, parcel, now_us) if parcel.hold_us else None
            if joined is None:
                asked = place_run(tx, ask, decide(grounds_of(tx, ask, target, None)))
                joined = Delivered("accepted", asked.run.id, parcel.digest)
                if parcel.hold_us:
                    _gather(tx, ask.tenant, parcel.hook, joined.run_id, first_us=now_us, count=1)
            _remember(tx, ask.tenant, parcel, joined.run_id, now_us)
            return joined

        return self._dialect.write(work)


def _known(tx: Transaction, ask: Ask, parcel: Parcel, target: str) -> Delivered | None:
    """Find what came before, by its id; before the hook gathered, the run itself was known by it."""
    if not parcel.id:
        return None
    known = _remembered(tx, ask, parcel.hook, parcel.id)
    if known is None and ask.key and (run := known_by_key(tx, ask.tenant, target, ask.key)):
        known = Delivered("duplicate", run.id, parcel.digest_in(run.payload))
    return known or (_remembered(tx, ask, parcel.hook, _label(parcel)) if parcel.label else None)


def _remembered(tx: Transaction, ask: Ask, hook: str, name: str) -> Delivered | None:
    for run_id, digest in tx.rows("known_delivery", tenant=ask.tenant, hook=hook, id=name):
        tx.rows("touch_run", id=run_id)
        return Delivered("duplicate", run_id, digest)
    return None


def _label(parcel: Parcel) -> str:
    return f"label:{parcel.label}"


def _join(tx: Transaction, ask: Ask, parcel: Parcel, now_us: int) -> Delivered | None:
    for run_id, first_us, count in tx.rows("gathering", tenant=ask.tenant, hook=parcel.hook):
        ready_us = held_until_us(now_us, first_us, parcel.hold_us)
        payload = parcel.payload(count + 1)
        named = {"tenant": ask.tenant, "run_id": run_id}
        if tx.rows("join_gathering", **named, payload=payload, ready_us=ready_us, now_us=now_us):
            _gather(tx, ask.tenant, parcel.hook, run_id, first_us=first_us, count=count + 1)
            detail = {"hook": parcel.hook, "delivery": parcel.id, "count": count + 1}
            audit(tx, ask.tenant, actor=ask.by, verb="coalesce", subject=f"run:{run_id}", detail=detail)
            return Delivered("coalesced", run_id, parcel.digest)
    return None


def _gather(tx: Transaction, tenant: str, hook: str, run_id: str, *, first_us: int, count: int) -> None:
    tx.rows("put_gathering", tenant=tenant, hook=hook, run_id=run_id, first_us=first_us, count=count)


def _remember(tx: Transaction, tenant: str, parcel: Parcel, run_id: str, at_us: int) -> None:
    """Record the delivery's id; a run of a single delivery has that id as its own key."""
    for name in (parcel.id if parcel.hold_us else "", _label(parcel) if parcel.label else ""):
        if name:
            values = {"tenant": tenant, "hook": parcel.hook, "id": name, "digest": parcel.digest}
            tx.rows("put_delivery", **values, run_id=run_id, at_us=at_us)
