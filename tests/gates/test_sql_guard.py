"""The guard of tables in PostgreSQL against sessions that mean to get around it: other tenants, partitions, roles, encodings."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from fencepost.gates.sql.gate import SqlGate
from fencepost.model.errors import FenceRefused, Invalid, Misconfigured
from fencepost.model.gate import FENCE_MAX
from fencepost.operations.gate_kinds import open_gate
from tests.gates.proofs import proof
from tests.support.postgres import PostgresDatabases

TREE = """
CREATE TABLE part (id int, text text) PARTITION BY RANGE (id);
CREATE TABLE part_one PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_two PARTITION OF part FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE part_two_low PARTITION OF part_two FOR VALUES FROM (10) TO (15);
INSERT INTO part VALUES (1, 'kept'), (11, 'kept');
CREATE TABLE old (id int, text text);
CREATE TABLE old_heir () INHERITS (old);
INSERT INTO old_heir VALUES (1, 'kept');
"""
WRITES = ("INSERT INTO {} VALUES ({}, 'zombie')", "UPDATE {} SET text = 'zombie'", "DELETE FROM {}", "TRUNCATE {}")


@pytest.fixture
def gate(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> SqlGate:
    monkeypatch.setenv("GATED_URL", postgres_url)
    run(postgres_url, "CREATE TABLE report (text text)")
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(4))
    gate.raise_fence(proof(5))
    return gate


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


def session(url: str, **shown: object) -> Any:  # noqa: ANN401
    spelled = {name: str(value).replace(" ", "\\ ") for name, value in shown.items()}
    options = " ".join(f"-c fencepost.{name}={value}" for name, value in spelled.items())
    return psycopg.connect(url, options=options, autocommit=True)


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(psycopg.Error) as error:
        yield
    assert error.value.sqlstate == "FP077", error.value


@pytest.mark.parametrize("resource", ["", "lock:z"])
@pytest.mark.parametrize(
    "lie",
    [
        {"tenant": "other"},
        {"resource": "lock:invented"},
        {"resource": "lock:z lock:invented", "fence": 5},
        {"fence": 6},
        {"fence": FENCE_MAX},
        {"fence": FENCE_MAX + 1},
        {"fence": 2**63 - 1},
        {"tenant": "other", "fence": 6},
    ],
    ids=str,
)
def test_a_session_passes_with_nothing_that_was_never_raised_and_lifts_nothing(
    postgres_url: str, gate: SqlGate, lie: dict[str, object], resource: str
) -> None:
    gate.raise_fence(proof(3, tenant="other"))
    gate.install(gate.guard("report", resource=resource))
    before = rows(postgres_url)

    with session(postgres_url, **{"resource": "lock:z", "fence": 4, **lie}) as connection, refused():
        connection.execute("INSERT INTO report VALUES ('zombie')")

    assert rows(postgres_url) == before
    with session(postgres_url, resource="lock:z", fence=5) as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")


def rows(url: str) -> list[Any]:
    """All that a session could change: the payload, and every row of the marks' table."""
    with psycopg.connect(url) as connection:
        marks = connection.execute("SELECT * FROM fencepost_fence ORDER BY key").fetchall()
        return [*marks, *connection.execute("SELECT * FROM report").fetchall()]


def test_a_table_of_one_tenants_resource_is_not_written_for_another_tenant(postgres_url: str, gate: SqlGate) -> None:
    gate.raise_fence(proof(7, tenant="red"))
    gate.install(gate.guard("report", resource="lock:z", tenant="red"))

    with session(postgres_url, resource="lock:z", fence=5) as connection, refused():
        connection.execute("INSERT INTO report VALUES ('zombie')")
    with session(postgres_url, resource="lock:z", fence=7, tenant="red") as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
    with gate.transaction(proof(7, tenant="red")) as connection:
        connection.execute("INSERT INTO report VALUES ('more')")


@pytest.mark.parametrize(
    ("guarded", "written"),
    [
        ("part", [("part", 2), ("part_one", 2), ("part_two", 11), ("part_two_low", 11)]),
        ("part_two_low", [("part", 11), ("part_two", 11), ("part_two_low", 11)]),
        ("part_two", [("part", 11), ("part_two", 11), ("part_two_low", 11)]),
        ("old", [("old", 1), ("old_heir", 1)]),
        ("old_heir", [("old_heir", 1)]),
    ],
)
def test_no_way_leads_around_the_guard_of_a_table_in_parts(
    postgres_url: str, gate: SqlGate, guarded: str, written: list[tuple[str, int]]
) -> None:
    run(postgres_url, TREE)
    gate.install(gate.guard(guarded))
    gate.install(gate.guard(guarded))  # a second time changes nothing

    with session(postgres_url, resource="lock:z", fence=4) as connection:
        for table, number in written:
            for write in WRITES:
                with refused():
                    connection.execute(write.format(table, number))
    with session(postgres_url, resource="lock:z", fence=5) as connection:
        for table, number in written:
            connection.execute(f"INSERT INTO {table} VALUES ({number}, 'passed')")
            connection.execute(f"UPDATE {table} SET text = 'changed' WHERE text = 'passed'")
            connection.execute(f"DELETE FROM {table} WHERE text = 'changed'")
    gate.install(gate.guard(guarded, remove=True))
    assert gate.guarded_tables() == []


