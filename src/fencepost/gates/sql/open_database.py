"""Where a gated database is, and how the gate itself connects to it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from fencepost.gates.target_secrets import resolved
from fencepost.model.errors import FencepostError, FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.secret_rights import is_referred_place
from fencepost.ports.gate import Fetch

WAIT_SECONDS = 10
POSTGRES = ("postgresql:", "postgres:")


class Database(Protocol):
    """One database of either kind."""

    dialect: str
    spelled: str  # as the target has it: without secrets

    def connected(self) -> Any:  # noqa: ANN401  # a context with the driver's connection
        """Open a connection of the gate's own, outside of any transaction."""
        ...

    def make(self, making: Callable[[], object]) -> None:
        """Make the tables, though another process may do the same."""
        ...

    def run_script(self, connection: Any, script: str) -> None:  # noqa: ANN401  # of whichever driver
        """Run statements inside the open transaction, and refuse those that would end it."""
        ...

    def explain(self, error: Exception, doing: str) -> FencepostError | None:
        """Turn what the driver raised into a sentence, or return None if it is not about the database."""
        ...

    def warnings(self) -> Iterator[str]:
        """Yield where the gate is weaker than it should be."""
        ...


def database_at(where: str, fetch: Fetch) -> Database:
    """Return the database that a target means; a reference stays one in its spelling."""
    url = resolved(where, fetch)
    if url.startswith("sqlite:"):
        path = _path(url)
        spelled = where if is_referred_place(where) else f"sqlite:{path}"
        return SqliteDatabase(path, spelled)
    if url.startswith(POSTGRES):
        return PostgresDatabase(url, where)
    raise Invalid(
        "an SQL gate's url is sqlite:/path/app.db, postgresql://host/database, or a reference to one, env:NAME."
    )


def _path(url: str) -> str:
    path = url.removeprefix("sqlite:")
    if path.startswith("//"):
        path = path.removeprefix("//").removeprefix("/") if path.startswith("////") else path.removeprefix("//")
    if not path or path == ":memory:" or "?" in path:
        raise Invalid(f"{url!r} names no file; write sqlite:/path/app.db.")
    return os.path.realpath(os.path.expanduser(path))


class SqliteDatabase:
    """A file. Its one write lock is the gate's lock.

    Opened with the standard library, like most programs do: two SQLite libraries in one process do not see each other's
    locks, and closing a file in one of them drops the locks of the other.
    """

    dialect = "sqlite"

    def __init__(self, path: str, spelled: str) -> None:
        self._path = path
        self.spelled = spelled

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect for a moment."""
        import sqlite3

        if not os.path.exists(self._path):
            raise Misconfigured(
                f"there is no database {self._path}; make it before its gate is raised, so that a slip of the pen "
                "makes none."
            )
        try:
            connection = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise Misconfigured(f"{self._path} cannot be opened: {error}.") from error
        try:
            yield connection
        finally:
            connection.close()

    def make(self, making: Callable[[], object]) -> None:
        """Make the tables."""
        making()

    def run_script(self, connection: Any, script: str) -> None:  # noqa: ANN401  # of whichever driver
        """Run statements that may not end the transaction."""
        import sqlite3

        def allowed(action: int, *_: object) -> int:
            return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK

        connection.set_authorizer(allowed)
        try:
            for statement in _statements(script):
                connection.execute(statement)
        finally:
            connection.set_authorizer(None)

    def explain(self, error: Exception, doing: str) -> FencepostError | None:
        """Say in a sentence what the driver means."""
        name = type(error).__name__
        if name in ("BusyError", "LockedError") or "database is locked" in str(error):
            return GateUnreachable(
                f"{doing}: another connection, maybe a frozen one, is writing. Find it with fuser or lsof and end it."
            )
        if any(kind.__module__.partition(".")[0] in ("apsw", "sqlite3") for kind in type(error).__mro__):
            return Misconfigured(f"{doing}: {error}.")
        return None

    def warnings(self) -> Iterator[str]:
        """Yield what makes the marks less durable."""
        return iter(())


class PostgresDatabase:
    """A server. Rows of marks are locked until their writer's transaction ends."""

    dialect = "postgres"

    def __init__(self, url: str, spelled: str) -> None:
        self._url = url
        self.spelled = spelled

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect for a moment."""
        import psycopg

        try:
            connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=WAIT_SECONDS,
                application_name="fencepost gate",
                client_encoding="utf8",  # else a database in SQL_ASCII answers in bytes
                tcp_user_timeout=WAIT_SECONDS * 1000,
            )
        except psycopg.Error as error:
            raise GateUnreachable(f"the gate's database does not answer: {_first_line(error)}.") from None
        with connection:
            # Waiting for a transaction that is under way is right, waiting for a frozen one without end is not.
            connection.execute(f"SET lock_timeout = '{WAIT_SECONDS}s'")
            connection.execute("SET synchronous_commit = on")
            yield connection

    def make(self, making: Callable[[], object]) -> None:
        """Make the tables."""
        import psycopg

        try:
            making()
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            return  # another process made it at the same time, which IF NOT EXISTS does not see

    def run_script(self, connection: Any, script: str) -> None:  # noqa: ANN401  # of whichever driver
        """Run statements that may not end the transaction."""
        # Inside DO, PostgreSQL itself refuses COMMIT and its kin; a script cannot be looked through for them safely.
        connection.execute("SELECT set_config('fencepost.script', %s, true)", (script,))
        connection.execute("DO $do$ BEGIN EXECUTE current_setting('fencepost.script'); END $do$")

    def explain(self, error: Exception, doing: str) -> FencepostError | None:
        """Say in a sentence what the driver means."""
        sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if sqlstate == "55P03":
            return GateUnreachable(
                f"{doing}: a transaction of an earlier writer, maybe of a frozen one, is still open after "
                f"{WAIT_SECONDS} s. Look at pg_stat_activity, and end it with pg_terminate_backend."
            )
        if not any(kind.__module__.partition(".")[0] in ("psycopg", "psycopg2") for kind in type(error).__mro__):
            return None
        if sqlstate == "FP077":
            return FenceRefused(f"{_first_line(error).removeprefix('fencepost: ')}. Nothing was written.")
        if sqlstate is None or sqlstate.startswith(("08", "57P", "53")):
            return GateUnreachable(f"{doing}: {_first_line(error)}.")
        if sqlstate.startswith("40"):
            return None  # the program's own isolation level asks for another try; the fence is compared again then
        return Misconfigured(f"{doing}: {_first_line(error)}.")

    def warnings(self) -> Iterator[str]:
        """Yield what makes the marks less durable."""
        with self.connected() as connection:
            for name in ("fsync", "full_page_writes"):
                if connection.execute("SELECT current_setting(%s)", (name,)).fetchone()[0] == "off":
                    yield f"{name} is off on this server: a crash may lose marks, and let an old fence pass."


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _statements(script: str) -> Iterator[str]:
    """Cut a script where SQLite says that a statement is complete: a trigger's body has semicolons too."""
    import sqlite3

    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \t\r\n;"):
                yield statement
            statement = ""
    if statement.strip(" \t\r\n;"):
        yield statement
