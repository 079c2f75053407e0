"""What a grant means, on either store."""

import pytest

from fencepost.model.errors import LeaseLost
from fencepost.model.lease import NAME_MAX, Granted, Refused, resource
from tests.stores.rig import AnyStore, Rig, claim, granted


def test_a_resource_is_granted_to_one_at_a_time(store: AnyStore) -> None:
    first = granted(store, "lock:a")
    answer = store.acquire(claim("lock:a"))

    assert isinstance(answer, Refused)
    assert [held.fence for held in answer.holders] == [first.fence]
    assert answer.position == 1


def test_the_refused_are_told_who_holds_it_and_for_how_long(rig: Rig) -> None:
    asked = claim("lock:a", ttl=30.0, label="nightly ✓")
    rig.store.acquire(asked)
    rig.pass_time(10)
    answer = rig.store.acquire(claim("lock:a"))

    assert isinstance(answer, Refused)
    (held,) = answer.holders
    assert (held.run_id, held.label, held.supervisor) == (asked.run_id, "nightly ✓", asked.supervisor)
    assert held.remaining_seconds == pytest.approx(20)
    assert held.expires_us == rig.now_us() + 20_000_000


def test_another_door_to_the_same_store_sees_the_same_lease(rig: Rig) -> None:
    granted(rig.store, "lock:a")

    assert isinstance(rig.open_another().acquire(claim("lock:a")), Refused)


def test_different_resources_do_not_meet(store: AnyStore) -> None:
    granted(store, "lock:a")
    granted(store, "lock:b")


def test_several_resources_are_granted_together_with_one_fence(store: AnyStore) -> None:
    lease = granted(store, "lock:b", "lock:a", "project:p")

    assert set(lease.resources) == {"lock:a", "lock:b", "project:p"}
    for name in lease.resources:
        assert isinstance(store.acquire(claim(name)), Refused)


def test_one_busy_resource_keeps_all_others_free(store: AnyStore) -> None:
    granted(store, "lock:b")
    assert isinstance(store.acquire(claim("lock:a", "lock:b", "lock:c")), Refused)

    granted(store, "lock:a")
    granted(store, "lock:c")


def test_the_same_resource_named_twice_is_one(store: AnyStore) -> None:
    assert granted(store, "lock:a", "lock:a").resources == ("lock:a",)


def test_a_process_that_asks_twice_is_two_holders_and_the_second_is_refused(store: AnyStore) -> None:
    first, second = claim("lock:a"), claim("lock:a")
    assert first.supervisor == second.supervisor
    store.acquire(first)

    assert isinstance(store.acquire(second), Refused)


def test_a_refusal_tells_by_the_store_s_clock_for_how_long_it_has_been_held(rig: Rig) -> None:
    """The clock of whoever asks may be an hour off, and is not asked."""
    granted(rig.store, "lock:a")
    rig.pass_time(6)

    refused = rig.store.acquire(claim("lock:a"))

    assert isinstance(refused, Refused)
    assert [(one.held_seconds, one.worked_seconds) for one in refused.holders] == [(6, 6)]


def test_a_fence_is_the_store_s_clock_while_the_clock_is_ahead(rig: Rig) -> None:
    rig.pass_time(1)
    assert granted(rig.store).fence == rig.now_us()


def test_fences_rise_with_every_grant_of_a_resource_although_the_clock_stands_still(store: AnyStore) -> None:
    fences = []
    for _ in range(5):
        lease = granted(store)
        fences.append(lease.fence)
        store.release(lease, clean=True)

    assert fences == list(range(fences[0], fences[0] + 5))


def test_a_fence_is_one_more_when_the_clock_went_back(rig: Rig) -> None:
    lease = granted(rig.store)
    rig.store.release(lease, clean=True)
    rig.step_wall(-3600)

    assert granted(rig.store).fence == lease.fence + 1


def test_a_fence_is_above_the_marks_of_all_its_resources(store: AnyStore) -> None:
    leases = [granted(store, "lock:a")]
    for _ in range(3):
        leases.append(granted(store, "lock:b"))
        store.release(leases[-1], clean=True)
    store.release(leases[0], clean=True)

    both = granted(store, "lock:a", "lock:b")

    assert both.fence > max(lease.fence for lease in leases)
    store.release(both, clean=True)
    assert granted(store, "lock:a").fence > both.fence


