"""The ledger on both stores: an effect is begun once, whoever asks, and only its own call may end it."""

import json
from itertools import count

import pytest

from fencepost.model.effect_ledger import Ambiguous, Answered, Diverged, EffectCall, Elsewhere, Entry, Mine, New
from fencepost.model.errors import Invalid, LeaseLost
from fencepost.model.lease import Lease
from tests.stores.rig import AnyStore, Rig, granted
from tests.support.runtime import together

_numbers = count(1)


def call(key: str = "invoice", *, scope: str = "", strict: bool = False) -> EffectCall:
    return EffectCall(key, f"call-{next(_numbers)}", scope, strict)


def entry_of(store: AnyStore, key: str = "invoice", scope: str = "") -> Entry:
    found = store.ledger().entry("default", key, scope)
    assert found is not None
    return found


def done(store: AnyStore, lease: Lease, one: EffectCall, answer: str = "17") -> None:
    assert store.ledger().begin(lease, one) == New()
    store.ledger().complete(lease, one, answer)


def test_an_effect_is_in_progress_before_it_is_tried_and_completed_with_its_answer(store: AnyStore) -> None:
    lease, mine = granted(store), call()

    assert store.ledger().begin(lease, mine) == New()
    assert entry_of(store).standing == "in_progress"
    store.ledger().complete(lease, mine, '{"number": 17}')

    found = entry_of(store)
    assert (found.standing, found.answer, found.run_id, found.fence) == (
        "completed",
        '{"number": 17}',
        lease.run_id,
        lease.fence,
    )
    assert found.begun_us
    assert found.completed_us


def test_a_second_caller_gets_the_answer_in_the_same_run_and_in_another(store: AnyStore) -> None:
    first = granted(store, "lock:a")
    done(store, first, call())

    assert store.ledger().begin(first, call()) == Answered("17")
    store.release(first, clean=True)
    assert store.ledger().begin(granted(store, "lock:b"), call()) == Answered("17")


def test_a_key_of_a_run_is_not_the_key_of_another_run(store: AnyStore) -> None:
    one, two = granted(store, "lock:a"), granted(store, "lock:b")
    done(store, one, call(scope=f"run:{one.run_id}"))

    assert store.ledger().begin(two, call(scope=f"run:{two.run_id}")) == New()
    assert store.ledger().begin(two, call()) == New()


def test_tenants_do_not_share_keys(store: AnyStore) -> None:
    done(store, granted(store), call())

    assert store.ledger().begin(granted(store, tenant="acme"), call()) == New()
    assert [found.tenant for found in store.ledger().entries("acme")] == ["acme"]


def test_while_somebody_is_at_it_others_are_told_who(store: AnyStore) -> None:
    one, two = granted(store, "lock:a"), granted(store, "lock:b")
    store.ledger().begin(one, call())

    again, other = store.ledger().begin(one, call()), store.ledger().begin(two, call())

    assert isinstance(again, Mine)
    assert isinstance(other, Elsewhere)
    assert other.entry.run_id == one.run_id


@pytest.mark.parametrize("end", ["released", "expired", "broken"])
def test_an_entry_whose_lease_is_over_is_ambiguous_for_everybody(rig: Rig, end: str) -> None:
    store = rig.store
    first = granted(store, "lock:a", ttl=10)
    store.ledger().begin(first, call())
    if end == "released":
        store.release(first, clean=True)
    elif end == "expired":
        rig.pass_time(11)
    else:
        (held,) = store.leases()
        store.break_lease(held, why="by hand")

    verdict = store.ledger().begin(granted(store, "lock:b"), call())

    assert isinstance(verdict, Ambiguous)
    assert [found.key for found in store.ledger().entries("default", standing="ambiguous")] == ["invoice"]
    assert store.ledger().entries("default", standing="in_progress") == []


@pytest.mark.parametrize("end", ["released", "expired", "taken"])
def test_a_run_whose_lease_is_over_begins_nothing_and_is_told_nothing(rig: Rig, end: str) -> None:
    store = rig.store
    lease = granted(store, "lock:a", ttl=10)
    done(store, lease, call("before"))
    if end == "released":
        store.release(lease, clean=True)
    else:
        rig.pass_time(11)
    if end == "taken":
        granted(store, "lock:a")

    for key in ("new", "before"):
        with pytest.raises(LeaseLost):
            store.ledger().begin(lease, call(key))
    assert [found.key for found in store.ledger().entries("default")] == ["before"]


def test_a_zombie_can_end_nothing_that_it_began(rig: Rig) -> None:
    store, mine = rig.store, call()
    zombie = granted(store, "lock:a", ttl=10)
    store.ledger().begin(zombie, mine)
    rig.pass_time(11)
    granted(store, "lock:a")

    with pytest.raises(LeaseLost):
        store.ledger().complete(zombie, mine, "17")
    with pytest.raises(LeaseLost):
        store.ledger().doubt(zombie, mine, "who knows")
    with pytest.raises(LeaseLost):
        store.ledger().release(zombie, mine)
    found = entry_of(store)
    assert (found.state, found.answer, found.doubt) == ("in_progress", None, None)


