"""How leases are kept, end and are lost, on either store."""

import pytest

from fencepost.model.errors import LeaseLost
from fencepost.model.lease import Granted, Held, Lease, Refused
from tests.stores.rig import AnyStore, Rig, claim, granted


def held(store: AnyStore, lease: Lease) -> Held:
    return next(one for one in store.leases() if one.id == lease.id)


def zombie_and_successor(rig: Rig) -> tuple[Lease, Lease]:
    """Return a holder that overslept, and the one that was granted its resource since."""
    old = granted(rig.store, "lock:a", ttl=30.0)
    rig.pass_time(31)
    return old, granted(rig.store, "lock:a")


def test_a_lease_ends_at_its_very_instant_and_not_before(rig: Rig) -> None:
    granted(rig.store, "lock:a", ttl=30.0)

    rig.pass_time(29.999_999)
    assert isinstance(rig.store.acquire(claim("lock:a")), Refused)
    rig.pass_time(0.000_001)
    assert isinstance(rig.store.acquire(claim("lock:a")), Granted)


def test_a_renewal_gives_the_whole_time_to_live_again(rig: Rig) -> None:
    lease = granted(rig.store, "lock:a", ttl=30.0)
    rig.pass_time(29)
    rig.store.renew(lease)
    rig.pass_time(29)

    assert isinstance(rig.store.acquire(claim("lock:a")), Refused)
    assert held(rig.store, lease).renewals == 1


def test_a_late_holder_that_nobody_replaced_may_renew(rig: Rig) -> None:
    lease = granted(rig.store, "lock:a", ttl=30.0)
    rig.pass_time(31)
    rig.store.renew(lease)

    assert isinstance(rig.store.acquire(claim("lock:a")), Refused)


def test_a_start_is_recorded(rig: Rig) -> None:
    lease = granted(rig.store, "lock:a")
    assert held(rig.store, lease).started_us is None
    rig.store.start(lease)

    assert held(rig.store, lease).started_us == rig.now_us()


def test_a_release_frees_the_resources_at_once(store: AnyStore) -> None:
    store.release(granted(store, "lock:a", "lock:b"), clean=True)

    granted(store, "lock:a", "lock:b")
    assert len(store.leases()) == 1


@pytest.mark.parametrize("verb", ["renew", "start", "release", "release dirty"])
def test_a_zombie_changes_nothing_of_its_successor_s(rig: Rig, verb: str) -> None:
    old, new = zombie_and_successor(rig)
    before = rig.contents()

    with pytest.raises(LeaseLost):
        do(rig.store, verb, old)

    assert rig.contents() == before
    assert isinstance(rig.store.acquire(claim("lock:a")), Refused)
    rig.store.renew(new)


@pytest.mark.parametrize("verb", ["renew", "start", "release", "release dirty"])
def test_a_lease_with_another_fence_is_not_ours(rig: Rig, verb: str) -> None:
    lease = granted(rig.store, "lock:a")
    before = rig.contents()

    with pytest.raises(LeaseLost):
        do(rig.store, verb, lease._replace(fence=lease.fence - 1))
    assert rig.contents() == before


def test_a_second_release_frees_nobody_else_s(store: AnyStore) -> None:
    first = granted(store, "lock:a")
    store.release(first, clean=True)
    second = granted(store, "lock:a")

    with pytest.raises(LeaseLost):
        store.release(first, clean=True)
    store.renew(second)


def test_a_lease_is_broken_only_as_it_was_seen(rig: Rig) -> None:
    lease = granted(rig.store, "lock:a")
    seen = held(rig.store, lease)

    assert not rig.store.break_lease(seen._replace(fence=seen.fence - 1), why="test")
    rig.store.renew(lease)
    assert rig.store.break_lease(seen, why="test")
    assert not rig.store.break_lease(seen, why="test")
    with pytest.raises(LeaseLost):
        rig.store.renew(lease)


def test_a_broken_lease_frees_all_its_resources_and_names_its_holder_as_predecessor(store: AnyStore) -> None:
    lease = granted(store, "lock:a", "lock:b")
    store.break_lease(held(store, lease), why="test")

    for name in ("lock:a", "lock:b"):
        answer = store.acquire(claim(name))
        assert isinstance(answer, Granted)
        assert [one.id for one in answer.predecessors] == [lease.id]


def test_breaking_a_lease_that_changed_hands_does_not_touch_the_new_holder(rig: Rig) -> None:
    old = granted(rig.store, "lock:a", ttl=30.0)
    seen = held(rig.store, old)
    rig.pass_time(31)
    new = granted(rig.store, "lock:a")

    assert not rig.store.break_lease(seen, why="test")
    rig.store.renew(new)


def test_dead_evidence_takes_over_at_once(store: AnyStore) -> None:
    old = granted(store, "lock:a")
    answer = store.acquire(claim("lock:a"), dead=[old.id])

    assert isinstance(answer, Granted)
    assert [(one.id, one.lost) for one in answer.predecessors] == [(old.id, True)]
    with pytest.raises(LeaseLost):
        store.renew(old)


def test_dead_evidence_counts_only_for_the_lease_it_names(store: AnyStore) -> None:
    one = granted(store, "lock:a")
    other = granted(store, "lock:b")

    assert isinstance(store.acquire(claim("lock:a", "lock:b"), dead=[one.id]), Refused)
    assert isinstance(store.acquire(claim("lock:a"), dead=[other.id]), Refused)
    store.renew(one)
    store.renew(other)


def test_the_rest_of_a_dead_lease_is_free_for_others_too(store: AnyStore) -> None:
    dead = granted(store, "lock:a", "lock:b")
    store.acquire(claim("lock:a"), dead=[dead.id])

    assert isinstance(store.acquire(claim("lock:b")), Granted)


