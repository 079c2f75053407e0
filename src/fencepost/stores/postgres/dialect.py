"""Transactions on PostgreSQL: short, bounded on both sides, and honest about a COMMIT without an answer."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import psycopg

from fencepost.stores import sql
from fencepost.stores.postgres.errors import unavailable, unknown_outcome
from fencepost.stores.postgres.server import SILENCE_SECONDS, Connection, PostgresServer, Silent
from fencepost.stores.postgres.tables import PostgresTables
from fencepost.stores.transaction import Later, Row, T

VALUE = re.compile(r"(?<![:\w]):([a-z]\w*)")  # no cast, and nothing within a word


def _spelled(text: str) -> str:
    return VALUE.sub(r"%(\1)s", text.replace("%", "%%"))


class SentStatements(dict[str, bytes]):
    """The named statements as they are sent."""

    _texts = sql.load(__file__, _spelled)

    def __missing__(self, name: str) -> bytes:
        self[name] = sent = self._texts[name].encode()
        return sent

    def complete(self) -> "SentStatements":
        """Read all of them."""
        for name in self._texts.complete():
            self[name]
        return self


STATEMENTS = SentStatements()
TRIES = 5
PAUSE = b"SELECT pg_sleep(random() * 0.05)"  # the server has both dice and a clock


class Limits(NamedTuple):
    """How long the server may take, and how long we wait for a word of it."""

    statement_ms: int
    lock_ms: int
    idle_ms: int  # a client that froze in a transaction loses its locks before others give up waiting for them
    silence_seconds: float


# No command waits for others longer than two seconds. A client that froze in a transaction has lost its locks before.
QUICK = Limits(8_000, 1_900, 1_500, SILENCE_SECONDS)
READING_IDLE_MS = 5_000  # no transaction waits for a reader
PATIENT = Limits(600_000, 60_000, 600_000, 600.0)


# What a server says that has forgotten a statement, or whose tables were migrated since.
FORGOTTEN = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
    psycopg.errors.FeatureNotSupported,
)


# What a server says that has certainly done nothing, and would do it the next time: others were in the way, or this
# process stood still for so long, on a machine that was busy or asleep, that the server took its locks from it.
IN_THE_WAY = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


class OutcomeUnknown(Exception):
    """COMMIT was sent, and no answer said that it took effect where it should."""


class Dropped(Exception):
    """The server hung up before it heard of a COMMIT, so that nothing was done; in a pipeline it does not say why."""


class PostgresTransaction:
    """Named statements on an open transaction."""

    __slots__ = ("_connection", "_pipeline", "_who")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pipeline: psycopg.Pipeline | None = None
        self._who: psycopg.Cursor[Row] | None = None  # has the process that answers, where it is not known yet

    def join(self, pipeline: psycopg.Pipeline, begins: Limits | None) -> None:
        """Use a pipeline: statements are kept by the server and travel together.

        Where the transaction begins here, it does so as with `begin_writing_directly`, by words that travel too.
        """
        self._pipeline = pipeline
        if begins:
            self._connection.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED", prepare=False)
            self._who = self._connection.execute(BEGUN, [str(ms) for ms in begins[:3]])

    def check_who(self) -> None:
        """Raise Dropped if a pooler gave us to another process: it keeps other statements under the same names."""
        if self._who is not None and self._who.pgresult is not None:
            who, self._who = self._who, None
            if who.fetchall()[0][0] != self._connection.info.backend_pid:
                raise Dropped

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a named statement and return its rows."""
        return self.later(name, **values)()

    def later(self, name: str, /, **values: object) -> Later:
        """Send a named statement; inside a pipeline, its rows are waited for only when they are read."""
        cursor = self._connection.execute(STATEMENTS[name], values, prepare=self._pipeline is not None)

        def rows() -> list[Row]:
            if cursor.pgresult is None and self._pipeline is not None:
                self._pipeline.sync()
                self.check_who()
            return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []  # `description` names all

        return rows

    def remember(self, fence: int) -> None:
        """Do nothing: the resources' own rows hold the fence, and a mark common to all would be a bottleneck."""

    def tables(self) -> PostgresTables:
        """Return the tables as such, for those who move all of them."""
        return PostgresTables(self._connection)


Once = Callable[[Callable[[PostgresTransaction], T], Limits], T]


