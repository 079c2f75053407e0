"""PostgreSQL behind a network that misbehaves: bounded, honest, and right when asked again."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from fencepost.model.errors import StoreUnavailable
from fencepost.model.lease import Granted, Refused
from fencepost.stores.lease_rows import kept
from fencepost.stores.postgres.dialect import QUICK, TRIES
from fencepost.stores.postgres.store import PostgresStore, open_store
from fencepost.stores.transaction import Transaction
from tests.stores.rig import claim, granted
from tests.support.proxy import COMMIT, CutAt, Direction, Fail, FaultyProxy, Hold, Moment, Pass, Refuse, Reset, Silence

IMPATIENT = QUICK._replace(silence_seconds=0.3)
INSERT_LEASE = re.compile(rb"INSERT INTO fencepost\.lease")
RENEW = re.compile(rb"UPDATE fencepost\.lease\s+SET expires_us")


@pytest.fixture
def store(faulty_proxy: FaultyProxy) -> Iterator[PostgresStore]:
    store = open_store(faulty_proxy.url, new_id="far", limits=IMPATIENT, allow_lossy=True)
    yield store
    store.close()


@pytest.mark.parametrize("moment", Moment)
def test_a_connection_cut_at_commit_is_reported_as_unknown_and_asking_again_is_right(
    store: PostgresStore, faulty_proxy: FaultyProxy, moment: Moment
) -> None:
    asked = claim("lock:a")
    faulty_proxy.switch(CutAt(moment))
    with pytest.raises(StoreUnavailable, match="unknown"):
        store.acquire(asked)
    assert faulty_proxy.bites == 1

    before = store.leases()
    assert len(before) == (moment is Moment.AFTER)
    answer = store.acquire(asked)
    assert isinstance(answer, Granted)
    assert [held.fence for held in store.leases()] == [answer.lease.fence]
    assert not before or before[0].fence == answer.lease.fence
    assert isinstance(store.acquire(claim("lock:a")), Refused)


def test_a_connection_cut_in_the_middle_of_a_grant_leaves_nothing_behind(
    store: PostgresStore, faulty_proxy: FaultyProxy
) -> None:
    faulty_proxy.switch(CutAt(Moment.AFTER, INSERT_LEASE))
    with pytest.raises(StoreUnavailable) as error:
        store.acquire(claim("lock:a"))
    assert "unknown" not in str(error.value)
    assert faulty_proxy.bites == 1

    assert store.leases() == []
    granted(store, "lock:a")


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
@pytest.mark.parametrize("pattern", [INSERT_LEASE, COMMIT], ids=["statement", "commit"])
def test_a_grant_that_got_in_the_way_of_others_is_tried_again(
    store: PostgresStore, faulty_proxy: FaultyProxy, sqlstate: str, pattern: re.Pattern[bytes]
) -> None:
    faulty_proxy.switch(Fail(sqlstate, pattern))
    lease = granted(store, "lock:a")

    assert faulty_proxy.bites == 1
    assert [held.fence for held in store.leases()] == [lease.fence]


def test_trying_again_has_an_end(store: PostgresStore) -> None:
    tries = []

    def never(tx: Transaction) -> None:
        tries.append(tx)
        raise psycopg.errors.SerializationFailure("again")

    with pytest.raises(StoreUnavailable, match="too many writers"):
        store._dialect.write(never)
    assert len(tries) == TRIES
    granted(store, "lock:a")


def test_a_silent_network_is_given_up_and_used_again_when_it_heals(
    store: PostgresStore, faulty_proxy: FaultyProxy
) -> None:
    lease = granted(store, "lock:a")
    faulty_proxy.switch(Silence())
    with pytest.raises(StoreUnavailable, match="silent"):
        store.renew(lease)

    faulty_proxy.switch(Pass())
    store.renew(lease)


def test_silence_at_commit_is_an_unknown_outcome(store: PostgresStore, faulty_proxy: FaultyProxy) -> None:
    lease = granted(store, "lock:a")

    def go_silent(tx: Transaction) -> None:
        tx.rows("renew_leases", leases=kept([lease]))
        faulty_proxy.switch(Hold(Direction.TO_CLIENT))

    with pytest.raises(StoreUnavailable, match="unknown"):
        store._dialect.write(go_silent)
    faulty_proxy.switch(Pass())
    store.renew(lease)


def test_a_connection_that_died_between_two_verbs_is_replaced_without_a_word(
    store: PostgresStore, faulty_proxy: FaultyProxy
) -> None:
    lease = granted(store, "lock:a")
    for reset in (False, True):
        faulty_proxy.cut_all(reset=reset)
        store.renew(lease)


@pytest.mark.parametrize("mode", [Refuse(), Reset()], ids=["refused", "reset"])
def test_a_server_that_cannot_be_reached_is_one_sentence_and_no_spin(
    store: PostgresStore, faulty_proxy: FaultyProxy, mode: Refuse | Reset
) -> None:
    lease = granted(store, "lock:a")
    faulty_proxy.switch(mode)
    faulty_proxy.cut_all()
    with pytest.raises(StoreUnavailable) as error:
        store.renew(lease)
    assert "\n" not in str(error.value)

    faulty_proxy.switch(Pass())
    store.renew(lease)


def test_a_server_that_accepts_and_says_nothing_is_given_up_while_connecting(faulty_proxy: FaultyProxy) -> None:
    faulty_proxy.switch(Silence())
    with pytest.raises(StoreUnavailable, match="no answer in time"):
        open_store(f"{faulty_proxy.url}&connect_timeout=2", new_id="far", allow_lossy=True)


SENTENCES = {
    "25006": "read-only",
    "42501": "grant it the rights",
    "42P01": "store restore",
    "53100": "no disk space left",
    "53300": "no connection left",
    "55P03": "locked by another session",
    "57014": "longer for a statement",
    "XX000": "cannot be used: injected by the test",
}


@pytest.mark.parametrize("sqlstate", SENTENCES)
def test_what_the_server_refuses_is_one_sentence_each(
    store: PostgresStore, faulty_proxy: FaultyProxy, sqlstate: str
) -> None:
    lease = granted(store, "lock:a")
    faulty_proxy.switch(Fail(sqlstate, RENEW))
    with pytest.raises(StoreUnavailable, match=SENTENCES[sqlstate]):
        store.renew(lease)

    store.renew(lease)


def test_what_is_read_is_right_although_the_farewell_fails(store: PostgresStore, faulty_proxy: FaultyProxy) -> None:
    lease = granted(store, "lock:a")
    faulty_proxy.switch(CutAt(Moment.BEFORE, re.compile(rb"Q.{4}ROLLBACK")))

    assert [held.fence for held in store.leases()] == [lease.fence]
    store.renew(lease)