def test_rows_of_a_guarded_heir_do_not_change_by_way_of_its_parent(postgres_url: str, gate: SqlGate) -> None:
    run(postgres_url, TREE)
    gate.install(gate.guard("old_heir"))

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for write in ("UPDATE old SET text = 'zombie'", "DELETE FROM old", "TRUNCATE old"):
            with refused():
                connection.execute(write)


def test_a_partition_that_is_added_later_is_guarded_row_by_row(postgres_url: str, gate: SqlGate) -> None:
    run(postgres_url, TREE)
    gate.install(gate.guard("part"))
    gate.install(gate.guard("part_one"))
    run(postgres_url, "CREATE TABLE part_new PARTITION OF part FOR VALUES FROM (20) TO (30)")

    with session(postgres_url, resource="lock:z", fence=4) as connection, refused():
        connection.execute("INSERT INTO part_new VALUES (21, 'zombie')")


@pytest.fixture
def stranger(postgres_url: str) -> Iterator[str]:
    """The URL of a role with no grants but the right to connect, and to make tables of its own."""
    name = f"stranger_{postgres_url.rpartition('_')[2].partition('?')[0]}"
    role = sql.Identifier(name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
        connection.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(role))
        yield name
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT fencepost_check('lock:z', 7)",
        "SELECT fencepost_compare('lock:z', 7, 'default', '', '', true)",
        "CREATE TRIGGER x BEFORE INSERT ON mine EXECUTE FUNCTION fencepost_guard()",
    ],
)
def test_a_role_without_grants_raises_nothing_and_holds_nobody_up(
    postgres_url: str, gate: SqlGate, stranger: str, statement: str
) -> None:
    gate.install(gate.guard("report"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stranger)))
        connection.execute("CREATE TABLE mine (x int)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)

    assert gate.status().marks["default lock:z"].fence == 5


def test_a_role_that_may_write_the_table_may_ask_and_still_raises_nothing(
    postgres_url: str, gate: SqlGate, stranger: str
) -> None:
    run(postgres_url, f'GRANT INSERT ON report TO "{stranger}"')
    gate.install(gate.guard("report"))

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stranger)))
        connection.execute("SELECT fencepost_check('lock:z', 5)")
        for call in ("'lock:z', 7", "'lock:invented', 7", "'lock:z', 5, 'other'"):
            with refused():
                connection.execute(f"SELECT fencepost_check({call})")
        connection.execute("SET fencepost.resource = 'lock:z'; SET fencepost.fence = 5")
        connection.execute("INSERT INTO report VALUES ('kept')")

    assert gate.status().marks.keys() == {"default lock:z"}


@pytest.fixture
def ascii_url(postgres_server: PostgresDatabases) -> Iterator[str]:
    url = postgres_server.create_database()
    name = url.rpartition("/")[2].partition("?")[0]
    postgres_server.drop_database(url)
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        make = "CREATE DATABASE {} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        connection.execute(sql.SQL(make).format(sql.Identifier(name)))
    yield url
    postgres_server.drop_database(url)


def test_a_database_without_an_encoding_has_a_gate_like_any_other(
    ascii_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATED_URL", ascii_url)
    run(ascii_url, "CREATE TABLE report (text text)")
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(5, "lock:ünï"))
    gate.install(gate.guard("report"))

    with psycopg.connect(ascii_url) as own, gate.transaction(proof(5, "lock:ünï"), own) as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
    gate.raise_fence(proof(6, "lock:ünï"))

    with (
        psycopg.connect(ascii_url) as own,
        pytest.raises(FenceRefused, match="has seen fence 6 for lock:ünï"),
        gate.transaction(proof(5, "lock:ünï"), own),
    ):
        pytest.fail("the block was entered")
    assert gate.status().marks["default lock:ünï"][:4] == (6, "A", "host-1", "run-6")
    assert gate.guarded_tables() == ["report"]


def test_a_plain_client_of_sqlite_passes_with_nothing_that_was_never_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATED_URL", f"sqlite:{tmp_path}/app.db")
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE report (text TEXT)")
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(5))
    gate.install(gate.guard("report"))

    for key, fence in (("other lock:z", 4), ("default lock:new", 4), ("default lock:z", 4), ("default lock:z", 2**62)):
        with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
            connection.execute("INSERT INTO fencepost_fence_pass VALUES (?, ?)", (key, fence))
            with pytest.raises(sqlite3.IntegrityError, match="behind a gate"):
                connection.execute("INSERT INTO report VALUES ('zombie')")


def test_a_name_that_would_end_the_guards_own_text_is_refused(gate: SqlGate) -> None:
    with pytest.raises(Invalid, match="cannot stand in a guard"):
        gate.guard("report", resource="lock:$fencepost$; DROP TABLE report; --")


def test_a_write_with_another_tenants_name_through_the_gate_itself_is_compared_as_theirs(gate: SqlGate) -> None:
    gate.install(gate.guard("report", resource="lock:z"))

    with pytest.raises((FenceRefused, Misconfigured)):
        gate.run_script(proof(4, tenant="other"), "INSERT INTO report VALUES ('zombie')")
