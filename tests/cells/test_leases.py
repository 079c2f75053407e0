"""What a lease in cells means, on every kind of store: no clock is compared with another one."""

import pytest

from fencepost.model.cell import patience
from fencepost.model.errors import FenceRegress, Invalid, LeaseLost, Misconfigured
from fencepost.model.lease import Granted, Held, Lease, Refused
from tests.cells.grounds import Machine, Machines, pass_time

TTL = 30.0
LONG = patience(TTL)


@pytest.fixture
def a(machines: Machines) -> Machine:
    return machines("a")


@pytest.fixture
def b(machines: Machines) -> Machine:
    return machines("b")


def refused(machine: Machine, resource: str = "lock:a") -> Held:
    answer = machine.store.acquire(machine.claim(resource))
    assert isinstance(answer, Refused), answer
    return answer.holders[0]


def taken(machine: Machine, **more: object) -> Granted:
    answer = machine.store.acquire(machine.claim(**more))  # type: ignore[arg-type]
    assert isinstance(answer, Granted), answer
    return answer


def test_a_lock_is_granted_to_one_machine_at_a_time(a: Machine, b: Machine) -> None:
    lease = a.granted()
    held = refused(b)

    assert (held.fence, held.supervisor.host.name) == (lease.fence, "a")
    b.granted("lock:b")
    a.store.release(lease, clean=True)
    assert b.granted().fence > lease.fence


def test_both_machines_see_one_store(a: Machine, b: Machine) -> None:
    assert a.store.facts().id == b.store.facts().id
    assert a.store.facts().counts_sleep


def test_fences_rise_whatever_the_clocks_say(a: Machine, b: Machine) -> None:
    b.clock.wall -= 3600 * 1_000_000
    first = a.granted()
    a.store.release(first, clean=True)
    second = b.granted()

    assert second.fence == first.fence + 1


def test_a_clock_beyond_the_year_2100_gives_no_fence(a: Machine) -> None:
    a.clock.wall = 4_200_000_000_000_000

    with pytest.raises(Misconfigured, match="2100"):
        a.granted()


def test_a_silent_holder_is_replaced_after_ttl_and_margin_of_watching_and_not_before(a: Machine, b: Machine) -> None:
    lease = a.granted()
    refused(b)
    pass_time(LONG - 0.001, b)
    refused(b)
    pass_time(0.001, b)
    answer = taken(b)

    assert answer.lease.fence > lease.fence
    assert [one.id for one in answer.predecessors] == [lease.id]
    with pytest.raises(LeaseLost):
        a.store.renew(lease)


def test_who_comes_late_has_seen_nothing_and_watches_from_now_on(a: Machine, b: Machine) -> None:
    a.granted()
    pass_time(10 * LONG, a, b)

    assert refused(b).remaining_seconds == pytest.approx(LONG)


def test_what_one_caller_saw_counts_for_the_next_one_on_the_machine(a: Machine, b: Machine) -> None:
    a.granted()
    refused(b)
    pass_time(LONG, b)
    b.store = b.open()

    b.granted()


def test_every_beat_starts_the_watch_anew(a: Machine, b: Machine) -> None:
    lease = a.granted()
    for _ in range(4):
        refused(b)
        pass_time(LONG - 1, b)
        a.store.renew(lease)
    refused(b)

    a.store.renew(lease)


def test_after_a_boot_the_watch_starts_anew(a: Machine, b: Machine) -> None:
    a.granted()
    refused(b)
    b.reboot()
    b.clock.awake += 10**18
    refused(b)

    pass_time(LONG, b)
    b.granted()


def test_a_clock_that_was_set_decides_nothing(a: Machine, b: Machine) -> None:
    lease = a.granted()
    refused(b)
    b.clock.wall += 10 * 365 * 86_400 * 1_000_000
    refused(b)
    a.clock.wall -= 86_400 * 1_000_000

    a.store.renew(lease)


def test_a_holder_that_is_proven_dead_is_replaced_at_once(a: Machine, b: Machine) -> None:
    lease = a.granted()
    answer = b.store.acquire(b.claim(), dead=[lease.id])

    assert isinstance(answer, Granted)
    with pytest.raises(LeaseLost):
        a.store.release(lease, clean=True)


def test_only_its_own_machine_knows_the_processes_of_a_lease(a: Machine, b: Machine) -> None:
    claim = a.claim()
    a.store.acquire(claim)

    assert refused(a).supervisor == claim.supervisor
    elsewhere = refused(b).supervisor
    assert (elsewhere.host.name, elsewhere.pid) == ("a", claim.supervisor.pid)
    assert elsewhere.host.machine != claim.supervisor.host.machine
    assert elsewhere.started == ""


