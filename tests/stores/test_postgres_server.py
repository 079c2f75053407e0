"""PostgreSQL servers that are stopped, crowded, read-only, unsafe, strange, or somebody else's."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pytest

from fencepost.model.errors import Invalid, StoreUnavailable
from fencepost.model.lease import Granted, Refused
from fencepost.stores.postgres.dialect import QUICK
from fencepost.stores.postgres.store import PostgresStore, migrate_store, open_store
from fencepost.stores.transaction import Transaction
from tests.stores.rig import claim, granted
from tests.support.postgres import PostgresServer
from tests.support.scratch import wait_until

KEYS = '[["default", "lock:a"]]'


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One server for the tests of this file, as safe as they come."""
    with PostgresServer.private({"fsync": "on", "full_page_writes": "on", "max_connections": "20"}) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = open_store(url, new_id="many")
    yield store
    store.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_between_two_verbs_goes_unnoticed(server: PostgresServer, store: PostgresStore, mode: str) -> None:
    lease = granted(store, "lock:a")
    server.restart(mode)  # type: ignore[arg-type]

    store.renew(lease)
    assert store.facts().notices == ()


def test_a_server_that_is_down_is_one_sentence(server: PostgresServer, store: PostgresStore) -> None:
    server.stop()
    try:
        with pytest.raises(StoreUnavailable, match="no server listens there"):
            store.leases()
    finally:
        server.start()
    assert store.leases() == []


def test_a_backend_that_is_ended_in_the_middle_of_a_grant_leaves_nothing_behind(store: PostgresStore, url: str) -> None:
    def grant(tx: Transaction) -> None:
        tx.rows("ensure_resources", keys=KEYS)
        end_sessions(url)
        tx.rows("lock_resources", keys=KEYS)

    with pytest.raises(StoreUnavailable):
        store._dialect.write(grant)
    assert ask(url, "SELECT count(*) FROM fencepost.resource") == 0
    granted(store, "lock:a")


def test_a_renewal_that_is_under_way_is_not_overtaken_by_a_takeover(store: PostgresStore, url: str) -> None:
    lease = granted(store, "lock:a")
    execute(url, "UPDATE fencepost.lease SET expires_us = 0")
    rival = open_store(url, new_id="rival")
    with psycopg.connect(url) as renewing, ThreadPoolExecutor(1) as pool:
        renewing.execute("UPDATE fencepost.lease SET expires_us = fencepost.clock_us() + 30000000")
        answer = pool.submit(rival.acquire, claim("lock:a"))
        wait_until(lambda: ask(url, WAITING) == 1, what="the takeover waits for the renewal")
        renewing.commit()
        assert isinstance(answer.result(), Refused)
    store.renew(lease)
    rival.close()


def test_a_bump_waits_for_the_grants_that_are_under_way(store: PostgresStore, url: str) -> None:
    """They may have read the floor already: once the bump has returned, nothing below it is granted any more."""
    other = open_store(url, new_id="other")
    with ThreadPoolExecutor(1) as pool:

        def grant(tx: Transaction) -> Future[int]:
            tx.rows("ensure_resources", keys=KEYS)
            bump = pool.submit(other.bump, 7)
            wait_until(lambda: ask(url, WAITING) == 1, what="the bump waits for the grant")
            assert not bump.done()
            return bump

        assert store._dialect.write(grant).result() == 7
    other.close()


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_lock_that_is_held_for_too_long_is_given_up(url: str) -> None:
    store = open_store(url, new_id="many", limits=QUICK._replace(lock_ms=50))
    lease = granted(store, "lock:a")
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM fencepost.lease FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="locked by another session"):
            store.renew(lease)
    store.renew(lease)
    store.close()


@pytest.mark.parametrize("often", [False, True], ids=["statement by statement", "in a pipeline"])
@pytest.mark.parametrize("where", ["before a statement", "before the commit"])
def test_a_client_that_froze_in_a_transaction_loses_its_locks_and_does_its_work_anew(
    store: PostgresStore, url: str, where: str, *, often: bool
) -> None:
    frozen = open_store(url, new_id="many", limits=QUICK._replace(idle_ms=300))
    store.release(granted(store, "lock:a"), clean=True)
    tries: list[str] = []

    def freeze(tx: Transaction) -> int:
        tx.rows("lock_resources", keys=KEYS)
        tries.append(where)
        if len(tries) == 1:  # waits until the server has thrown the frozen one out
            store.release(granted(store, "lock:a"), clean=True)
        return len(tx.rows("lock_resources", keys=KEYS)) if where == "before a statement" else 1

    assert frozen._dialect.write(freeze, often=often) == 1
    assert len(tries) == 2
    frozen.close()


