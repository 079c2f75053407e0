"""All tables of an SQLite store: what a backup goes through.

Their names come from the database's own list, never from outside; so SQL may be put together here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from fencepost.model.errors import Invalid

LEFT_OUT = "adopt_key"  # the reader of a backup must not be able to adopt what was under way
NONE = " WHERE false"
OF_RUNS = " WHERE run_id IN (SELECT id FROM run WHERE tenant = ? UNION ALL SELECT id FROM past_run WHERE tenant = ?)"
BYTES = "\\x"  # how a backup begins the hexadecimal text of bytes, as PostgreSQL does


class SqliteTables:
    """The tables behind one open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """Return the names of all tables."""
        query = (
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
        )
        return [str(name) for (name,) in self._connection.execute(query)]

    def rows(self, table: str, tenant: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, or those of one tenant, one by one, as plain JSON values by column."""
        columns = [name for name in self._columns(table) if name != LEFT_OUT]
        names = ", ".join(map(_quoted, columns))
        which, values = self._which(table, tenant)
        query = f"SELECT {names} FROM {_quoted(table)}{which}"  # noqa: S608 - see above
        for row in self._connection.execute(query, values):
            yield dict(zip(columns, map(_plain, row), strict=True))

    def lock(self) -> None:
        """Do nothing: the whole file is locked already."""

    def clear(self, table: str, tenant: str | None = None) -> None:
        """Delete all rows of a table, or those of one tenant; those of its runs before the runs themselves."""
        which, values = self._which(table, tenant)
        self._connection.execute(f"DELETE FROM {_quoted(table)}{which}", values)  # noqa: S608 - see above

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that have the same columns; those that are not named get their default."""
        kinds = self._columns(table)
        columns = list(rows[0])
        if not set(columns) <= set(kinds):
            raise Invalid(f"the backup has columns that the table {table} of this Fencepost does not have.")
        names = ", ".join(map(_quoted, columns))
        statement = f"INSERT INTO {_quoted(table)} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608  # names are quoted, values are parameters
        values = [tuple(_stored(row[name], kinds[name]) for name in columns) for row in rows]
        self._connection.executemany(statement, values)

    def settle(self) -> None:
        """Do nothing: SQLite's counters follow what is inserted."""

    def _which(self, table: str, tenant: str | None) -> tuple[str, tuple[str, ...]]:
        """Spell which rows are a tenant's: by its name, or by the run that they tell of."""
        if tenant is None:
            return "", ()
        columns = self._columns(table)
        if "tenant" in columns:
            return " WHERE tenant = ?", (tenant,)
        return (OF_RUNS, (tenant, tenant)) if "run_id" in columns else (NONE, ())

    def _columns(self, table: str) -> dict[str, str]:
        query = "SELECT name, type FROM pragma_table_info(?)"
        return {str(name): str(kind) for name, kind in self._connection.execute(query, (table,))}


def _plain(value: object) -> object:
    return f"{BYTES}{value.hex()}" if isinstance(value, bytes) else value


def _stored(value: Any, kind: str) -> Any:  # noqa: ANN401 - whatever a column holds
    return bytes.fromhex(value.removeprefix(BYTES)) if kind == "BLOB" and value is not None else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
