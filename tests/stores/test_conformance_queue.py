"""Who comes next, on either store."""

from fencepost.model.lease import Granted, Refused
from tests.stores.rig import AnyStore, Rig, claim, granted


def tickets(store: AnyStore) -> list[str]:
    return [waiter.id for waiter in store.waiters()]


def ahead(answer: Granted | Refused) -> list[str]:
    assert isinstance(answer, Refused), answer
    return [waiter.id for waiter in answer.ahead]


def test_the_queue_is_served_in_the_order_of_arrival(store: AnyStore) -> None:
    holder = granted(store, "lock:a")
    waiting = {ticket: claim("lock:a") for ticket in ("first", "second", "third")}
    for ticket, asked in waiting.items():
        store.enqueue(asked, ticket)
    store.release(holder, clean=True)

    assert ahead(store.acquire(waiting["third"], ticket="third")) == ["first", "second"]
    assert ahead(store.acquire(waiting["second"], ticket="second")) == ["first"]
    for ticket, asked in waiting.items():
        answer = store.acquire(asked, ticket=ticket)
        assert isinstance(answer, Granted)
        store.release(answer.lease, clean=True)
    assert tickets(store) == []


def test_who_comes_without_a_ticket_waits_behind_the_queue(store: AnyStore) -> None:
    store.enqueue(claim("lock:a"), "patient")

    assert ahead(store.acquire(claim("lock:a"))) == ["patient"]
    assert isinstance(store.acquire(claim("lock:b")), Granted)


def test_joining_again_keeps_the_place_and_refreshes_it(rig: Rig) -> None:
    early, late = claim("lock:a", ttl=30.0), claim("lock:a", ttl=30.0)
    rig.store.enqueue(early, "early")
    rig.store.enqueue(late, "late")
    rig.pass_time(20)
    rig.store.enqueue(early, "early")
    rig.pass_time(20)

    assert tickets(rig.store) == ["early", "late"]
    assert [waiter.stale for waiter in rig.store.waiters()] == [False, True]


def test_a_waiter_that_was_not_heard_of_for_its_time_to_live_is_passed_over(rig: Rig) -> None:
    rig.store.enqueue(claim("lock:a", ttl=30.0), "gone")
    rig.pass_time(29.999_999)
    assert ahead(rig.store.acquire(claim("lock:a"))) == ["gone"]
    rig.pass_time(0.000_001)

    assert isinstance(rig.store.acquire(claim("lock:a")), Granted)
    assert tickets(rig.store) == []


def test_a_waiter_that_is_proven_dead_is_passed_over_and_swept(store: AnyStore) -> None:
    store.enqueue(claim("lock:a"), "dead")
    store.enqueue(claim("lock:a"), "alive")

    assert ahead(store.acquire(claim("lock:a"), dead=["dead"])) == ["alive"]
    assert isinstance(store.acquire(claim("lock:a"), dead=["dead", "alive"]), Granted)
    assert tickets(store) == []


def test_leaving_the_queue_lets_the_next_one_pass(store: AnyStore) -> None:
    store.enqueue(claim("lock:a"), "first")
    store.enqueue(claim("lock:a"), "second")
    store.dequeue("first")
    store.dequeue("nobody")

    assert isinstance(store.acquire(claim("lock:a"), ticket="second"), Granted)


def test_a_waiter_for_several_resources_is_not_overtaken_on_any_of_them(store: AnyStore) -> None:
    holder = granted(store, "lock:a")
    both, one = claim("lock:a", "lock:b"), claim("lock:b")
    store.enqueue(both, "both")

    assert ahead(store.acquire(one)) == ["both"]
    store.enqueue(one, "one")
    assert ahead(store.acquire(one, ticket="one")) == ["both"]
    store.release(holder, clean=True)
    answer = store.acquire(both, ticket="both")
    assert isinstance(answer, Granted)
    assert ahead(store.acquire(one, ticket="one")) == []
    store.release(answer.lease, clean=True)
    assert isinstance(store.acquire(one, ticket="one"), Granted)


def test_only_waiters_for_the_same_resources_are_ahead(store: AnyStore) -> None:
    store.enqueue(claim("lock:b"), "elsewhere")
    store.enqueue(claim("lock:a", tenant="blue"), "other tenant")

    assert isinstance(store.acquire(claim("lock:a", tenant="red")), Granted)


def test_tenants_queue_together_for_a_directory(store: AnyStore) -> None:
    store.enqueue(claim("project:p", tenant="blue"), "blue")

    assert ahead(store.acquire(claim("project:p", tenant="red"))) == ["blue"]


def test_a_waiter_says_who_it_is_and_since_when(rig: Rig) -> None:
    asked = claim("lock:b", "lock:a", label="nightly")
    rig.store.enqueue(asked, "ticket")
    since = rig.now_us()
    rig.pass_time(5)
    rig.store.enqueue(asked, "ticket")

    (waiter,) = rig.store.waiters()
    assert (waiter.run_id, waiter.label, waiter.process) == (asked.run_id, "nightly", asked.supervisor)
    assert (waiter.resources, waiter.since_us) == (("lock:a", "lock:b"), since)
