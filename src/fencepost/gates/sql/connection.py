"""One way to talk to a database, whatever the program holds: sqlite3, apsw, psycopg, psycopg2 or SQLAlchemy."""

from typing import Any, Protocol

from fencepost.model.errors import Misconfigured

IDLE = 0  # libpq's word for: no transaction is open
KNOWN = "sqlite3, apsw, psycopg, psycopg2 and SQLAlchemy"


class SqlLink(Protocol):
    """A connection that is about to be, or is, in a transaction of ours."""

    dialect: str

    def begin(self) -> None:
        """Begin, or raise Misconfigured if a transaction is open already: it may have begun before the raise."""
        ...

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement with `?` for its values."""
        ...

    def commit(self) -> None:
        """Commit."""
        ...

    def rollback(self) -> None:
        """Roll back."""
        ...


def link_to(connection: Any) -> SqlLink:  # noqa: ANN401  # whatever the program holds
    """Return the link for a connection, by where its class comes from."""
    if callable(getattr(connection, "get_bind", None)) and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # an SQLAlchemy session
    home = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    for name, kind in LINKS.items():
        if name in home:
            found: SqlLink = kind(connection)
            return found
    raise Misconfigured(f"a gate cannot write through {type(connection)!r}; there are {KNOWN} connections.")


class SqliteLink:
    """The standard library's module."""

    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # of whichever driver
        self._connection = connection

    def begin(self) -> None:
        """Begin where none is open."""
        if getattr(self._connection, "autocommit", None) is False:
            return  # this connection is always in one; the first statement takes the lock
        _demand_none_open(open_already=self._connection.in_transaction)
        self._connection.execute("BEGIN IMMEDIATE")

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement."""
        return [tuple(row) for row in self._connection.execute(statement, values)]

    def commit(self) -> None:
        """Commit."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll back."""
        self._connection.rollback()


class ApswLink(SqliteLink):
    """SQLite without the standard library's ideas about transactions."""

    def begin(self) -> None:
        """Begin where none is open."""
        _demand_none_open(open_already=self._connection.in_transaction)
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back."""
        if self._connection.in_transaction:  # some errors have rolled it back already
            self._connection.execute("ROLLBACK")


class PsycopgLink:
    """PostgreSQL by psycopg 2 or 3."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # of whichever driver
        self._connection = connection

    def begin(self) -> None:
        """Begin where none is open."""
        info = getattr(self._connection, "info", None)
        _demand_none_open(open_already=info is None or info.transaction_status != IDLE)
        if self._connection.autocommit:
            self.run("BEGIN")

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(_with_percent(statement), values or None)
            return [_values(row) for row in cursor.fetchall()] if cursor.description else []

    def commit(self) -> None:
        """Commit."""
        if self._connection.autocommit:
            self.run("COMMIT")
        else:
            self._connection.commit()

    def rollback(self) -> None:
        """Roll back."""
        if self._connection.autocommit:
            self.run("ROLLBACK")
        else:
            self._connection.rollback()


class AlchemyLink:
    """SQLAlchemy's own transaction on a connection, for either database."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # of whichever driver
        self._connection = connection
        dialects = {"postgresql": "postgres", "sqlite": "sqlite"}
        if connection.dialect.name not in dialects:
            raise Misconfigured(f"an SQL gate is for PostgreSQL and SQLite, not for {connection.dialect.name}.")
        self.dialect = dialects[connection.dialect.name]
        self._percent = connection.dialect.paramstyle in ("format", "pyformat")

    def begin(self) -> None:
        """Begin where none is open."""
        _demand_none_open(open_already=self._connection.in_transaction())
        self._connection.begin()

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement."""
        text = _with_percent(statement) if self._percent else statement
        result = self._connection.exec_driver_sql(text, values or None)
        return [_values(row) for row in result.fetchall()] if result.returns_rows else []

    def commit(self) -> None:
        """Commit."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll back."""
        self._connection.rollback()


LINKS: dict[str, Any] = {
    "sqlalchemy": AlchemyLink,
    "psycopg": PsycopgLink,
    "psycopg2": PsycopgLink,
    "apsw": ApswLink,
    "sqlite3": SqliteLink,
}


def _with_percent(statement: str) -> str:
    return statement.replace("?", "%s")


def _values(row: Any) -> tuple[Any, ...]:  # noqa: ANN401  # psycopg's row factories make what they like
    """Return what is in a row; a connection with the encoding SQL_ASCII gives texts as bytes, as they were written."""
    values = row.values() if isinstance(row, dict) else row
    return tuple(one.decode() if isinstance(one, bytes) else one for one in values)


def _demand_none_open(*, open_already: bool) -> None:
    if open_already:
        raise Misconfigured(
            "the connection is in a transaction already, and what that one has read may be old; "
            "commit it or roll it back before the gate's own transaction."
        )