def test_no_word_of_a_command_line_but_the_program_s_name_reaches_the_store(a: Machine) -> None:
    a.granted(label="curl -H Authorization:hunter2")
    (name,) = [name for name in a.store._exchange.names(ttl=TTL) if name != "store"]
    document = a.store._exchange.read(name, ttl=TTL).document

    assert document is not None
    assert b"hunter2" not in document
    assert b"machine-a" not in document
    assert b"curl" in document


@pytest.mark.parametrize("verb", ["renew", "start", "release", "release dirty"])
def test_a_zombie_changes_nothing_of_its_successor_s(a: Machine, b: Machine, verb: str) -> None:
    old = a.granted()
    refused(b)
    pass_time(LONG, b)
    new = b.granted()

    with pytest.raises(LeaseLost):
        do(a, verb, old)
    b.store.renew(new)


def test_a_late_holder_that_was_not_replaced_may_renew(a: Machine) -> None:
    lease = a.granted()
    pass_time(10 * LONG, a)
    a.store.renew(lease)


def test_asking_again_with_the_same_claim_finds_the_same_grant(a: Machine) -> None:
    claim = a.claim()
    first, again = a.store.acquire(claim), a.open().acquire(claim)

    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert again.lease == first.lease._replace(owed=None)


def test_a_grant_that_was_lost_meanwhile_is_not_found_again(a: Machine, b: Machine) -> None:
    claim = a.claim()
    a.store.acquire(claim)
    refused(b)
    pass_time(LONG, b)
    b.granted()

    with pytest.raises(LeaseLost):
        a.store.acquire(claim)


def test_a_broken_lease_is_free_and_its_holder_finds_out(a: Machine, b: Machine) -> None:
    lease = a.granted()
    (seen,) = b.store.leases()

    assert not b.store.break_lease(seen._replace(fence=seen.fence - 1), why="test")
    assert b.store.break_lease(seen, why="test")
    assert not b.store.break_lease(seen, why="test")
    with pytest.raises(LeaseLost):
        a.store.renew(lease)
    b.granted()


def test_leases_are_listed_with_who_holds_them(a: Machine, b: Machine) -> None:
    one, other = a.granted("lock:a"), b.granted("lock:b")
    b.store.release(b.granted("lock:c"), clean=True)

    assert {(held.resources[0], held.fence, held.supervisor.host.name) for held in a.store.leases()} == {
        ("lock:a", one.fence, "a"),
        ("lock:b", other.fence, "b"),
    }


def test_gates_are_owed_until_a_clean_end_wherever_that_is(a: Machine, b: Machine) -> None:
    a.granted(gates=("redis:env:X",))
    refused(b)
    pass_time(LONG, b)
    second = b.granted(gates=("redis:env:Y",))
    assert set(second.gates) == {"redis:env:X", "redis:env:Y"}

    b.store.start(second)
    b.store.release(second, clean=True)
    assert a.granted().gates == ()


def test_a_file_s_gate_is_owed_to_its_own_machine_only(a: Machine, b: Machine) -> None:
    a.granted(gates=("file:/srv/report",))
    refused(b)
    pass_time(LONG, b)
    second = b.granted(gates=("file:/srv/other",))
    assert second.gates == ("file:/srv/other",)
    b.store.start(second)
    b.store.release(second, clean=True)

    third = a.granted()
    assert third.gates == ("file:/srv/report",)
    a.store.start(third)
    a.store.release(third, clean=True)
    assert a.granted().gates == ()


def test_one_that_never_started_settles_no_debt_and_makes_none(a: Machine) -> None:
    a.granted(gates=("redis:env:X",))
    refused(a)
    pass_time(LONG, a)
    a.store.release(a.granted(gates=("redis:env:SLIP",)), clean=True)

    assert a.granted().gates == ("redis:env:X",)


def test_a_debt_to_a_gate_that_is_gone_can_be_forgotten(a: Machine) -> None:
    lease = a.granted(gates=("redis:env:X",))
    a.store.release(lease, clean=False)

    assert a.store.forget_gate("default", "lock:a", "redis:env:X")
    assert not a.store.forget_gate("default", "lock:a", "redis:env:X")
    assert a.granted().gates == ()


