"""Leases."""

from datetime import datetime

from fencepost.operations.lease_admin import ListedLease
from fencepost.operations.records import Record, at


class LeaseRecord(Record):
    """A lease."""

    resource: str
    fence: int
    run_id: str
    host: str
    pid: int
    granted_at: datetime | None
    expires_at: datetime | None
    started_at: datetime | None
    tenant: str
    holder: str | None
    label: str
    renewals: int
    lost: bool


def lease_record(one: ListedLease) -> LeaseRecord:
    """Return a lease as every door gives it."""
    held = one.held
    return LeaseRecord(
        resource=one.resource,
        fence=held.fence,
        run_id=held.run_id,
        host=held.supervisor.host.name,
        pid=held.supervisor.pid,
        granted_at=at(held.granted_us),
        expires_at=at(held.expires_us),
        started_at=at(held.started_us),
        tenant=held.tenant,
        holder=held.holder,
        label=held.label,
        renewals=held.renewals,
        lost=held.lost,
    )