def test_a_commit_whose_wait_for_a_standby_was_cancelled_is_unknown_also_when_it_is_found_again(
    server: PostgresServer, store: PostgresStore
) -> None:
    asked = claim("lock:a")
    configure(server, synchronous_standby_names="nobody")
    try:
        with ThreadPoolExecutor(1) as pool:
            for _ in ("granted", "found again"):
                answer = pool.submit(store.acquire, asked)
                wait_until(lambda: ask(server.admin_url, CANCEL_WAITING) == 1, what="the commit waits for a standby")
                with pytest.raises(StoreUnavailable, match="unknown"):
                    answer.result()
    finally:
        configure(server, synchronous_standby_names="")
    assert isinstance(store.acquire(asked), Granted)
    assert len(store.leases()) == 1


CANCEL_WAITING = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def test_a_server_that_may_forget_is_refused(server: PostgresServer, url: str) -> None:
    for setting in ("fsync", "full_page_writes"):
        configure(server, **{setting: "off"})
        try:
            with pytest.raises(StoreUnavailable, match=f"{setting}.*power cut"):
                open_store(url, new_id="many")
        finally:
            configure(server, **{setting: "on"})


def test_lazy_commits_of_the_server_s_default_are_not_ours(server: PostgresServer, url: str) -> None:
    configure(server, synchronous_commit="off")
    try:
        store = open_store(url, new_id="many")
        ((setting,),) = store._dialect.write(lambda tx: tx._connection.execute("SHOW synchronous_commit").fetchall())  # type: ignore[attr-defined]
        assert setting == "on"
        store.close()
    finally:
        configure(server, synchronous_commit="on")


def test_a_read_only_database_is_refused(url: str) -> None:
    execute(url, f"ALTER DATABASE {name(url)} SET default_transaction_read_only = on")

    with pytest.raises(StoreUnavailable, match="read-only"):
        open_store(url, new_id="many")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_of_another_encoding_is_refused(server: PostgresServer, encoding: str) -> None:
    other = encoding.lower()
    settings = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    execute(server.admin_url, f"CREATE DATABASE {other} {settings}")

    with pytest.raises(StoreUnavailable, match=rf"has the encoding {encoding};.*UTF8"):
        open_store(server.url(other), new_id="many")


def test_a_database_that_does_not_exist_is_one_sentence(server: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match='"nowhere" does not exist'):
        open_store(server.url("nowhere"), new_id="many")


def test_a_server_without_connections_to_spare_is_one_sentence(server: PostgresServer, url: str) -> None:
    execute(server.admin_url, "CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")

    with pytest.raises(StoreUnavailable, match="no connection left"):
        open_store(as_role(url, "crowded"), new_id="many")


def test_a_wrong_password_is_one_sentence_that_does_not_repeat_it(server: PostgresServer, url: str) -> None:
    execute(server.admin_url, "CREATE ROLE secretive LOGIN PASSWORD 'right-one'")
    hba = server.data / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text(f"host all secretive 127.0.0.1/32 scram-sha-256\n{before}")
    execute(server.admin_url, "SELECT pg_reload_conf()")
    try:
        for password, sentence in (("wr0ng-one", "refuses the password"), ("", "asks for a password")):
            with pytest.raises(StoreUnavailable, match=sentence) as error:
                open_store(as_role(url, f"secretive:{password}" if password else "secretive"), new_id="many")
            assert "wr0ng" not in str(error.value)
    finally:
        hba.write_text(before)
        execute(server.admin_url, "SELECT pg_reload_conf()")


def test_no_password_is_ever_shown(url: str) -> None:
    store = open_store(as_role(url, "postgres:s3cret") + "?password=s3cret2", new_id="many")

    assert "s3cret" not in repr(store.facts())
    assert store.facts().url.startswith("postgresql://postgres@127.0.0.1:")
    store.close()


def test_a_url_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(Invalid, match="cannot be read") as error:
        open_store("postgresql://me:s3%ret@host/db", new_id="many")
    assert "s3" not in str(error.value)


