"""All tables of a PostgreSQL store: what a backup goes through.

Their names come from the database's own list, never from outside; so SQL may be put together here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from fencepost.model.errors import Invalid
from fencepost.stores.postgres.server import Connection

# The queue's own tables are left out: the triggers of `run` make them anew, once no writer claims to have kept them.
NAMES = b"""
SELECT tablename FROM pg_catalog.pg_tables
 WHERE schemaname = 'fencepost' AND tablename NOT IN ('ready', 'running', 'served', 'dead')
 ORDER BY tablename
"""
# The reader of a backup must not be able to adopt what was under way.
ROWS = sql.SQL("SELECT to_jsonb(one) - 'kept' - 'adopt_key' FROM {table} AS one{which}")
LOCK = sql.SQL("LOCK TABLE {tables} IN EXCLUSIVE MODE")
CLEAR = sql.SQL("DELETE FROM {table}{which}")
# Which rows are a tenant's: by its name, or by the run that they tell of.
BY_TENANT = {
    "tenant": sql.SQL(" WHERE tenant = %s"),
    "run_id": sql.SQL(" WHERE run_id IN (SELECT id FROM fencepost.run_seen WHERE tenant = %s)"),
}
COLUMNS = b"SELECT column_name FROM information_schema.columns WHERE table_schema = 'fencepost' AND table_name = %s"
ADD = sql.SQL(
    "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE "
    "SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, %s::jsonb)"
)
COUNTERS = b"""
SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = 'fencepost' AND is_identity = 'YES'
"""
SETTLE = sql.SQL(
    "SELECT setval(pg_get_serial_sequence(%s, %s), greatest(1, (SELECT max({column}) FROM {table})), "
    "EXISTS (SELECT FROM {table}))"
)


class PostgresTables:
    """The tables behind one open transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Return the names of all tables."""
        return [name for (name,) in self._connection.execute(NAMES).fetchall()]

    def rows(self, table: str, tenant: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, or those of one tenant, one by one, as plain JSON values by column."""
        which, values = self._which(table, tenant)
        for (row,) in self._connection.cursor().stream(ROWS.format(table=_named(table), which=which), values):
            yield row

    def lock(self) -> None:
        """Let no other transaction write to any table until this one ends; readers go on."""
        self._connection.execute(LOCK.format(tables=sql.SQL(", ").join(map(_named, self.names()))))

    def clear(self, table: str, tenant: str | None = None) -> None:
        """Delete all rows of a table, or those of one tenant; those of its runs before the runs themselves."""
        which, values = self._which(table, tenant)
        self._connection.execute(CLEAR.format(table=_named(table), which=which), values)

    def _which(self, table: str, tenant: str | None) -> tuple[sql.SQL, list[str] | None]:
        if tenant is None:
            return sql.SQL(""), None
        columns = {name for (name,) in self._connection.execute(COLUMNS, [table]).fetchall()}
        named = next((spelled for name, spelled in BY_TENANT.items() if name in columns), None)
        return (named, [tenant]) if named else (sql.SQL(" WHERE false"), None)

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that have the same columns; those that are not named get their default."""
        columns = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
        try:
            self._connection.execute(ADD.format(table=_named(table), columns=columns), [json.dumps(rows)])
        except psycopg.errors.UndefinedColumn:
            raise Invalid(f"the backup has columns that the table {table} of this Fencepost does not have.") from None

    def settle(self) -> None:
        """Let counters go on above what was added."""
        for table, column in self._connection.execute(COUNTERS).fetchall():
            statement = SETTLE.format(table=_named(table), column=sql.Identifier(column))
            self._connection.execute(statement, [f"fencepost.{table}", column])


def _named(table: str) -> sql.Identifier:
    return sql.Identifier("fencepost", table)