class PostgresDialect:
    """One connection at a time to one server; a broken one is replaced at the next transaction."""

    works_apart = True

    def __init__(self, server: PostgresServer, greet: Callable[[Connection], None], *, limits: Limits = QUICK) -> None:
        """Speak to a server; `greet` looks at each new connection and refuses what cannot be trusted."""
        self.server = server
        self._greet = greet
        self._limits = limits
        self._connection: Connection | None = None

    def write(self, work: Callable[[PostgresTransaction], T], /, *, patient: bool = False, often: bool = False) -> T:
        """Do the work in one transaction; again, a few times, if others were in its way."""
        limits = PATIENT if patient else self._limits
        once = self._write_often if often else self._write_once
        return self._with_sentences(lambda: self._write(once, work, limits))

    def read(self, work: Callable[[PostgresTransaction], T], /, *, patient: bool = False) -> T:
        """Do the work on one snapshot, writing nothing."""
        limits = PATIENT if patient else self._limits
        return self._with_sentences(lambda: self._read(work, limits))

    def give_way(self) -> None:
        """Do nothing: others wait for the rows that they want, and in a line."""

    def became(self, _store_id: str, /) -> None:
        """Do nothing: there is no copy beside this store that would have to follow."""

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _with_sentences(self, task: Callable[[], T]) -> T:
        try:
            return task()
        except psycopg.Error as error:
            raise unavailable(self.server, error) from None
        except OutcomeUnknown:
            raise unknown_outcome(self.server) from None

    def _write(self, once: "Once[T]", work: Callable[[PostgresTransaction], T], limits: Limits) -> T:
        for _ in range(TRIES - 1):
            with suppress(*IN_THE_WAY):
                return once(work, limits)
            self._send(PAUSE, limits)
        return once(work, limits)

    def _write_often(self, work: Callable[[PostgresTransaction], T], limits: Limits) -> T:
        """Write with statements that the server keeps, and without waiting for each: where no pooler stands between.

        A kept statement belongs to one server process. So whether we speak to the one that we logged in to is asked in
        each transaction; behind a pooler we do not, and everything is sent as ever. Where the last transaction was
        answered by that process, the beginning of the next travels with its first statements.
        """
        connection = self._connection
        begins = connection is not None and connection.said_pid == connection.info.backend_pid
        if connection is None or not begins:
            connection = self._send(begin_writing_directly(limits), limits)
            if connection.said_pid != connection.info.backend_pid:
                return self._finish(connection, lambda: work(PostgresTransaction(connection)))
        connection.silence_seconds = limits.silence_seconds
        with suppress(*FORGOTTEN, Dropped):
            return self._finish(connection, lambda: self._in_pipeline(connection, work, limits if begins else None))
        self.close()
        return self._write_once(work, limits)

    def _in_pipeline(
        self, connection: Connection, work: Callable[[PostgresTransaction], T], begins: Limits | None
    ) -> T:
        """Do the work; `begins` says that nothing was sent before. Who answers is known before anything is read."""
        connection.prepare_threshold = 0
        transaction = PostgresTransaction(connection)
        try:
            with connection.pipeline() as pipeline:
                transaction.join(pipeline, begins)
                answer = work(transaction)
        except psycopg.Error as error:
            if connection.broken and not isinstance(error, Silent):
                raise Dropped from None
            transaction.check_who()
            raise
        finally:
            connection.prepare_threshold = None
        transaction.check_who()
        return answer

    def _write_once(self, work: Callable[[PostgresTransaction], T], limits: Limits) -> T:
        connection = self._send(begin_writing(limits), limits)
        return self._finish(connection, lambda: work(PostgresTransaction(connection)))

    def _finish(self, connection: Connection, task: Callable[[], T]) -> T:
        try:
            answer = task()
            commit(connection)
        except BaseException:
            self._roll_back(connection)
            raise
        return answer

    def _read(self, work: Callable[[PostgresTransaction], T], limits: Limits) -> T:
        connection = self._send(begin_reading(limits), limits)
        try:
            return work(PostgresTransaction(connection))
        finally:
            self._roll_back(connection)

    def _send(self, first: bytes, limits: Limits) -> Connection:
        """Send the first words of a conversation; if the kept connection has died meanwhile, on a new one."""
        if self._connection:
            try:
                return _execute(self._connection, first, limits)
            except psycopg.OperationalError as error:
                died = self._connection.broken and not isinstance(error, Silent)
                self.close()
                if not died:
                    raise
        self._connection = self._connect(limits)
        return _execute(self._connection, first, limits)

    def _connect(self, limits: Limits) -> Connection:
        connection = self.server.connect()
        connection.silence_seconds = limits.silence_seconds
        try:
            self._greet(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _roll_back(self, connection: Connection) -> None:
        """Roll back, or drop a connection that is past speaking to, which has the server do it."""
        with suppress(psycopg.Error):
            if connection.answered:
                connection.execute(b"ROLLBACK")
                return
        self.close()


def _execute(connection: Connection, statement: bytes, limits: Limits) -> Connection:
    connection.silence_seconds = limits.silence_seconds
    cursor = connection.execute(statement)
    while cursor.nextset():
        pass
    if cursor.description:
        connection.said_pid = cursor.fetchall()[0][0]
    return connection


def commit(connection: Connection) -> None:
    """Commit, and tell apart: done, not done, and unknown.

    A warning is the third kind too: the server gives up waiting for a synchronous standby with nothing more.
    """
    warnings: list[str | None] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":  # to be read now: it does not outlive this call
            warnings.append(notice.message_primary)

    connection.add_notice_handler(note)
    try:
        connection.execute(b"COMMIT")
    except psycopg.errors.IdleInTransactionSessionTimeout:
        raise  # said before it heard of the COMMIT
    except psycopg.Error:
        if not connection.answered:
            raise OutcomeUnknown from None
        raise
    finally:
        connection.remove_notice_handler(note)
    if warnings:
        raise OutcomeUnknown


def begin_writing(limits: Limits) -> bytes:
    """Return the one round trip with which every writing transaction begins."""
    return f"BEGIN ISOLATION LEVEL READ COMMITTED; {_bounds(limits)}; SET LOCAL synchronous_commit = on".encode()


def begin_writing_directly(limits: Limits) -> bytes:
    """Return the same, which also asks which process of the server answers.

    Plans that are kept may date from when a table was empty: they must not read all of it ever after.
    """
    joins = b"; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
    return begin_writing(limits) + joins + b"; SELECT pg_backend_pid()"


BEGUN = b"""
SELECT pg_backend_pid(), set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),
       set_config('idle_in_transaction_session_timeout', %s, true), set_config('synchronous_commit', 'on', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true)
"""


def begin_reading(limits: Limits) -> bytes:
    """Return the one round trip with which every reading transaction begins."""
    patience = limits._replace(idle_ms=max(limits.idle_ms, READING_IDLE_MS))
    return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_bounds(patience)}".encode()


def _bounds(limits: Limits) -> str:
    return (
        f"SET LOCAL statement_timeout = {limits.statement_ms}; "
        f"SET LOCAL lock_timeout = {limits.lock_ms}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {limits.idle_ms}"
    )
