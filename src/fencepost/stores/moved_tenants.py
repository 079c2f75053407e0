"""A tenant that has left for another store: here it is on record, and nothing of it happens any more."""

from fencepost.model.errors import Misconfigured
from fencepost.model.instants import FOREVER_US, format_instant, from_us
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.transaction import Transaction

LEFT = "moved to another store"
KEY = "moved:{}"  # in `meta`, with the instant


def leave(tx: Transaction, tenant: str, *, actor: str) -> None:
    """Halt a tenant for good, and write down that it has left."""
    ((now_us,),) = tx.rows("store_clock_us")
    tx.rows("end_pauses", tenant=tenant, schedule="", now_us=now_us)
    halt = {"since_us": now_us, "until_us": FOREVER_US, "note": LEFT, "by_whom": actor}
    tx.rows("put_pause", tenant=tenant, schedule="", **halt)
    write_audit(tx, tenant, actor=actor, verb="send_away", subject=f"tenant:{tenant}", detail={})
    tx.rows("set_meta", key=KEY.format(tenant), value=format_instant(from_us(int(now_us))))


def come_back(tx: Transaction, tenant: str) -> None:
    """Let a tenant that was restored here go on, if it was halted in order to move."""
    tx.rows("drop_meta", key=KEY.format(tenant))
    tx.rows("end_move", tenant=tenant, note=LEFT)


def check_stays(tx: Transaction, tenant: str) -> None:
    """Raise Misconfigured if a tenant has left: what was done for it here would be lost."""
    for (since,) in tx.rows("meta", key=KEY.format(tenant)):
        raise Misconfigured(
            f"tenant {tenant} has left this store at {since} for another one, and a tenant never spans two. Name its new "
            f'store: stores = {{ {tenant} = "URL" }} in [fencepost], --store or FENCEPOST_STORE.'
        )