def test_only_the_call_that_began_it_may_end_it(store: AnyStore) -> None:
    lease, mine = granted(store), call()
    store.ledger().begin(lease, mine)

    with pytest.raises(LeaseLost):
        store.ledger().complete(lease, call(), "17")
    with pytest.raises(LeaseLost):
        store.ledger().doubt(lease, call(), "who knows")
    store.ledger().release(lease, call())  # it has nothing to give back, and takes nothing away

    assert entry_of(store).state == "in_progress"


def test_asking_again_after_a_lost_answer_changes_nothing(store: AnyStore) -> None:
    lease, mine = granted(store), call()
    ledger = store.ledger()

    assert [ledger.begin(lease, mine), ledger.begin(lease, mine)] == [New(), New()]
    ledger.complete(lease, mine, "17")
    ledger.complete(lease, mine, "17")
    assert ledger.begin(lease, mine) == Answered("17")
    with pytest.raises(LeaseLost):
        ledger.complete(lease, mine, "18")


def test_an_effect_that_was_given_back_is_new_again(store: AnyStore) -> None:
    lease, mine = granted(store), call()
    store.ledger().begin(lease, mine)

    store.ledger().release(lease, mine)
    store.ledger().release(lease, mine)

    assert store.ledger().entry("default", "invoice") is None
    assert store.ledger().begin(lease, call()) == New()


def test_an_effect_in_doubt_is_ambiguous_even_for_its_own_run(store: AnyStore) -> None:
    lease, mine = granted(store), call()
    store.ledger().begin(lease, mine)

    store.ledger().doubt(lease, mine, "TimeoutError: no answer")

    verdict = store.ledger().begin(lease, call())
    assert isinstance(verdict, Ambiguous)
    assert verdict.entry.doubt == "TimeoutError: no answer"
    with pytest.raises(LeaseLost):
        store.ledger().complete(lease, mine, "17")
    with pytest.raises(LeaseLost):
        store.ledger().release(lease, mine)


def doubtful(rig: Rig) -> tuple[Entry, Lease]:
    """Leave an ambiguous entry behind; return it and the lease of a later run."""
    first = granted(rig.store, "lock:a")
    rig.store.ledger().begin(first, call())
    rig.store.release(first, clean=True)
    return entry_of(rig.store), granted(rig.store, "lock:b")


def test_a_probe_that_found_it_done_completes_it(rig: Rig) -> None:
    seen, lease = doubtful(rig)

    assert rig.store.ledger().settle_doubt(lease, seen, "17")

    found = entry_of(rig.store)
    assert (found.state, found.answer, found.resolved_by) == ("completed", "17", f"probe of run:{lease.run_id}")
    assert not rig.store.ledger().settle_doubt(lease, seen, "18")


def test_a_probe_that_found_it_not_done_makes_it_the_callers(rig: Rig) -> None:
    seen, lease = doubtful(rig)
    mine = call()

    assert rig.store.ledger().take_over(lease, mine, seen)
    rig.store.ledger().complete(lease, mine, "18")

    assert entry_of(rig.store).answer == "18"


def test_of_two_probes_one_takes_over(rig: Rig) -> None:
    seen, lease = doubtful(rig)
    other = granted(rig.store, "lock:c")

    taken = [rig.store.ledger().take_over(one, call(), seen) for one in (lease, other)]

    assert taken == [True, False]
    assert not rig.store.ledger().settle_doubt(other, seen, "17")


def test_a_holder_that_was_taken_over_while_it_was_late_cannot_complete(rig: Rig) -> None:
    """Its lease expired, nobody took it, and it renewed later: the effect is somebody else's all the same."""
    store, mine = rig.store, call()
    late = granted(store, "lock:a", ttl=10)
    store.ledger().begin(late, mine)
    rig.pass_time(11)
    other = granted(store, "lock:b")
    assert store.ledger().take_over(other, call(), entry_of(store))
    store.renew(late)

    with pytest.raises(LeaseLost):
        store.ledger().complete(late, mine, "17")


def test_a_holder_that_came_back_in_time_is_not_taken_over(rig: Rig) -> None:
    store = rig.store
    late = granted(store, "lock:a", ttl=10)
    store.ledger().begin(late, call())
    rig.pass_time(11)
    other, seen = granted(store, "lock:b"), entry_of(store)
    store.renew(late)

    assert not store.ledger().take_over(other, call(), seen)
    assert not store.ledger().settle_doubt(other, seen, "17")
    assert not store.ledger().resolve(seen, answer=None, by="ann")


