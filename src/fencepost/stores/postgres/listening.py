"""A connection that only listens: hints come over it, and nothing rests on them."""

from collections.abc import Sequence

import psycopg

from fencepost.stores.postgres.server import Connection, PostgresServer


class PostgresEar:
    """One connection to the server on which workers hear that something became ready."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """Return what to wait for; -1 once the connection is gone."""
        try:
            return self._connection.fileno()
        except psycopg.Error:
            return -1

    def take(self) -> Sequence[str] | None:
        """Return what was said since the last time, without waiting; None if nothing can be heard any more."""
        said = []
        try:
            self._connection.pgconn.consume_input()
            while note := self._connection.pgconn.notifies():
                said.append(note.extra.decode())
        except psycopg.Error:
            self.close()
            return None
        return said

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def listen(server: PostgresServer) -> PostgresEar | None:
    """Open an ear; None where a pooler stands between. Raise psycopg.Error if the server is out of reach."""
    connection = server.connect()
    try:
        if _is_pooled(connection):
            connection.close()
            return None
        connection.execute(b"LISTEN fencepost")
    except BaseException:
        connection.close()
        raise
    return PostgresEar(connection)


def _is_pooled(connection: Connection) -> bool:
    """Tell whether a pooler answers in the server's stead: LISTEN would then stay on another client's."""
    row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return row is None or row[0] != connection.info.backend_pid