def test_fences_rise_over_time_whatever_is_leased_by_whatever_tenant(rig: Rig) -> None:
    fences = []
    for tenant, name in [("red", "lock:a"), ("blue", "lock:a"), ("red", "lock:b"), ("blue", "project:p")]:
        rig.pass_time(0.001)
        fences.append(granted(rig.store, name, tenant=tenant).fence)

    assert fences == sorted(set(fences))


def test_tenants_have_locks_of_their_own(store: AnyStore) -> None:
    granted(store, "lock:a", tenant="red")
    granted(store, "lock:a", tenant="blue")


@pytest.mark.parametrize("shared", ["project:p", "repo:r"])
def test_a_directory_is_the_same_for_all_tenants(store: AnyStore, shared: str) -> None:
    granted(store, shared, tenant="red")

    assert isinstance(store.acquire(claim(shared, tenant="blue")), Refused)


@pytest.mark.parametrize(
    "name",
    [
        "it's",
        'say"so"',
        "100%",
        "%s%(x)s",
        "a\\b",
        "日本語",
        "naïve",
        "🦊🦊",
        "a:b:c",
        "[1]",
        "x" * NAME_MAX,
        "🦊" * NAME_MAX,
    ],
)
def test_names_may_be_anything_printable(rig: Rig, name: str) -> None:
    thing = resource("lock", name)
    lease = granted(rig.store, thing)

    assert lease.resources == (thing,)
    assert isinstance(rig.store.acquire(claim(thing)), Refused)
    rig.store.enqueue(claim(thing), "ticket")
    assert [waiter.resources for waiter in rig.store.waiters()] == [(thing,)]
    rig.pass_time(31)
    answer = rig.store.acquire(claim(thing))
    assert isinstance(answer, Granted)
    assert [held.id for held in answer.predecessors] == [lease.id]


def test_a_label_that_no_database_takes_is_made_storable(store: AnyStore) -> None:
    assert isinstance(store.acquire(claim("lock:a", label="\udcff and \0")), Granted)
    assert [held.label for held in store.leases()] == ["? and ?"]


def test_asking_again_with_the_same_claim_finds_the_same_grant(rig: Rig) -> None:
    asked = claim("lock:a", "lock:b", gates=("file:x",))
    first = rig.store.acquire(asked)
    rig.pass_time(1)
    again = rig.open_another().acquire(asked)

    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert again.lease == first.lease._replace(owed=None), "which gates were owed before, nobody knows any more"
    assert again.predecessors == first.predecessors


def test_a_grant_that_is_found_again_has_its_whole_time_to_live(rig: Rig) -> None:
    asked = claim("lock:a", ttl=30.0)
    rig.store.acquire(asked)
    rig.pass_time(29)
    rig.store.acquire(asked)
    rig.pass_time(29)

    assert isinstance(rig.store.acquire(claim("lock:a")), Refused)


def test_a_grant_that_was_lost_meanwhile_is_not_found_again(rig: Rig) -> None:
    asked = claim("lock:a", ttl=30.0)
    rig.store.acquire(asked)
    rig.pass_time(31)
    successor = granted(rig.store, "lock:a")

    with pytest.raises(LeaseLost):
        rig.store.acquire(asked)
    rig.store.release(successor, clean=True)
    with pytest.raises(LeaseLost):
        rig.store.acquire(asked)


def test_looking_says_what_acquiring_would_and_writes_nothing(rig: Rig) -> None:
    before = rig.contents()
    assert rig.store.look(claim("lock:a")) is None
    assert rig.contents() == before

    granted(rig.store, "lock:a")
    rig.store.enqueue(claim("lock:a"), "ticket")
    before = rig.contents()
    seen = rig.store.look(claim("lock:a"))
    assert rig.contents() == before
    assert seen == rig.store.acquire(claim("lock:a"))
    assert seen is not None
    assert seen.position == 2


def test_looking_with_a_claim_that_was_granted_sees_no_obstacle(store: AnyStore) -> None:
    asked = claim("lock:a")
    store.acquire(asked)

    assert store.look(asked) is None


def test_every_fence_after_a_bump_is_above_the_floor(rig: Rig) -> None:
    floor = rig.now_us() + 10**12
    assert rig.store.bump(floor) == floor
    assert granted(rig.store, "lock:a").fence > floor
    assert granted(rig.open_another(), "lock:b").fence > floor


def test_a_bump_never_lowers_the_floor(rig: Rig) -> None:
    floor = rig.now_us() + 10**12
    rig.store.bump(floor)

    assert rig.store.bump(5) >= floor
