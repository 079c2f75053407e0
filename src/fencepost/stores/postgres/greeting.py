"""A first look at a server: what it is, and whether promises can be kept on it."""

from typing import Any, NamedTuple

import psycopg

from fencepost.model.errors import StoreUnavailable
from fencepost.stores.postgres.server import Connection

OLDEST_VERSION = 13_00_00

LOOK = b"""
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
       current_setting('transaction_read_only') = 'on', current_setting('server_encoding'),
       current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
       EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'meta' AND relnamespace =
                      (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost'))
"""

# The timeline grows at every promotion. The name of the current WAL file knows at once; the control file only after
# the next checkpoint.
IDENTITY = b"""
SELECT system_identifier::text, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int::text
  FROM pg_control_system()
"""


class Sight(NamedTuple):
    """What a server says of itself."""

    version: int
    in_recovery: bool
    read_only: bool
    encoding: str
    durable: bool
    has_schema: bool


class Identity(NamedTuple):
    """Which cluster this is, on which timeline of its history; blank where this role may not know."""

    system: str
    timeline: str


def look(connection: Connection) -> Sight:
    """Ask a server what it is."""
    row = connection.execute(LOOK).fetchone()
    assert row is not None, "a SELECT without FROM has one row"
    texts: Any = (one.decode() if isinstance(one, bytes) else one for one in row)  # so SQL_ASCII gives its texts
    return Sight(*texts)


def identify(connection: Connection) -> Identity:
    """Ask a server which it is."""
    try:
        row = connection.execute(IDENTITY).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return Identity("", "")
    assert row is not None, "a cluster has one identity"
    return Identity(*row)


def refuse_unfit(url: str, sight: Sight, *, allow_lossy: bool) -> None:
    """Refuse a server on which promises cannot be kept."""
    if sight.version < OLDEST_VERSION:
        raise StoreUnavailable(f"{url} is PostgreSQL {sight.version // 10_000}; Fencepost needs 13 or newer.")
    if sight.in_recovery:
        raise StoreUnavailable(
            f"{url} is a standby, which cannot grant leases; name the primary, or list both hosts and add "
            "target_session_attrs=read-write."
        )
    if sight.read_only:
        raise StoreUnavailable(f"{url} is set read-only (default_transaction_read_only); Fencepost has to write there.")
    if not sight.durable and not allow_lossy:
        raise StoreUnavailable(
            f"{url} runs with fsync or full_page_writes off: a power cut could undo grants. Turn both on."
        )
    if sight.encoding != "UTF8":
        raise StoreUnavailable(
            f"{url} has the encoding {sight.encoding}; use a database that was created with ENCODING 'UTF8'."
        )
