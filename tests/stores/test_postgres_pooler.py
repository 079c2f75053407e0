"""PostgreSQL behind PgBouncer: nothing rests on a session."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Granted, Refused
from fencepost.operations import store_maintenance
from fencepost.stores.postgres.store import migrate_store, open_store
from tests.stores.rig import claim, granted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.pgbouncer import PoolMode

Pooler = Callable[["PoolMode"], str]


def test_the_verbs_work_behind_a_transaction_pooler(pgbouncer_url: Pooler, tmp_path: "Path") -> None:
    url = pgbouncer_url("transaction")
    one, other = (open_store(url, new_id="pooled", allow_lossy=True) for _ in range(2))
    lease = granted(one, "lock:a", "lock:b", gates=("file:x",))
    assert isinstance(other.acquire(claim("lock:a")), Refused)
    one.start(lease)
    one.renew(lease)
    other.enqueue(claim("lock:a"), "ticket")
    assert [waiter.id for waiter in one.waiters()] == ["ticket"]
    one.release(lease, clean=True)
    with pytest.raises(LeaseLost):
        one.renew(lease)
    assert isinstance(other.acquire(claim("lock:a"), ticket="ticket"), Granted)
    assert one.look(claim("lock:b")) is None
    assert one.bump(7) == 7
    store_maintenance.backup(one, str(tmp_path / "backup"))
    store_maintenance.restore(one, str(tmp_path / "backup"), confirm=lambda _: True)
    one.close()
    other.close()


def test_many_more_clients_than_connections_never_hold_together(pgbouncer_url: Pooler) -> None:
    url = pgbouncer_url("transaction")

    def work(number: int) -> list[int]:
        store = open_store(url, new_id="pooled", allow_lossy=True)
        fences: list[int] = []
        while len(fences) < 3:
            answer = store.acquire(claim("lock:a"))
            if isinstance(answer, Granted):
                fences.append(answer.lease.fence)
                store.release(answer.lease, clean=number % 2 == 0)
        store.close()
        return fences

    with ThreadPoolExecutor(10) as pool:
        fences = [fence for found in pool.map(work, range(10)) for fence in found]
    assert len(set(fences)) == 30


def test_migrations_work_behind_a_transaction_pooler(pgbouncer_url: Pooler) -> None:
    url = pgbouncer_url("transaction")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: migrate_store(url, new_id="pooled", allow_lossy=True), range(4)))

    assert sum(before == 0 for before, _ in answers) == 1


def test_a_statement_pooler_is_refused_with_a_sentence(pgbouncer_url: Pooler) -> None:
    with pytest.raises(StoreUnavailable, match=r"statement mode.*pool_mode = transaction"):
        open_store(pgbouncer_url("statement"), new_id="pooled", allow_lossy=True)
