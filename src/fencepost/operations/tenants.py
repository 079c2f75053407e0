"""Which tenants a store knows: a slip in a name must not look like a tenant that never had a run."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.config.value_kinds import check_name, did_you_mean
from fencepost.model.errors import Unknown
from fencepost.operations.run_queries import Store

ALWAYS = "default"  # a caller that names no tenant has this one, from the first moment on
SHOWN_MAX = 20
LATE_US = 60 * 1_000_000  # so long after its instant an undecided tick is overdue


class TenantFigures(NamedTuple):
    """What a tenant has, in figures."""

    tenant: str
    schedules: int
    running: int
    waiting: int
    dead: int
    overdue: int


def standings(store: Store, names: Sequence[str] | None = None) -> list[TenantFigures]:
    """Return how tenants stand: those named, or all."""
    now_us = store.clock_us()
    found = []
    for name in store.registry().tenants() if names is None else names:
        pulse = store.reads(name).health(late_us=now_us - LATE_US)
        found.append(TenantFigures(name, pulse.schedules, pulse.running, pulse.ready, pulse.dead, pulse.overdue))
    return found


def check_tenant(store: Store, tenant: str) -> None:
    """Raise Invalid if there can be no such tenant, and Unknown if the store has nothing of it."""
    check_name(tenant)
    registry = store.registry()
    if tenant == ALWAYS or registry.has_tenant(tenant):
        return
    names = registry.tenants()
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    there = f" There are: {', '.join(names[:SHOWN_MAX])}{more}." if names else ""
    raise Unknown(
        f'{store.facts().url} holds nothing of a tenant "{tenant}".{did_you_mean(tenant, names) or there} '
        "A tenant begins with its first apply or its first key."
    )
