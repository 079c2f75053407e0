"""Keys of the web door: make one, which is shown once; list them; end one; tell whose a key is."""

import os
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from fencepost.config.value_kinds import check_name
from fencepost.model.access import ID_BYTES, RANDOM_BYTES, Role, Secret, check_key_name, new_secret, read_secret
from fencepost.model.errors import Invalid, KeyReused, Unauthorised, Unknown
from fencepost.model.instants import MICROSECOND
from fencepost.ports.keys import KeyRow, NewKey

if TYPE_CHECKING:
    from fencepost.stores.keys import SqlKeys

LINK_NAME = "login link"
LINK_FOR = timedelta(hours=1)
SESSION_FOR = timedelta(hours=12)


class Made(NamedTuple):
    """A new key: its record, and the key itself, which is never seen again."""

    row: KeyRow
    secret: Secret


class KeyMade(NamedTuple):
    """The key that answers a request; one that the same request has made before cannot be shown again."""

    row: KeyRow
    secret: Secret | None


class Caller(NamedTuple):
    """Who asks."""

    key_id: str
    kind: str
    tenant: str
    role: Role
    name: str
    operator: bool = False  # may name another tenant with each request

    @property
    def actor(self) -> str:
        """How the audit names them."""
        return f"{self.kind}:{self.key_id}:{self.name}"


def create_key(
    keys: "SqlKeys",
    *,
    tenant: str,
    name: str,
    role: Role,
    by: str,
    expires_after: timedelta | None = None,
    all_tenants: bool = False,
) -> Made:
    """Make a key for a program; with `all_tenants` an operator's, which no door makes but the command line."""
    check_name(tenant)
    if all_tenants and role is Role.LEASE:
        raise Invalid("a key with the role lease keeps the leases of one tenant; make one for each.")
    return _make(
        keys,
        "key",
        tenant=tenant,
        name=check_key_name(name),
        role=role,
        by=by,
        expires_after=expires_after,
        all_tenants=all_tenants,
    )


def create_key_once(
    keys: "SqlKeys", request: str, *, tenant: str, name: str, role: Role, by: str, expires_after: timedelta | None
) -> KeyMade:
    """Make a key, once for each request; one with other wishes is refused with KeyReused."""
    made = _make_once(
        keys, "key", request, tenant=tenant, name=check_key_name(name), role=role, by=by, expires_after=expires_after
    )
    if (made.row.name, made.row.role) != (name, role.value):
        raise KeyReused("the Idempotency-Key was used for another key; use a new one.")
    return made


def create_link(keys: "SqlKeys", *, tenant: str, by: str, role: Role = Role.ADMIN) -> Made:
    """Make a link with which one browser logs in, once, within the hour."""
    check_name(tenant)
    return _make(keys, "link", tenant=tenant, name=LINK_NAME, role=role, by=by, expires_after=LINK_FOR)


def create_link_once(keys: "SqlKeys", request: str, *, tenant: str, by: str, role: Role) -> KeyMade:
    """Make a login link, once for each request; one for another role is refused with KeyReused."""
    made = _make_once(keys, "link", request, tenant=tenant, name=LINK_NAME, role=role, by=by, expires_after=LINK_FOR)
    if made.row.role != role.value:
        raise KeyReused("the Idempotency-Key was used for a link with another role; use a new one.")
    return made


def link_url(at: str, secret: Secret) -> str:
    """Spell where a browser logs in with a link, on the web server that is reached there."""
    return f"{at.rstrip('/')}/login?link={secret.text}"


def log_in(keys: "SqlKeys", text: str) -> Made:
    """Turn a link, which is used up, or a key into a session."""
    link = read_secret(text, "link")
    if link is None:
        return _session_of_key(keys, text)
    found = keys.key_in_force(link.id)
    if found is None or not link.is_hashed_as(found[1]):
        raise Unauthorised("the login link is not good: it was used, or its hour is over.")
    secret = new_secret("session", os.urandom(RANDOM_BYTES))
    row = keys.use_link(link.id, link.hash, _row(secret, found[0]))
    if row is None:
        raise Unauthorised("the login link is not good: it was used, or its hour is over.")
    return Made(row, secret)


