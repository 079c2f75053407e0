"""A backup takes every table along, whatever it is, also into the other kind of store."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fencepost.operations import store_maintenance
from fencepost.stores.postgres.store import open_store
from fencepost.stores.sqlite.store import SqliteStore
from tests.stores.rig import AnyStore, open_sqlite

if TYPE_CHECKING:
    from tests.support.postgres import PostgresDatabases

KINDS = ("sqlite", "postgresql")

# Two tables as a later migration might add them, with everything in which the dialects differ.
OF_SQLITE = """
CREATE TABLE later (seq INTEGER PRIMARY KEY AUTOINCREMENT, flag INTEGER NOT NULL DEFAULT 0, note TEXT, raw BLOB, cost REAL);
CREATE TABLE "odd %s name" ("a b" TEXT PRIMARY KEY) STRICT, WITHOUT ROWID
"""
OF_POSTGRES = b"""
CREATE TABLE fencepost.later (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, flag boolean NOT NULL DEFAULT false,
                              note text, raw bytea, cost double precision);
CREATE TABLE fencepost."odd %s name" ("a b" text PRIMARY KEY)
"""
ROWS = [(7, True, "naïve '🦊' %s \\x00 {}", b"\x00\xff'", 0.1), (9, False, None, None, None)]


@pytest.fixture
def make(tmp_path: Path, postgres_server: "PostgresDatabases") -> Iterator[Callable[[str, str], AnyStore]]:
    """A maker of stores with the two tables."""
    with ExitStack() as undo:

        def new(kind: str, name: str) -> AnyStore:
            if kind == "sqlite":
                store: AnyStore = open_sqlite(tmp_path / f"{name}.db", new_id=name)
                store._sqlite._connection.execute(OF_SQLITE)  # type: ignore[union-attr]
            else:
                url = postgres_server.create_database()
                undo.callback(postgres_server.drop_database, url)
                store = open_store(url, new_id=name, allow_lossy=True)
                with psycopg.connect(url) as connection:
                    connection.execute(OF_POSTGRES)
            undo.callback(store.close)
            return store

        yield new


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_rows_of_any_table_arrive_as_they_were(
    make: Callable[[str, str], AnyStore], tmp_path: Path, source: str, target: str
) -> None:
    old, new = make(source, "old"), make(target, "new")
    for row in ROWS:
        add(old, row)
    add(new, (1, False, "to be replaced", b"", 0.0))
    file = str(tmp_path / "backup")
    store_maintenance.backup(old, file)
    store_maintenance.restore(new, file, confirm=lambda _: True)

    assert rows(new) == ROWS
    add(new, None)
    assert rows(new)[-1][0] == 10, "the counter goes on above what was restored"


def add(store: AnyStore, row: tuple[object, ...] | None) -> None:
    columns, values = ("seq, flag, note, raw, cost", row) if row else ("flag", (True,))
    if isinstance(store, SqliteStore):
        marks = ", ".join("?" * len(values))
        store._sqlite._connection.execute(f"INSERT INTO later ({columns}) VALUES ({marks})", values)
        return
    marks = ", ".join(["%s"] * len(values))
    with psycopg.connect(make_conninfo(**store._postgres.server.parameters)) as connection:
        connection.execute(
            f"INSERT INTO fencepost.later ({columns}) OVERRIDING SYSTEM VALUE VALUES ({marks})".encode(), values
        )


def rows(store: AnyStore) -> list[tuple[object, ...]]:
    if isinstance(store, SqliteStore):
        found = store._sqlite._connection.execute("SELECT * FROM later ORDER BY seq").fetchall()
        return [(row[0], bool(row[1]), *row[2:]) for row in found]
    with psycopg.connect(make_conninfo(**store._postgres.server.parameters)) as connection:
        return connection.execute("SELECT * FROM fencepost.later ORDER BY seq").fetchall()
