"""The same days on a real PostgreSQL server, whose one reading of the clock is told the time of the simulated world.

Every statement of the dialect runs for real, behind the same unreliable line. One transaction is carried out at a time, so
races between transactions are left to the tests of processes. A lost tail is played by putting old rows back and letting
the server pass for another one, which the product notices at its next connection as it does after a failover.
"""

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg

from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.postgres.store import PostgresStore, open_store
from fencepost.stores.transaction import Dialect
from tests.simulation.runtime.engines import Reached, written_by
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.simulation.clocks import DatabaseTime
    from tests.simulation.hosts import Host

CLOCK = b"""
CREATE OR REPLACE FUNCTION fencepost.clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(nullif(current_setting('simulated.now_us', true), '')::bigint,
                   (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$
"""
TABLES = b"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'fencepost' AND tablename <> 'meta'"
# Nothing is promised to anybody on this server, and nothing waits for a disk.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
EXPIRY = ("expires_boot, expires_ns", "'server', expires_us * 1000")  # whose clock, and when by it


class Stand:
    """A database that one day after the other is played on."""

    def __init__(self, url: str) -> None:
        open_store(url, new_id="simulated", allow_lossy=True).close()
        self.url = url
        self.reader = psycopg.connect(url, autocommit=True, options="-c search_path=fencepost")
        self.reader.execute(CLOCK)
        self.meta = self.reader.execute("SELECT key, value FROM meta WHERE key NOT LIKE 'pg%%'").fetchall()
        names = [str(name) for (name,) in self.reader.execute(TABLES).fetchall()]
        self._truncate = f"TRUNCATE {', '.join(names)} RESTART IDENTITY"

    @classmethod
    @contextmanager
    def of_our_own(cls) -> Iterator["Stand"]:
        """Start a server for this alone, and clear it away afterwards."""
        with PostgresServer.private(SETTINGS) as server, closing(cls(server.create_database())) as stand:
            yield stand

    def close(self) -> None:
        """Let go of the connection."""
        self.reader.close()

    def clear(self) -> None:
        """Begin anew, as an empty store."""
        self.reader.execute(self._truncate.encode())
        self.reader.execute("DELETE FROM meta")
        self.reader.cursor().executemany("INSERT INTO meta VALUES (%s, %s)", self.meta)


class PostgresEngine:
    """One day on a stand; each boot of each host has a connection."""

    def __init__(self, stand: Stand) -> None:
        stand.clear()
        self._stand = stand
        self._stores: list[PostgresStore] = []
        self._backup: dict[str, list[dict[str, Any]]] | None = None

    def open(self, host: "Host", database_time: "DatabaseTime") -> PostgresStore:
        del host
        told = quote(f"-c simulated.now_us={database_time.wall_us()}")
        store = open_store(f"{self._stand.url}?options={told}", new_id="simulated", allow_lossy=True)
        self._stores.append(store)
        return store

    def dialect(self, store: "Reached", now_us: int) -> Dialect:
        assert isinstance(store, PostgresStore)
        dialect = store._postgres
        if dialect._connection is None:
            dialect.read(lambda tx: tx.rows("store_clock_us"))
        assert dialect._connection is not None
        dialect._connection.execute(f"SET simulated.now_us = '{now_us}'".encode())
        return dialect

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        assert not values
        return self._stand.reader.execute(text.replace(*EXPIRY).encode()).fetchall()

    def written_by(self, names: Collection[str]) -> set[str]:
        return written_by({name: postgres.STATEMENTS[name].decode() for name in names}, names)

    def back_up(self) -> None:
        def copy(tx: postgres.PostgresTransaction) -> dict[str, list[dict[str, Any]]]:
            return {name: list(tx.tables().rows(name)) for name in tx.tables().names()}

        self._backup = self._stores[-1]._postgres.read(copy)

    def restore(self) -> bool:
        """Put the old rows in place, on what passes for a server that was promoted."""
        if self._backup is None:
            return False
        kept, self._backup = self._backup, None

        def put_back(tx: postgres.PostgresTransaction) -> None:
            tables = tx.tables()
            tables.lock()
            for name, rows in kept.items():
                tables.clear(name)
                if rows:
                    tables.add(name, rows)
            tables.settle()
            tx.rows("set_meta", key="pg_timeline", value="0")

        self._stores[-1]._postgres.write(put_back)
        self.close()
        return True

    def close(self) -> None:
        while self._stores:
            self._stores.pop().close()
