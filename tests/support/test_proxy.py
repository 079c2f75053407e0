"""What tests may rely on when they put a proxy between a client and PostgreSQL."""

import re
import time
from collections.abc import Iterator
from threading import Thread, active_count

import psycopg
import pytest

from tests.support.proxy import (
    CutAfter,
    CutAt,
    Delay,
    Direction,
    Fail,
    FaultyProxy,
    Hold,
    Mode,
    Moment,
    Pass,
    Refuse,
    Reset,
    Silence,
)
from tests.support.scratch import wait_until


@pytest.fixture
def direct(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Look at the database past the proxy."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE effect (id int)")
        yield connection


def test_passing_forwards_large_and_small_messages_unchanged(faulty_proxy: FaultyProxy) -> None:
    text = "fence" * 1_000_000
    with psycopg.connect(faulty_proxy.url) as connection:
        assert connection.execute("SELECT %s::text", [text]).fetchone() == (text,)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert faulty_proxy.bites == 0


def test_refusing_turns_new_connections_away_and_leaves_the_others(faulty_proxy: FaultyProxy) -> None:
    with psycopg.connect(faulty_proxy.url) as connection:
        faulty_proxy.switch(Refuse())
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(faulty_proxy.url)
        connection.execute("SELECT 1")

        faulty_proxy.switch(Pass())
        psycopg.connect(faulty_proxy.url).close()


def test_silence_accepts_a_connection_and_never_says_anything(faulty_proxy: FaultyProxy) -> None:
    faulty_proxy.switch(Silence())
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(faulty_proxy.url, connect_timeout=2)