def test_a_probe_of_a_run_that_lost_its_lease_settles_nothing(rig: Rig) -> None:
    seen, lease = doubtful(rig)
    rig.store.release(lease, clean=True)

    with pytest.raises(LeaseLost):
        rig.store.ledger().settle_doubt(lease, seen, "17")
    with pytest.raises(LeaseLost):
        rig.store.ledger().take_over(lease, call(), seen)


@pytest.mark.parametrize("answer", ["17", None])
def test_a_person_resolves_what_is_ambiguous_and_it_is_written_down(rig: Rig, answer: str | None) -> None:
    seen, lease = doubtful(rig)

    assert rig.store.ledger().resolve(seen, answer=answer, by="ann@tower")
    assert not rig.store.ledger().resolve(seen, answer="99", by="bob@tower")

    assert rig.store.ledger().begin(lease, call()) == (Answered("17") if answer else New())
    rows = rig.store.care().export(lambda snapshot: [row for table, row in snapshot.rows if table == "audit"])
    last = [row for row in rows if row["verb"] == "ledger_resolve"][-1]
    assert (last["actor"], last["subject"]) == ("ann@tower", "ledger:invoice")
    assert json.loads(last["detail"])["found"] == ("completed" if answer else "forgotten")


def test_a_person_cannot_resolve_what_a_run_is_at(store: AnyStore) -> None:
    store.ledger().begin(granted(store), call())

    assert not store.ledger().resolve(entry_of(store), answer="17", by="ann")
    assert not store.ledger().resolve(entry_of(store), answer=None, by="ann")


def test_what_is_completed_may_be_forgotten_and_not_rewritten(store: AnyStore) -> None:
    lease = granted(store)
    done(store, lease, call())

    assert not store.ledger().resolve(entry_of(store), answer="99", by="ann")
    assert store.ledger().resolve(entry_of(store), answer=None, by="ann")
    assert store.ledger().begin(lease, call()) == New()


def test_a_restarted_run_is_answered_for_what_it_repeats_and_diverges_on_what_is_new(store: AnyStore) -> None:
    scope = "run:r1"
    first = granted(store, "lock:a")
    for key in ("mail#1", "mail#2"):
        done(store, first, call(key, scope=scope, strict=True))
    store.release(first, clean=True)
    second = granted(store, "lock:a")
    ledger = store.ledger()

    assert ledger.begin(second, call("mail#1", scope=scope, strict=True)) == Answered("17")
    diverged = ledger.begin(second, call("pay#1", scope=scope, strict=True))
    assert isinstance(diverged, Diverged)
    assert [found.key for found in diverged.unreplayed] == ["mail#2"]
    assert [found.key for found in ledger.unreplayed(second, scope)] == ["mail#2"]
    assert ledger.entry("default", "pay#1", scope) is None

    assert ledger.begin(second, call("mail#2", scope=scope, strict=True)) == Answered("17")
    assert ledger.unreplayed(second, scope) == []
    assert ledger.begin(second, call("pay#1", scope=scope, strict=True)) == New()


def test_a_resumed_run_goes_on_without_repeating(store: AnyStore) -> None:
    first = granted(store, "lock:a")
    done(store, first, call("mail#1", scope="run:r1"))
    store.release(first, clean=True)

    assert store.ledger().begin(granted(store, "lock:a"), call("mail#2", scope="run:r1")) == New()


def test_entries_are_listed_newest_first_within_a_scope_or_all(rig: Rig) -> None:
    lease = granted(rig.store)
    for number in range(3):
        done(rig.store, lease, call(f"k{number}"))
        rig.pass_time(1)
    done(rig.store, lease, call("mine", scope="run:r1"))
    ledger = rig.store.ledger()

    assert [found.key for found in ledger.entries("default")] == ["mine", "k2", "k1", "k0"]
    assert [found.key for found in ledger.entries("default", scope="", limit=2)] == ["k2", "k1"]
    assert [found.key for found in ledger.entries("default", scope="run:r1", standing="completed")] == ["mine"]


def test_what_the_store_cannot_keep_is_refused_before_anything_happens(store: AnyStore) -> None:
    lease, mine = granted(store), call()
    with pytest.raises(Invalid):
        store.ledger().begin(lease, call("a\nb"))
    store.ledger().begin(lease, mine)
    with pytest.raises(Invalid):
        store.ledger().complete(lease, mine, json.dumps("x" * 70_000))

    assert entry_of(store).state == "in_progress"


def test_of_many_that_begin_at_one_moment_exactly_one_does_it(rig: Rig) -> None:
    doors = [(rig.open_another(), number) for number in range(6)]
    leases = [granted(rig.store, f"lock:{number}") for _, number in doors]
    verdicts: list[object] = []

    def begin(door: tuple[AnyStore, int]) -> None:
        store, number = door
        verdicts.append(store.ledger().begin(leases[number], call("crowd")))

    together(begin, doors)

    kinds = sorted(type(verdict).__name__ for verdict in verdicts)
    assert kinds == ["Elsewhere"] * 5 + ["New"]
