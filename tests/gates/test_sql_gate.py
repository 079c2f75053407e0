"""The SQL gate: any connection, one transaction, and tables that refuse whoever shows no fence."""

# ruff: noqa: ANN401  # connections of five libraries

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import psycopg2
import pytest
import sqlalchemy

from fencepost.gates.sql.gate import SqlGate
from fencepost.model.errors import FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.model.gate import MARKS_MAX
from fencepost.operations.gate_kinds import open_gate
from tests.gates.proofs import proof

Connect = Callable[[str], Any]
Run = Callable[..., Any]


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE report (text TEXT)")
    return f"sqlite:{tmp_path}/app.db"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("fencepost.gates.sql.open_database.WAIT_SECONDS", 2)
    found: str = request.getfixturevalue(f"{request.param}_url")
    if request.param == "postgres":
        with psycopg.connect(found) as connection:
            connection.execute("CREATE TABLE report (text text)")
    monkeypatch.setenv("GATED_URL", found)
    return found


@pytest.fixture
def gate(url: str) -> SqlGate:  # noqa: ARG001  # its variable must be set first
    opened = open_gate("sql:env:GATED_URL")
    assert isinstance(opened, SqlGate)
    opened.raise_fence(proof(5))
    return opened


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:")


def contents(url: str) -> list[str]:
    with closing(plain(url)) as connection:
        return [row[0] for row in connection.execute("SELECT text FROM report ORDER BY text").fetchall()]


def plain(url: str) -> Any:
    """A client that never heard of fences."""
    return sqlite3.connect(path_of(url)) if url.startswith("sqlite:") else psycopg.connect(url, autocommit=True)


def by_cursor(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def by_execute(connection: Any, statement: str) -> None:
    connection.execute(statement)


def by_driver(connection: Any, statement: str) -> None:
    connection.exec_driver_sql(statement)


def autocommitting(connection: Any) -> Any:
    connection.autocommit = True
    return connection


def alchemy(url: str) -> Any:
    address = f"sqlite:///{path_of(url)}" if url.startswith("sqlite:") else url.replace("://", "+psycopg://", 1)
    return sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool).connect()


CONNECTIONS: dict[str, list[tuple[Connect, Run]]] = {
    "sqlite": [
        (lambda url: sqlite3.connect(path_of(url)), by_execute),
        (lambda url: sqlite3.connect(path_of(url), isolation_level=None), by_execute),
        (lambda url: apsw.Connection(path_of(url)), by_execute),
        (alchemy, by_driver),
    ],
    "postgresql": [
        (psycopg.connect, by_execute),
        (lambda url: psycopg.connect(url, autocommit=True), by_execute),
        (lambda url: psycopg.connect(url, row_factory=psycopg.rows.dict_row), by_execute),
        (psycopg2.connect, by_cursor),
        (lambda url: autocommitting(psycopg2.connect(url)), by_cursor),
        (alchemy, by_driver),
    ],
}


def test_the_programs_own_connection_carries_mark_and_payload(url: str, gate: SqlGate) -> None:
    """One after the other: SQLite's locks are a process's, and two libraries must not share a file in one."""
    for connect, run in CONNECTIONS[url.partition(":")[0]]:
        with closing(connect(url)) as connection:
            with gate.transaction(proof(5), connection):
                run(connection, "INSERT INTO report VALUES ('kept')")
            with suppress(ZeroDivisionError), gate.transaction(proof(5), connection):
                run(connection, "INSERT INTO report VALUES ('half')")
                raise ZeroDivisionError
            with pytest.raises(FenceRefused), gate.transaction(proof(4), connection):
                run(connection, "INSERT INTO report VALUES ('zombie')")
            with gate.transaction(proof(5), connection):
                run(connection, "INSERT INTO report VALUES ('kept')")

    assert contents(url) == ["kept"] * 2 * len(CONNECTIONS[url.partition(":")[0]])


def test_a_transaction_that_is_open_already_is_refused(url: str, gate: SqlGate) -> None:
    connect, run = CONNECTIONS[url.partition(":")[0]][0]
    with closing(connect(url)) as connection:
        run(connection, "INSERT INTO report VALUES ('before')")
        with pytest.raises(Misconfigured, match="in a transaction already"), gate.transaction(proof(5), connection):
            pytest.fail("the block was entered")


def test_a_database_that_was_never_raised_is_not_the_gates(gate: SqlGate, tmp_path: Path) -> None:
    refused = pytest.raises(Misconfigured, match="without the table")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, refused, gate.transaction(proof(5), other):
        pytest.fail("the block was entered")


def test_a_script_that_commits_half_way_is_refused_as_a_whole(url: str, gate: SqlGate) -> None:
    for ending in ("COMMIT", "ROLLBACK", "END"):
        script = f"INSERT INTO report VALUES ('half'); {ending}; INSERT INTO report VALUES ('unfenced');"
        with pytest.raises(Misconfigured):
            gate.run_script(proof(5), script)
    gate.run_script(proof(5), "INSERT INTO report VALUES ('a;b'); INSERT INTO report VALUES ('c');")

    assert contents(url) == ["a;b", "c"]


def guarded(gate: SqlGate, resource: str = "") -> None:
    gate.install(gate.guard("report", resource=resource))


