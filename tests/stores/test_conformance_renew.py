"""Renewing many leases at once, on both stores: each gets its own answer, and none holds up the others."""

from typing import TYPE_CHECKING

import pytest

from fencepost.model.errors import LeaseLost, LeaseMoved
from fencepost.model.lease import Lease
from fencepost.ports.store import RENEWED_AT_ONCE
from tests.stores.rig import AnyStore, Rig, granted
from tests.support.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable


def hold(store: AnyStore, *names: str, ttl: float = 30) -> list[Lease]:
    return [granted(store, f"lock:{name}", ttl=ttl) for name in names]


def left_seconds(store: AnyStore) -> list[float]:
    return [held.remaining_seconds for held in store.leases()]


def test_all_are_renewed_each_by_its_own_time_to_live(rig: Rig) -> None:
    leases = [*hold(rig.store, "a", ttl=10), *hold(rig.store, "b", ttl=20)]
    rig.pass_time(5)
    assert rig.store.renew_leases(leases) == {lease.id: "renewed" for lease in leases}
    assert left_seconds(rig.store) == [10, 20]
    assert [held.renewals for held in rig.store.leases()] == [1, 1]


def test_no_leases_are_renewed_without_a_word(store: AnyStore) -> None:
    assert store.renew_leases([]) == {}


def test_a_full_batch_is_renewed(rig: Rig) -> None:
    leases = hold(rig.store, *map(str, range(RENEWED_AT_ONCE)))
    assert set(rig.store.renew_leases(leases).values()) == {"renewed"}


def test_the_lost_ones_are_named_and_the_others_renewed(rig: Rig) -> None:
    ended, broken, replaced, good = hold(rig.store, "a", "b", "c", "d", ttl=10)
    rig.store.release(ended, clean=True)
    rig.store.break_lease(next(held for held in rig.store.leases() if held.id == broken.id), why="test")
    rig.pass_time(11)
    heir = granted(rig.store, "lock:c")
    answers = rig.store.renew_leases([ended, broken, replaced, good, heir])
    assert answers == {
        ended.id: "lost",
        broken.id: "lost",
        replaced.id: "lost",
        good.id: "renewed",
        heir.id: "renewed",
    }


def test_a_late_one_that_nobody_replaced_is_renewed(rig: Rig) -> None:
    (late,) = hold(rig.store, "a", ttl=5)
    rig.pass_time(60)
    assert rig.store.renew_leases([late]) == {late.id: "renewed"}


def test_another_fence_renews_nothing(rig: Rig) -> None:
    (lease,) = hold(rig.store, "a")
    before = rig.contents()
    assert rig.store.renew_leases([lease._replace(fence=lease.fence - 1)]) == {lease.id: "lost"}
    assert rig.contents() == before


@pytest.mark.parametrize("verb", ["renew", "start", "release", "release dirty"])
def test_a_worker_whose_lease_was_adopted_is_told_so_and_changes_nothing(rig: Rig, verb: str) -> None:
    runtime = Runtime(rig)
    (lease,) = hold(rig.store, "a")
    runtime.sql("UPDATE $lease SET epoch = 1, keeper = 'another'")
    before = rig.contents()
    assert rig.store.renew_leases([lease]) == {lease.id: "moved"}
    store = rig.store
    verbs: dict[str, Callable[[], object]] = {
        "renew": lambda: store.renew(lease),
        "start": lambda: store.start(lease),
        "release": lambda: store.release(lease, clean=True),
        "release dirty": lambda: store.release(lease, clean=False),
    }
    with pytest.raises(LeaseMoved, match="another worker"):
        verbs[verb]()
    assert rig.contents() == before
    assert rig.store.renew_leases([lease._replace(epoch=1)]) == {lease.id: "renewed"}


def test_a_keeper_of_an_epoch_that_never_was_has_no_lease(rig: Rig) -> None:
    (lease,) = hold(rig.store, "a")
    assert rig.store.renew_leases([lease._replace(epoch=3)]) == {lease.id: "lost"}
    with pytest.raises(LeaseLost) as raised:
        rig.store.renew(lease._replace(epoch=3))
    assert type(raised.value) is LeaseLost


def test_a_lease_that_was_adopted_is_not_broken_by_what_was_seen_before(rig: Rig) -> None:
    runtime = Runtime(rig)
    (lease,) = hold(rig.store, "a")
    (seen,) = rig.store.leases()
    runtime.sql("UPDATE $lease SET epoch = 1")
    assert not rig.store.break_lease(seen, why="test")
    (now,) = rig.store.leases()
    assert (now.id, now.lost, now.epoch) == (lease.id, False, 1)
    assert rig.store.break_lease(now, why="test")


@pytest.mark.parametrize("rig", ["postgresql"], indirect=True)  # SQLite has one writer, and is waited for as a whole
def test_what_another_transaction_has_locked_is_busy_and_holds_up_nobody(rig: Rig) -> None:
    busy, free = hold(rig.store, "a", "b", ttl=10)
    other = rig.open_another()
    rig.pass_time(4)

    def sit(tx: object) -> dict[str, str]:
        tx.rows("lock_leases", ids=f'["{busy.id}"]')  # type: ignore[attr-defined]
        return rig.store.renew_leases([busy, free])

    assert other._dialect.write(sit) == {busy.id: "busy", free.id: "renewed"}
    assert sorted(left_seconds(rig.store)) == [6, 10]
    assert rig.store.renew_leases([busy, free]) == {busy.id: "renewed", free.id: "renewed"}
