"""What tests may rely on when they ask for a pooler."""

import os
import shutil
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from tests.support import debian, pgbouncer
from tests.support.pgbouncer import PgBouncer, PoolMode

PoolerUrl = Callable[[PoolMode], str]


def test_a_transaction_works_behind_a_transaction_pooler(pgbouncer_url: PoolerUrl, postgres_url: str) -> None:
    with connect(pgbouncer_url("transaction")) as connection, connection.transaction():
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (7)")

    with psycopg.connect(postgres_url) as direct:
        assert direct.execute("SELECT id FROM kept").fetchall() == [(7,)]


def test_a_statement_pooler_refuses_transactions(pgbouncer_url: PoolerUrl) -> None:
    with connect(pgbouncer_url("statement")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="statement pooling"), connection.transaction():
            connection.execute("SELECT 1")


def test_what_a_session_sets_is_seen_by_strangers_who_share_its_server_connection(postgres_url: str) -> None:
    with (
        PgBouncer.before(postgres_url, pool_mode="transaction", pool_size=1) as pooler,
        connect(pooler.url) as one,
        connect(pooler.url) as other,
    ):
        one.execute("SET lock_timeout = '7s'")
        assert other.execute("SHOW lock_timeout").fetchone() == ("7s",)


def test_more_clients_than_server_connections_take_turns(postgres_url: str) -> None:
    with (
        PgBouncer.before(postgres_url, pool_mode="transaction", pool_size=1) as pooler,
        connect(pooler.url) as one,
        connect(pooler.url) as other,
    ):
        pids = {c.execute("SELECT pg_backend_pid()").fetchone() for c in (one, other)}
    assert len(pids) == 1


def test_nothing_answers_any_more_after_the_pooler_was_cleared_away(postgres_url: str) -> None:
    with PgBouncer.before(postgres_url) as pooler:
        pass
    with pytest.raises(psycopg.OperationalError, match="refused"):
        connect(pooler.url)


def test_a_test_is_skipped_with_the_name_of_the_package_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(debian, "find", lambda *_: None)
    with pytest.raises(pytest.skip.Exception, match="package `pgbouncer`"):
        pgbouncer.program_or_skip()


def test_a_build_machine_installs_it_when_root(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([None, None, "/somewhere/pgbouncer"])
    commands: list[list[str]] = []
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(debian, "find", lambda *_: next(found))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: "/somewhere/apt-get")
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))

    assert pgbouncer.program_or_skip() == "/somewhere/pgbouncer"
    assert [command[:2] for command in commands] == [["apt-get", "update"], ["apt-get", "install"]]


def connect(url: str) -> psycopg.Connection:
    """Connect as one must behind a pooler: no prepared statements, no transaction that is not asked for."""
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)