def test_predecessors_are_reported_until_they_are_buried(rig: Rig) -> None:
    old, new = zombie_and_successor(rig)
    rig.store.release(new, clean=True)

    answer = rig.store.acquire(claim("lock:a"))
    assert isinstance(answer, Granted)
    assert [one.id for one in answer.predecessors] == [old.id]

    rig.store.bury(answer.predecessors[0])
    rig.store.release(answer.lease, clean=True)
    answer = rig.store.acquire(claim("lock:a"))
    assert isinstance(answer, Granted)
    assert answer.predecessors == ()


def test_a_predecessor_is_news_to_the_first_grant_after_it_and_to_no_later_one(rig: Rig) -> None:
    old = granted(rig.store, "lock:a", "lock:b", ttl=30.0)
    rig.pass_time(31)

    for resource, is_met in (("lock:a", False), ("lock:a", True), ("lock:b", True)):
        asked = claim(resource)
        for _ in range(2):  # an answer that was lost on its way is given again
            answer = rig.store.acquire(asked)
            assert isinstance(answer, Granted)
            assert [one.id for one in answer.predecessors] == [old.id]
            assert answer.predecessors[0].met is is_met
            is_met = False  # noqa: PLW2901  # whether the first answer was heard, nobody knows
        assert isinstance(answer, Granted)
        rig.store.release(answer.lease, clean=True)


def test_only_the_lost_are_buried_and_only_with_their_fence(rig: Rig) -> None:
    old, new = zombie_and_successor(rig)
    rig.store.bury(new)
    rig.store.bury(old._replace(fence=old.fence - 1))

    assert {one.id for one in rig.store.leases()} == {old.id, new.id}
    rig.store.bury(old)
    assert {one.id for one in rig.store.leases()} == {new.id}


def test_an_end_with_processes_left_frees_the_resource_and_leaves_a_predecessor(store: AnyStore) -> None:
    lease = granted(store, "lock:a")
    store.release(lease, clean=False)

    answer = store.acquire(claim("lock:a"))
    assert isinstance(answer, Granted)
    assert [one.id for one in answer.predecessors] == [lease.id]


def test_gates_are_owed_until_a_clean_end(rig: Rig) -> None:
    granted(rig.store, "lock:a", ttl=30.0, gates=("file:x", "file:y"))
    rig.pass_time(31)
    second = granted(rig.store, "lock:a", ttl=30.0, gates=("file:z",))
    assert set(second.gates) == {"file:x", "file:y", "file:z"}
    rig.pass_time(31)
    third = granted(rig.store, "lock:a")
    assert set(third.gates) == {"file:x", "file:y", "file:z"}

    rig.store.start(third)
    rig.store.release(third, clean=True)
    assert granted(rig.store, "lock:a", gates=("file:w",)).gates == ("file:w",)


def test_an_agent_that_failed_still_owes_the_gates_of_other_machines(store: AnyStore) -> None:
    """A request of its own may be under way there, with nobody left who waits for the answer."""
    first = granted(store, "lock:a", gates=("file:x", "http:http://127.0.0.1:1/y"))
    store.start(first)
    store.release(first, clean=True, answered=False)
    second = granted(store, "lock:a", gates=("dir:z",))
    assert set(second.gates) == {"http:http://127.0.0.1:1/y", "dir:z"}

    store.start(second)
    store.release(second, clean=True)
    assert granted(store, "lock:a").gates == ()


def test_the_row_of_a_run_that_failed_owes_nothing_and_can_be_pruned(store: AnyStore) -> None:
    """Nobody but its next attempt leases it, and that declares the same gates."""
    first = granted(store, "lock:a", "run:r1", gates=("redis:env:R",))
    store.start(first)
    store.release(first, clean=True, answered=False)

    assert granted(store, "run:r1").gates == ()
    assert granted(store, "lock:a").gates == ("redis:env:R",)


def test_gates_stay_owed_by_one_that_never_started(rig: Rig) -> None:
    """It may not have raised them: what came before it is still not fenced off."""
    granted(rig.store, "lock:a", ttl=30.0, gates=("file:x",))
    rig.pass_time(31)
    rig.store.release(granted(rig.store, "lock:a"), clean=True)

    assert granted(rig.store, "lock:a").gates == ("file:x",)


def test_the_gates_of_one_that_never_started_are_not_owed_for_its_sake(store: AnyStore) -> None:
    """A slip in the name of a gate would else close the resource for everybody who comes later."""
    store.release(granted(store, "lock:a", gates=("redis:env:SLIP",)), clean=True)

    assert granted(store, "lock:a").gates == ()


def test_gates_stay_owed_after_a_break_and_after_an_end_with_processes_left(store: AnyStore) -> None:
    first = granted(store, "lock:a", gates=("file:x",))
    store.break_lease(held(store, first), why="test")
    second = granted(store, "lock:a", gates=("file:y",))
    store.release(second, clean=False)

    assert set(granted(store, "lock:a").gates) == {"file:x", "file:y"}


def test_gates_are_owed_per_resource(rig: Rig) -> None:
    granted(rig.store, "lock:a", ttl=30.0, gates=("file:x",))
    granted(rig.store, "lock:b", ttl=30.0, gates=("file:y",))
    rig.pass_time(31)

    assert set(granted(rig.store, "lock:a", "lock:b", "lock:c").gates) == {"file:x", "file:y"}


def do(store: AnyStore, verb: str, lease: Lease) -> None:
    match verb:
        case "renew":
            store.renew(lease)
        case "start":
            store.start(lease)
        case "release":
            store.release(lease, clean=True)
        case _:
            store.release(lease, clean=False)