def test_a_predecessor_is_named_to_its_own_machine_until_it_is_buried_and_to_others_once(
    a: Machine, b: Machine
) -> None:
    old = a.granted()
    refused(b)
    pass_time(LONG, b)
    told = taken(b)
    assert [one.id for one in told.predecessors] == [old.id]
    b.store.release(told.lease, clean=True)
    again = taken(b)
    assert again.predecessors == ()
    b.store.release(again.lease, clean=True)

    home = taken(a)
    assert [one.id for one in home.predecessors] == [old.id]
    a.store.bury(home.predecessors[0])
    a.store.release(home.lease, clean=True)
    assert taken(a).predecessors == ()


def test_a_cell_that_went_back_in_time_is_refused_until_the_store_is_bumped(a: Machine, b: Machine) -> None:
    lease = a.granted()
    name, before = document_of(a)
    a.store.release(lease, clean=True)
    second = a.granted()
    a.store.release(second, clean=True)
    put_back(a, name, before)

    with pytest.raises(FenceRegress, match=f"store bump --to {second.fence}"):
        a.store.acquire(a.claim())
    b.store.bump(second.fence)
    answer = a.store.acquire(a.claim(), dead=[lease.id])
    assert isinstance(answer, Granted)
    assert answer.lease.fence > second.fence


def test_a_bump_lifts_what_is_there_and_what_is_new(a: Machine) -> None:
    held = a.granted("lock:a")
    floor = held.fence + 10**12

    assert a.store.bump(floor) == floor
    assert a.store.bump(floor - 5) == floor
    a.store.renew(held)
    a.store.release(held, clean=True)
    assert a.granted("lock:a").fence > floor
    assert a.open().acquire(a.claim("lock:new")).lease.fence > floor  # type: ignore[union-attr]


def test_a_deleted_cell_is_waited_for_and_made_again_above_what_is_remembered(a: Machine, b: Machine) -> None:
    lease = a.granted()
    refused(b)
    delete(a)

    assert refused(b).label == "its cell is gone"
    with pytest.raises(LeaseLost):
        a.store.renew(lease)
    b.clock.wall -= 86_400 * 1_000_000
    pass_time(LONG - 0.001, b)
    refused(b)
    pass_time(0.001, b)
    assert b.granted().fence > lease.fence


def test_a_deleted_root_cell_is_made_again_with_the_id_that_is_remembered(a: Machine) -> None:
    before = a.store.facts().id
    a.granted()
    read = a.store._exchange.read("store", ttl=TTL)
    a.store._cells.swap("store", read.tag, None, seconds=5)

    assert a.open().facts().id == before


def test_tenants_have_locks_of_their_own(a: Machine) -> None:
    a.granted(tenant="red")
    a.granted(tenant="blue")


@pytest.mark.parametrize(
    ("resource", "words"), [("project:x", "on a project need a runtime store"), ("schedule:x", "runtime store")]
)
def test_what_needs_a_runtime_store_says_so(a: Machine, resource: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        a.store.acquire(a.claim(resource))
    with pytest.raises(Invalid, match="one resource"):
        a.store.acquire(a.claim()._replace(resources=("lock:a", "lock:b")))
    with pytest.raises(Invalid, match="ledger"):
        a.store.ledger()


@pytest.mark.parametrize("name", ["it's:100%", "日本語🦊", "a/../b" * 80])
def test_names_may_be_anything_printable(a: Machine, b: Machine, name: str) -> None:
    lease = a.granted(f"lock:{name}")

    assert refused(b, f"lock:{name}").resources == lease.resources


def document_of(machine: Machine) -> tuple[str, bytes]:
    (name,) = [name for name in machine.store._exchange.names(ttl=TTL) if name != "store"]
    document = machine.store._exchange.read(name, ttl=TTL).document
    assert document is not None
    return name, document


def put_back(machine: Machine, name: str, document: bytes) -> None:
    read = machine.store._exchange.read(name, ttl=TTL)
    assert machine.store._cells.swap(name, read.tag, document, seconds=5).tag is not None


def delete(machine: Machine) -> None:
    name, _ = document_of(machine)
    read = machine.store._exchange.read(name, ttl=TTL)
    assert machine.store._cells.swap(name, read.tag, None, seconds=5).tag is not None


def do(machine: Machine, verb: str, lease: Lease) -> None:
    match verb:
        case "renew":
            machine.store.renew(lease)
        case "start":
            machine.store.start(lease)
        case "release":
            machine.store.release(lease, clean=True)
        case _:
            machine.store.release(lease, clean=False)
