"""What the web door asks of a store about keys; a key itself is never kept, only its hash."""

from typing import NamedTuple, Protocol


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


class KeyStore(Protocol):
    """Keys, each verb in one transaction, with its line in the audit."""

    def put_key(self, key: NewKey, *, by: str) -> KeyRow:
        """Keep a new key."""
        ...

    def put_key_once(self, key: NewKey, *, by: str) -> KeyRow | None:
        """Keep a new key; None if there is one with its id."""
        ...

    def key(self, key_id: str, *, tenant: str) -> KeyRow | None:
        """Return a key, good or not."""
        ...

    def use_link(self, link_id: str, link_hash: str, session: NewKey) -> KeyRow | None:
        """Use a link up for a session; None if somebody was quicker, or its time is over."""
        ...

    def key_in_force(self, key_id: str) -> tuple[KeyRow, str] | None:
        """Return a key that is good now, and its hash."""
        ...

    def keys(self, tenant: str, *, kind: str = "", before: tuple[int, str] = ..., limit: int) -> list[KeyRow]:
        """Return a tenant's keys, newest first; `before` is where an earlier page ended."""
        ...

    def revoke_key(self, key_id: str, *, tenant: str, by: str) -> KeyRow | None:
        """End a key, at once; None if there is none that is good."""
        ...
