"""Brings a database to the schema of this program, one transaction for each migration, however many try at once."""

from collections.abc import Callable
from contextlib import suppress

import psycopg

from fencepost.model.errors import StoreUnavailable
from fencepost.stores import sql
from fencepost.stores.postgres.dialect import PATIENT, TRIES, PostgresTransaction, begin_writing, commit
from fencepost.stores.postgres.server import Connection
from fencepost.stores.schema import missing_migrations, unheard

# Held to the end of the transaction, so it also works behind a transaction pooler. The number only has to be ours.
ONE_AT_A_TIME = b"SELECT pg_advisory_xact_lock(5063813170453897283)"
HAS_NAMESPACE = b"SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost'"
HAS_META = b"SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'fencepost' AND tablename = 'meta'"


def newest_schema() -> int:
    """Return the schema that this program brings a store to."""
    return max(number for number, _ in sql.migrations(__file__))


def migrate(
    connection: Connection, url: str, *, new_id: str, progress: Callable[[int, int], None] = unheard
) -> tuple[int, int]:
    """Apply every migration that is missing; return the schema before and after. `new_id` names a new store.

    A new store is made in one transaction. One that is in use gets one for each migration, so that its workers wait for
    no more than one at a time, and a migration that is cut off goes on where it was; each leaves a whole schema.
    """
    before, after = _migrate_next(connection, url, new_id)
    while after < newest_schema():
        progress(after, newest_schema())
        _, after = _migrate_next(connection, url, new_id)
    return before, after


def _migrate_next(connection: Connection, url: str, new_id: str) -> tuple[int, int]:
    """Apply the next migration, or all of them to a new store; return the schema before and after.

    Workers that go on meanwhile lock the same tables in another order: where that ends in a circle, nothing has
    changed, and it is tried again.
    """
    for _ in range(TRIES - 1):
        with suppress(psycopg.errors.DeadlockDetected):
            return _migrate_once(connection, url, new_id)
    return _migrate_once(connection, url, new_id)


def _migrate_once(connection: Connection, url: str, new_id: str) -> tuple[int, int]:
    connection.silence_seconds = PATIENT.silence_seconds
    connection.execute(begin_writing(PATIENT))
    try:
        connection.execute(ONE_AT_A_TIME)
        before, after = _apply(connection, new_id)
        commit(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        connection.execute(b"ROLLBACK")
        raise StoreUnavailable(
            f"{url} has no tables of schema {newest_schema()}, and this role may not create them "
            f"({error.diag.message_primary}); have the owner run: fencepost store migrate"
        ) from None
    except psycopg.errors.DeadlockDetected:
        connection.execute(b"ROLLBACK")
        raise
    except BaseException:
        connection.close()
        raise
    return before, after


def _apply(connection: Connection, new_id: str) -> tuple[int, int]:
    tx = PostgresTransaction(connection)
    before = after = _schema(connection, tx)
    if not connection.execute(HAS_NAMESPACE).rowcount:
        connection.execute(b"CREATE SCHEMA fencepost")
    for number, script in missing_migrations(__file__, before):
        connection.execute(script.encode())
        tx.rows("set_meta", key="schema", value=str(number))
        after = number
    if not before:
        tx.rows("set_meta", key="store_id", value=new_id)
        tx.rows("set_meta", key="fence_high", value="0")
    return before, after


def _schema(connection: Connection, tx: PostgresTransaction) -> int:
    if not connection.execute(HAS_META).rowcount:
        return 0
    ((found,),) = tx.rows("meta", key="schema")
    return int(found)