def test_a_role_without_rights_is_told_whom_to_ask_and_works_once_it_has_them(server: PostgresServer, url: str) -> None:
    execute(server.admin_url, "CREATE ROLE worker LOGIN")
    worker = as_role(url, "worker")
    with pytest.raises(StoreUnavailable, match="have the owner run: fencepost store migrate"):
        open_store(worker, new_id="many")
    assert migrate_store(url, new_id="many") == (0, newest())

    with pytest.raises(StoreUnavailable, match="grant it the rights"):
        open_store(worker, new_id="many")
    execute(url, "GRANT USAGE ON SCHEMA fencepost TO worker")
    execute(url, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencepost TO worker")
    store = open_store(worker, new_id="many")
    store.release(granted(store, "lock:a"), clean=True)
    store.enqueue(claim("lock:a"), "ticket")
    assert store.bump(7) == 7
    store.close()


def test_an_old_schema_is_not_touched_and_its_owner_is_told_what_to_run(url: str) -> None:
    open_store(url, new_id="many").close()
    execute(url, "UPDATE fencepost.meta SET value = '0' WHERE key = 'schema'")

    with pytest.raises(StoreUnavailable, match=r"has schema 0.*fencepost store migrate"):
        open_store(url, new_id="many")


def test_a_schema_that_needs_a_newer_program_is_refused(url: str) -> None:
    open_store(url, new_id="many").close()
    execute(url, "UPDATE fencepost.meta SET value = '99' WHERE key = 'schema'")
    open_store(url, new_id="many").close()
    execute(url, "UPDATE fencepost.meta SET value = '99' WHERE key = 'schema_needs'")

    with pytest.raises(StoreUnavailable, match="needs a Fencepost that knows schema 99"):
        open_store(url, new_id="many")


def test_tables_that_vanish_are_not_made_anew_in_silence(store: PostgresStore, url: str) -> None:
    granted(store, "lock:a")
    execute(url, "DROP SCHEMA fencepost CASCADE")

    with pytest.raises(StoreUnavailable, match="has lost its Fencepost tables"):
        store.acquire(claim("lock:b"))
    store.close()
    with pytest.raises(StoreUnavailable, match="has lost its Fencepost tables"):
        store.acquire(claim("lock:b"))


def test_a_store_that_was_replaced_by_another_is_not_mistaken_for_it(store: PostgresStore, url: str) -> None:
    granted(store, "lock:a")
    store.close()
    execute(url, "UPDATE fencepost.meta SET value = 'other' WHERE key = 'store_id'")

    with pytest.raises(StoreUnavailable, match="replaced by another store"):
        store.leases()


def test_migrating_again_changes_nothing(url: str) -> None:
    assert migrate_store(url, new_id="many") == (0, newest())
    assert migrate_store(url, new_id="another") == (newest(), newest())
    store = open_store(url, new_id="third")
    assert store.facts().id == "many"
    store.close()


def newest() -> int:
    from fencepost.stores.postgres.migrate import newest_schema  # noqa: PLC0415

    return newest_schema()


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row
    return row[0]


def end_sessions(url: str) -> None:
    """Throw everybody out of a database, and return when they are gone."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    execute(url, f"SELECT pg_terminate_backend(pid) {others}")
    wait_until(lambda: ask(url, f"SELECT count(*) {others}") == 0, what="all sessions have ended")


def configure(server: PostgresServer, **settings: str) -> None:
    with psycopg.connect(server.admin_url, autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(f"ALTER SYSTEM SET {setting} = '{value}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    for setting, value in settings.items():
        wait_until(lambda setting=setting, value=value: ask(server.admin_url, f"SHOW {setting}") == value, what=setting)  # type: ignore[misc]


def name(url: str) -> str:
    return urlsplit(url).path[1:]


def as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{role}@{parts.hostname}:{parts.port}").geturl()


def test_a_server_that_crashed_is_told_by_the_first_of_libpqs_lines() -> None:
    from fencepost.stores.postgres.errors import unavailable  # noqa: PLC0415
    from fencepost.stores.postgres.server import at  # noqa: PLC0415

    server = at("postgresql://db/fencepost")
    crashed = (
        "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n"
        "\tbefore or while processing the request."
    )
    odd = "consuming input failed: something odd\n\tand a guess at why."

    assert "it has crashed, or was restarted" in str(unavailable(server, psycopg.OperationalError(crashed)))
    told = str(unavailable(server, psycopg.OperationalError(odd)))
    assert told == "postgresql://db/fencepost cannot be used: consuming input failed: something odd."


def test_what_psycopg_logs_of_a_broken_pipeline_is_not_printed_raw() -> None:
    program = (
        "import logging, fencepost.stores.postgres.server\n"
        "logging.getLogger('psycopg').warning('error ignored terminating %r', 'pipeline')"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert said.stderr == b""
