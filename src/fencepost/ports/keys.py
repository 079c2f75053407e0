"""What the web door asks of a store about keys; a key itself is never kept, only its hash."""

from typing import NamedTuple


class KeyRow(NamedTuple):
    """A key, a link or a session, without its secret half."""

    id: str
    tenant: str
    kind: str
    name: str
    role: str
    parent: str | None
    created_us: int
    created_by: str
    expires_us: int | None
    revoked_us: int | None
    all_tenants: bool = False  # an operator's: each request may name another tenant


class NewKey(NamedTuple):
    """What is to be kept of a new one."""

    id: str
    tenant: str
    kind: str
    name: str
    role: str
    hash: str
    parent: str | None = None
    expires_after_us: int | None = None
    all_tenants: bool = False