def test_a_guarded_table_refuses_a_client_that_never_heard_of_us(url: str, gate: SqlGate) -> None:
    with gate.transaction(proof(5)) as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
    guarded(gate)
    guarded(gate)  # a second time changes nothing

    for statement in ("INSERT INTO report VALUES ('x')", "UPDATE report SET text = 'x'", "DELETE FROM report"):
        with closing(plain(url)) as connection, pytest.raises((sqlite3.Error, psycopg.Error), match="behind a gate"):
            connection.execute(statement)
    with gate.transaction(proof(5)) as connection:
        connection.execute("INSERT INTO report VALUES ('more')")

    assert contents(url) == ["kept", "more"]
    gate.install(gate.guard("report", remove=True))
    with closing(plain(url)) as connection, connection:
        connection.execute("DELETE FROM report")
    assert contents(url) == []


def test_a_guard_under_a_resource_refuses_writers_that_do_not_hold_it(url: str, gate: SqlGate) -> None:
    guarded(gate, resource="lock:z")

    with pytest.raises((sqlite3.Error, psycopg.Error)), gate.transaction(proof(5, "lock:other")) as connection:
        connection.execute("INSERT INTO report VALUES ('x')")
    with gate.transaction(proof(5)) as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
    assert contents(url) == ["kept"]


def test_a_session_that_shows_its_fence_in_plain_sql_passes_until_it_is_stale(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATED_URL", postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE report (text text)")
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(5))
    guarded(gate)

    with psycopg.connect(postgres_url, options="-c fencepost.resource=lock:z -c fencepost.fence=5") as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
        connection.commit()
        gate.raise_fence(proof(6))
        with pytest.raises(psycopg.Error, match="fence 6 was seen for lock:z, yours is 5") as refused:
            connection.execute("INSERT INTO report VALUES ('zombie')")
        assert refused.value.sqlstate == "FP077"
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT fencepost_check('lock:z', 7)")
    assert gate.status().marks["default lock:z"].fence == 7
    assert contents(postgres_url) == ["kept"]


def test_a_raise_waits_for_a_guarded_session_that_has_written_and_not_committed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATED_URL", postgres_url)
    monkeypatch.setattr("fencepost.gates.sql.open_database.WAIT_SECONDS", 1)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE report (text text)")
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(5))
    guarded(gate)

    with psycopg.connect(postgres_url, options="-c fencepost.resource=lock:z -c fencepost.fence=5") as connection:
        connection.execute("INSERT INTO report VALUES ('kept')")
        with pytest.raises(GateUnreachable, match="still open"):
            gate.raise_fence(proof(6))
    gate.raise_fence(proof(6))


def test_a_pass_that_was_left_open_in_sqlite_ends_with_the_next_raise(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATED_URL", sqlite_url)
    gate = open_gate("sql:env:GATED_URL")
    assert isinstance(gate, SqlGate)
    gate.raise_fence(proof(5))
    guarded(gate)
    with closing(plain(sqlite_url)) as connection, connection:
        connection.execute("INSERT INTO fencepost_fence_pass VALUES ('default lock:z', 5)")
        connection.execute("INSERT INTO report VALUES ('kept')")
    gate.raise_fence(proof(6))

    with closing(plain(sqlite_url)) as connection, pytest.raises(sqlite3.Error, match="behind a gate"):
        connection.execute("INSERT INTO report VALUES ('zombie')")


def test_the_memory_of_a_gate_has_an_end_and_forgets_no_fence(url: str, gate: SqlGate) -> None:
    with closing(plain(url)) as connection, connection:
        for number in range(MARKS_MAX):
            statement = f"INSERT INTO fencepost_fence VALUES ('default run:{number}', {100 + number}, 'A', '', '', 1)"
            connection.execute(statement)
    gate.raise_fence(proof(5_000, "lock:new"))

    assert len(gate.status().marks) <= MARKS_MAX
    with pytest.raises(FenceRefused):
        gate.check(proof(3, "run:0"))


def test_hostile_names_of_tables_are_refused(gate: SqlGate) -> None:
    for name in ('x"; DROP TABLE report; --', "a.b.c", "", "Report", "ü"):
        with pytest.raises(Invalid, match="is no name for a table"):
            gate.guard(name)
    with pytest.raises(Invalid, match="is no name for a table"):
        open_gate("sql:env:GATED_URL#table=x;y").status()


def test_a_password_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATED_URL", "postgresql://me:hunter2@127.0.0.1:1/ledger")
    gate = open_gate("sql:env:GATED_URL")

    with pytest.raises(GateUnreachable) as unreachable:
        gate.raise_fence(proof(5))

    assert "hunter2" not in f"{unreachable.value} {gate.target}"


@pytest.fixture
def _shell_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("_shell_path", "gate")
def test_the_command_line_prints_and_installs_guards(url: str) -> None:
    words = ["fencepost", "gate", "sql-guard", "sql:env:GATED_URL", "report"]
    printed = subprocess.run([*words, "--print"], capture_output=True, text=True, check=True).stdout
    assert "CREATE TRIGGER" in printed
    with closing(plain(url)) as connection, connection:
        connection.execute("INSERT INTO report VALUES ('before')")

    assert subprocess.run(words, capture_output=True, check=True).stdout == b"report: guarded\n"
    with closing(plain(url)) as connection, pytest.raises((sqlite3.Error, psycopg.Error)):
        connection.execute("DELETE FROM report")
