"""Keys and login links."""

from datetime import datetime
from typing import Annotated

from fencepost.operations.records import Record, at, fields_of
from fencepost.operations.web_keys import KeyMade, Made
from fencepost.ports.keys import KeyRow


class KeyRecord(Record):
    """A key, without its secret half."""

    id: str
    tenant: str
    kind: str
    name: str
    role: str
    all_tenants: bool
    created_at: datetime | None
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


def key_record(row: KeyRow) -> KeyRecord:
    """Return a key as every door gives it."""
    return KeyRecord(
        id=row.id,
        tenant=row.tenant,
        kind=row.kind,
        name=row.name,
        role=row.role,
        all_tenants=bool(row.all_tenants),
        created_at=at(row.created_us),
        created_by=row.created_by,
        expires_at=at(row.expires_us),
        revoked_at=at(row.revoked_us),
    )


class NewKeyRecord(KeyRecord):
    """A new key, which is shown this once."""

    key: Annotated[str | None, "null if the same request has made it before: it is shown only once"]


def new_key_record(made: Made | KeyMade) -> NewKeyRecord:
    """Return a new key with its secret half."""
    return NewKeyRecord(**fields_of(key_record(made.row)), key=made.secret.text if made.secret else None)


class NewLinkRecord(KeyRecord):
    """A new login link, which is shown this once."""

    url: Annotated[str | None, "null if the same request has made it before: it is shown only once"]


def new_link_record(made: Made | KeyMade, url: str | None) -> NewLinkRecord:
    """Return a new link with the address where a browser logs in."""
    return NewLinkRecord(**fields_of(key_record(made.row)), url=url)
