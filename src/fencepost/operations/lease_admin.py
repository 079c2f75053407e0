"""What may be asked about leases: who holds what, and taking one away by hand."""

from fencepost.model.errors import Invalid, Unknown
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.lease import Held
from fencepost.ports.store import LeaseStore


class ListedLease(NamedTuple):
    """One resource that is held."""

    resource: str
    held: Held


def list_leases(store: LeaseStore, tenant: str | None = None) -> list[ListedLease]:
    """Return what a tenant holds, oldest grant first, and who is in projects, which know no tenants; None: everything.

    Leases without a holder are left out.
    """
    return [
        ListedLease(name, held)
        for held in store.leases()
        if not held.lost and not held.expired
        for name in held.resources
        if tenant in (None, held.tenant) or name.startswith("project:")
    ]


def lost_leases(
    store: LeaseStore, tenant: str | None = None, *, resource: str = "", host: str = ""
) -> list[ListedLease]:
    """Return the resources of lost leases whose processes were not seen dead: of a tenant, a resource or a host."""
    return [
        ListedLease(name, held)
        for held in store.leases()
        if held.lost and host in ("", held.supervisor.host.name)
        for name in held.resources
        if (tenant in (None, held.tenant) or name.startswith("project:")) and resource in ("", name)
    ]


def forget_lost(
    store: LeaseStore, tenant: str | None, *, resource: str = "", host: str = "", on_this_machine: bool = False
) -> list[Held]:
    """Forget lost leases, on the word of a person that nothing of them runs any more; their gates stay raised.

    As with breaking: a user of the machine may forget those on projects, and a tenant only its own.
    """
    listed = lost_leases(store, tenant, resource=resource, host=host)
    mine = [one.held for one in listed if on_this_machine or one.held.tenant == tenant]
    found = list(dict.fromkeys(mine))
    if not found:
        what = f"from {host}" if host else f"on {resource}"
        raise Unknown(f"there is no lost lease {what}; see 'fencepost lease list --lost'.")
    for held in found:
        store.bury(held)
    return found


def leases_after(
    store: LeaseStore,
    tenant: str,
    after: "tuple[int, str] | None",
    *,
    resource: str = "",
    host: str = "",
    lost: bool = False,
) -> list[ListedLease]:
    """Return a tenant's held resources, or its lost ones, oldest grant first, from where an earlier page ended."""
    found = lost_leases(store) if lost else list_leases(store)
    mine = [one for one in found if one.held.tenant == tenant and resource in ("", one.resource)]
    mine = [one for one in mine if host in ("", one.held.supervisor.host.name)]
    return [one for one in sorted(mine, key=lease_place) if after is None or lease_place(one) > after]


def lease_place(one: ListedLease) -> "tuple[int, str]":
    """Return where a lease stands in the listing."""
    return one.held.granted_us, one.resource


def break_lease(store: LeaseStore, resource: str, *, tenant: str, why: str, on_this_machine: bool = False) -> Held:
    """Take a resource's lease from its holder, whose tree then dies at the next renewal or at takeover.

    Projects know no tenants; a user of the machine may break the leases on them, and a tenant only its own.
    """
    listed = list_leases(store, tenant)
    candidates = [
        one.held for one in listed if one.resource == resource and (on_this_machine or one.held.tenant == tenant)
    ]
    if not candidates:
        whose = "" if tenant == "default" else f" of tenant {tenant}"
        raise Unknown(f"there is no lease{whose} on {resource}; {_where_to_look(store, tenant, resource)}")
    held = candidates[0]
    if not store.break_lease(held, why=why):
        raise Invalid(f"{resource} changed hands just now; look again with 'fencepost lease list'.")
    return held


def _where_to_look(store: LeaseStore, tenant: str, resource: str) -> str:
    lost = lost_leases(store, tenant, resource=resource)
    if not lost:
        return "see 'fencepost lease list', also with --lost."
    host = lost[0].held.supervisor.host.name
    return f"it is lost already, on {host}. If nothing of it runs there: fencepost lease forget {resource}"


def forget_gate(store: LeaseStore, resource: str, gate: str, *, tenant: str) -> None:
    """Drop the debt to a gate that is gone for good."""
    if not store.forget_gate(tenant, resource, gate):
        raise Unknown(f"{resource} owes {gate} nothing.")


def forget_tick(store: LeaseStore, resource: str, job: str, *, tenant: str) -> None:
    """Throw away what is known of a crontab line's ticks, after a clock was wrong."""
    if not store.forget_tick(tenant, resource, job):
        raise Unknown(f"nothing is known of the ticks of {job} under {resource}.")
