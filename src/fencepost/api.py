"""The Python door: hold a lease from a program."""

import math
import os
import sys

from fencepost import wiring
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Busy, Invalid
from fencepost.model.lease import check_ttl, parse_resource, resource
from fencepost.service.command_order import Order
from fencepost.service.held_lease import HeldLease, hold

Duration = str | float


def lease(
    *names: str,
    ttl: Duration | None = None,
    wait: Duration | None = math.inf,
    holder: str | None = None,
    gates: tuple[str, ...] = (),
    tenant: str = "default",
    store: str | None = None,
) -> HeldLease:
    """Hold all of the named resources, waiting in line for them, and give them back at the end of the block.

    A name is a lock's, such as "nightly", or a resource's, such as "project:…". `wait` is how long to
    wait at most; None does not wait and raises Busy. Gates are raised before this returns. `ttl` is how long the
    lease lasts without a renewal; None is the store's own default, mostly 30 seconds.

        with lease("nightly") as held:
            work(fence=held.fence)
            held.check()  # raises LeaseLost when another holder may have it
    """
    if not names:
        raise Invalid('lease() holds nothing: name at least one lock or resource, as in lease("nightly").')
    url = wiring.exec_store_url(store)
    order = Order(
        argv=(),
        tenant=tenant,
        resources=tuple(parse_resource(name) if ":" in name else resource("lock", name) for name in names),
        label=os.path.basename(sys.argv[0] or "python"),
        ttl_seconds=check_ttl(wiring.default_ttl(url) if ttl is None else _seconds(ttl)),
        wait_seconds=None if wait is None else _seconds(wait),
        holder=holder,
        gates=tuple(wiring.open_gate(target).target for target in gates),
    )
    return hold(order, wiring.exec_tools(url), store_url=url)


def try_lease(
    *names: str,
    ttl: Duration | None = None,
    holder: str | None = None,
    gates: tuple[str, ...] = (),
    tenant: str = "default",
    store: str | None = None,
) -> HeldLease | None:
    """Hold the named resources if they are free, else return None at once."""
    try:
        return lease(*names, ttl=ttl, wait=None, holder=holder, gates=gates, tenant=tenant, store=store)
    except Busy:
        return None


def _seconds(duration: Duration) -> float:
    return parse_duration(duration) if isinstance(duration, str) else float(duration)