def is_link(keys: "SqlKeys", text: str) -> bool:
    """Tell whether a link is still good, without using it up: browsers fetch links before they are clicked."""
    return _caller(keys, text, "link") is not None


def caller_of(keys: "SqlKeys", text: str, *, kind: str) -> Caller:
    """Return who has this key or session, or raise Unauthorised."""
    found = _caller(keys, text, kind)
    if found is None:
        raise Unauthorised("the key is not good.")
    return found


def is_in_force(keys: "SqlKeys", key_id: str) -> bool:
    """Tell whether a key or session, known by its id, is still good."""
    return keys.key_in_force(key_id) is not None


def revoke_key(keys: "SqlKeys", key_id: str, *, tenant: str, by: str) -> KeyRow:
    """End a key; sessions that came from it end with it."""
    row = keys.revoke_key(key_id, tenant=tenant, by=by)
    if row is None:
        raise Unknown(f"there is no key {key_id!r} that is good; see: fencepost key list")
    return row


def _session_of_key(keys: "SqlKeys", text: str) -> Made:
    secret = read_secret(text, "key")
    found = keys.key_in_force(secret.id) if secret else None
    if secret is None or found is None or not secret.is_hashed_as(found[1]):
        raise Unauthorised("the key is not good.")
    session = new_secret("session", os.urandom(RANDOM_BYTES))
    return Made(keys.put_key(_row(session, found[0]), by=f"key:{secret.id}"), session)


def _row(session: Secret, parent: KeyRow) -> NewKey:
    after_us = SESSION_FOR // MICROSECOND
    return NewKey(session.id, parent.tenant, "session", parent.name, parent.role, session.hash, parent.id, after_us)


def _caller(keys: "SqlKeys", text: str, kind: str) -> Caller | None:
    secret = read_secret(text, kind)
    found = keys.key_in_force(secret.id) if secret else None
    if secret is None or found is None or not secret.is_hashed_as(found[1]):
        return None
    row = found[0]
    if row.kind != kind:
        return None
    return Caller(row.id, row.kind, row.tenant, Role(row.role), row.name, operator=bool(row.all_tenants))


def _make(
    keys: "SqlKeys",
    kind: str,
    *,
    tenant: str,
    name: str,
    role: Role,
    by: str,
    expires_after: timedelta | None,
    all_tenants: bool = False,
) -> Made:
    secret = new_secret(kind, os.urandom(RANDOM_BYTES))
    after_us = None if expires_after is None else expires_after // MICROSECOND
    new = NewKey(secret.id, tenant, kind, name, role.value, secret.hash, None, after_us, all_tenants)
    return Made(keys.put_key(new, by=by), secret)


def _make_once(
    keys: "SqlKeys",
    kind: str,
    request: str,
    *,
    tenant: str,
    name: str,
    role: Role,
    by: str,
    expires_after: timedelta | None,
) -> KeyMade:
    """Make what a request asks for, or find what it has made before; its id tells of the request."""
    known = sha256(f"fencepost-{kind}-1:{tenant}\0{request}".encode()).digest()[:ID_BYTES]
    secret = new_secret(kind, known + os.urandom(RANDOM_BYTES - ID_BYTES))
    after_us = None if expires_after is None else expires_after // MICROSECOND
    made = keys.put_key_once(NewKey(secret.id, tenant, kind, name, role.value, secret.hash, None, after_us), by=by)
    if made is not None:
        return KeyMade(made, secret)
    found = keys.key(secret.id, tenant=tenant)
    if found is None:
        raise KeyReused("the Idempotency-Key was used before; use a new one.")
    return KeyMade(found, None)