def test_what_was_held_in_silence_arrives_when_the_silence_ends(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        faulty_proxy.switch(Silence())
        thread = Thread(target=connection.execute, args=["INSERT INTO effect VALUES (1)"])
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert effects(direct) == 0

        faulty_proxy.switch(Pass())
        thread.join()
    assert effects(direct) == 1


@pytest.mark.parametrize(("direction", "arrived"), [(Direction.TO_SERVER, 0), (Direction.TO_CLIENT, 1)])
def test_one_direction_can_be_held_alone(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection, direction: Direction, arrived: int
) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        faulty_proxy.switch(Hold(direction))
        thread = Thread(target=connection.execute, args=["INSERT INTO effect VALUES (1)"])
        thread.start()
        thread.join(0.2)
        wait_until(lambda: effects(direct) == arrived, what=f"{arrived} of one statements arrived")
        assert thread.is_alive()

        faulty_proxy.switch(Pass())
        thread.join()


def test_the_server_is_not_told_of_a_client_that_left_in_silence(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    with psycopg.connect(faulty_proxy.url) as connection:
        connection.execute("LOCK TABLE effect")
        faulty_proxy.switch(Silence())
        connection.close()

        with pytest.raises(psycopg.errors.LockNotAvailable):
            direct.execute("SET lock_timeout = '100ms'; SELECT count(*) FROM effect")
        faulty_proxy.switch(Pass())
        wait_until(lambda: not locked(direct), what="the lock of the client that left is free")


def test_a_delay_slows_each_statement_down_and_can_be_lifted(faulty_proxy: FaultyProxy) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        faulty_proxy.switch(Delay(0.2))
        assert seconds_to_execute(connection) >= 0.2
        faulty_proxy.switch(Delay(30))
        thread = Thread(target=connection.execute, args=["SELECT 1"])
        thread.start()
        thread.join(0.2)
        faulty_proxy.switch(Pass())
        thread.join(20)
        assert not thread.is_alive()


def test_a_commit_cut_before_the_server_saw_it_leaves_nothing(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    faulty_proxy.switch(CutAt(Moment.BEFORE))
    with pytest.raises(psycopg.OperationalError), psycopg.connect(faulty_proxy.url) as connection:
        connection.execute("INSERT INTO effect VALUES (1)")

    assert faulty_proxy.bites == 1
    wait_until(lambda: not locked(direct), what="the server has noticed")
    assert effects(direct) == 0


def test_a_commit_cut_after_the_server_carried_it_out_stands_though_the_client_saw_it_fail(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    faulty_proxy.switch(CutAt(Moment.AFTER))
    with pytest.raises(psycopg.OperationalError), psycopg.connect(faulty_proxy.url) as connection:
        connection.execute("INSERT INTO effect VALUES (1)")

    assert faulty_proxy.bites == 1
    assert effects(direct) == 1


@pytest.mark.parametrize(("moment", "kept"), [(Moment.BEFORE, 0), (Moment.AFTER, 1)])
def test_a_pipelined_commit_is_cut_as_well(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection, moment: Moment, kept: int
) -> None:
    faulty_proxy.switch(CutAt(moment))
    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(faulty_proxy.url, autocommit=True) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        connection.execute("INSERT INTO effect VALUES (1)")

    assert faulty_proxy.bites == 1
    assert effects(direct) == kept


def test_a_statement_that_commits_by_itself_can_be_cut_by_its_text(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    faulty_proxy.switch(CutAt(Moment.AFTER, re.compile(rb"INSERT INTO effect")))
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection, pytest.raises(psycopg.OperationalError):
        connection.execute("INSERT INTO effect VALUES (1)")

    assert effects(direct) == 1


def test_only_one_commit_is_cut_and_a_mention_of_the_word_is_none(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection
) -> None:
    faulty_proxy.switch(CutAt(Moment.BEFORE))
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        connection.execute("SHOW synchronous_commit")
        connection.execute("SELECT 'COMMIT'")
        with pytest.raises(psycopg.OperationalError), connection.transaction():
            connection.execute("SELECT 1")
    with psycopg.connect(faulty_proxy.url) as connection:
        connection.execute("INSERT INTO effect VALUES (1)")

    assert effects(direct) == 1


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("count", [0, 1, 20])
def test_a_connection_can_be_cut_after_any_number_of_bytes(
    faulty_proxy: FaultyProxy, direction: Direction, count: int
) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        faulty_proxy.switch(CutAfter(count, direction))
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 'a statement and an answer of more than twenty bytes'")

    assert faulty_proxy.bites == 1
    psycopg.connect(faulty_proxy.url).close()


def test_a_reset_hits_open_connections_and_new_ones(faulty_proxy: FaultyProxy) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=True) as connection:
        faulty_proxy.switch(Reset())
        with pytest.raises(psycopg.OperationalError, match=r"reset|closed"):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match=r"reset|closed"):
        psycopg.connect(faulty_proxy.url)
    assert faulty_proxy.bites >= 2


@pytest.mark.parametrize("reset", [False, True])
def test_all_connections_can_be_cut_at_once_without_closing_the_door(faulty_proxy: FaultyProxy, *, reset: bool) -> None:
    with psycopg.connect(faulty_proxy.url) as one, psycopg.connect(faulty_proxy.url) as other:
        faulty_proxy.cut_all(reset=reset)
        for connection in (one, other):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    psycopg.connect(faulty_proxy.url).close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_statement_can_be_answered_with_an_error_of_choice_once(
    faulty_proxy: FaultyProxy, direct: psycopg.Connection, *, autocommit: bool
) -> None:
    with psycopg.connect(faulty_proxy.url, autocommit=autocommit) as connection:
        faulty_proxy.switch(Fail("40001", re.compile(rb"INSERT")))
        with pytest.raises(psycopg.errors.SerializationFailure):
            connection.execute("INSERT INTO effect VALUES (1)")
        connection.rollback()
        connection.execute("INSERT INTO effect VALUES (2)")

    assert faulty_proxy.bites == 1
    assert effects(direct) == 1


@pytest.mark.parametrize("mode", [Pass(), Refuse(), Silence(), Delay(60), Reset()])
def test_stopping_closes_everything_in_any_mode(postgres_url: str, mode: Mode) -> None:
    threads = active_count()
    with FaultyProxy(postgres_url) as proxy:
        connection = psycopg.connect(proxy.url)
        proxy.switch(mode)
    with connection, pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(proxy.url)
    assert active_count() == threads


def effects(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM effect").fetchone()
    assert row is not None
    return int(row[0])


def locked(connection: psycopg.Connection) -> bool:
    """Tell whether anybody holds a lock on the table that a transaction over it would take."""
    query = "SELECT 1 FROM pg_locks WHERE relation = 'effect'::regclass AND pid <> pg_backend_pid()"
    return connection.execute(query).fetchone() is not None


def seconds_to_execute(connection: psycopg.Connection) -> float:
    start = time.perf_counter()
    connection.execute("SELECT 1")
    return time.perf_counter() - start
