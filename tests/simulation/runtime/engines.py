"""The real stores that a day is played on: an SQLite file in memory, or a database of a real PostgreSQL server.

Both are told the time of the simulated world. SQLite asks for it by functions that the connection brings along;
PostgreSQL reads its clock in one place, the function `fencepost.clock_us`, which is replaced by one that is told.
"""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.ports.store import StoreFacts
from fencepost.stores.sqlite import dialect as sqlite
from fencepost.stores.sqlite.store import Opening, SqliteStore
from fencepost.stores.transaction import Dialect
from tests.simulation.clocks import DatabaseTime, StoreClock

if TYPE_CHECKING:
    from tests.simulation.faults import Knobs
    from tests.simulation.hosts import Host

WRITES = re.compile(
    r"\b(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM)\s+(?:fencepost\.)?(\w+)",
    re.IGNORECASE,
)


class Reached(Protocol):
    """A store that was opened; its engine knows what it really is."""

    def facts(self) -> StoreFacts:
        """Say who it is."""
        ...


class Engine(Protocol):
    """A store that many hosts reach, each over a connection of its own."""

    def open(self, host: "Host", database_time: DatabaseTime) -> "Reached":
        """Open the store as a host does."""
        ...

    def dialect(self, store: "Reached", now_us: int) -> Dialect:
        """Return how an opened store carries out transactions, at this time."""
        ...

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Read past the product, what is committed."""
        ...

    def written_by(self, names: Collection[str]) -> set[str]:
        """Return the tables that statements may have changed."""
        ...

    def back_up(self) -> None:
        """Keep what the store holds now."""
        ...

    def restore(self) -> bool:
        """Put what was kept in place of what there is, as a failover does that loses its tail."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class SqliteEngine:
    """One file; each boot of each host has a connection."""

    def __init__(self, folder: str, knobs: "Knobs") -> None:
        self._path = os.path.join(folder, "state.db")
        self._knobs = knobs
        self._stores: list[SqliteStore] = []
        self._backup: bytes | None = None

    def open(self, host: "Host", database_time: DatabaseTime) -> SqliteStore:
        many = self._knobs.many_hosts
        clock = database_time if many else StoreClock(host.time)
        boot = "server" if many else host.identity.boot
        opening = Opening(self._path, clock=clock, boot=boot, network_kind=lambda _: None, throwaway=True)
        store = opening.open(new_id="simulated")
        self._stores.append(store)
        return store

    def dialect(self, store: "Reached", now_us: int) -> Dialect:
        del now_us  # the connection asks for it
        assert isinstance(store, SqliteStore)
        return store._sqlite

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return self._stores[-1]._sqlite._connection.execute(text, values).fetchall()

    def written_by(self, names: Collection[str]) -> set[str]:
        return written_by(sqlite.STATEMENTS, names)

    def back_up(self) -> None:
        self._backup = self._stores[-1]._sqlite._connection.serialize("main")

    def restore(self) -> bool:
        """Put the old file in place; a server has no copy of its fence beside it, a file has."""
        if self._backup is None:
            return False
        with open(f"{self._path}.old", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(self._backup)
        self._backup = None
        self.close()
        for suffix in ("-wal", "-shm", *([".fence"] if self._knobs.many_hosts else [])):
            with suppress(FileNotFoundError):
                os.unlink(self._path + suffix)
        os.replace(f"{self._path}.old", self._path)
        return True

    def close(self) -> None:
        while self._stores:
            self._stores.pop().close()


def written_by(statements: Mapping[str, str], names: Collection[str]) -> set[str]:
    """Look into the statements themselves, so that one that is new is not forgotten."""
    return {table for name in set(names) for table in _tables(statements[name])}


@lru_cache(maxsize=2000)
def _tables(text: str) -> frozenset[str]:
    return frozenset(WRITES.findall(text))
