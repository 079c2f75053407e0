"""Who keeps the leases of runs: left to their guards, adopted by another worker, and drained if nobody comes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.model.definition import AgentDefinition
from fencepost.model.errors import LeaseMoved
from fencepost.model.lease import Claim
from fencepost.model.outcome import Settlement
from fencepost.model.process import Fate, Host, ProcessId
from fencepost.model.project import Workplace
from fencepost.model.run import Reason, RunState
from fencepost.operations import store_maintenance
from fencepost.ports.runs import Adoptable, Ended, LeasedRun, Report, Starting
from fencepost.stores.runtime import RuntimeStore
from tests.stores.counted import counted_statements
from tests.stores.rig import Rig, claim
from tests.stores.test_runs_lease import agent_run
from tests.support.runtime import MYSELF, SUCCEEDED, Runtime, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from fencepost.model.lease import Lease

HERE = MYSELF.host
GUARD = ProcessId(HERE, 5000, "9")
KEPT: dict[str, Any] = {
    "keeper": "old",
    "adopt_key": "secret",
    "keeper_socket": "/run/k.sock",
    "supervisor": GUARD,
    "guard": GUARD,
}


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def kept(
    runtime: Runtime,
    number: int = 1,
    *,
    ttl: float = 30.0,
    start: bool = True,
    **fields: Any,  # noqa: ANN401  # of the claim
) -> list[LeasedRun]:
    """Lease runs with guards that a worker could adopt."""
    for one in range(number):
        agent_run(runtime, ready_in=-100 + one)
    leased = runtime.lease_batch(ttl_seconds=ttl, **(KEPT | fields))
    assert len(leased) == number
    if start:
        assert runtime.store.start_runs([Starting(one.lease, one.run) for one in leased]) == {}
    return leased


def leave(runtime: Runtime, *leased: LeasedRun, seconds: float = 120.0) -> dict[str, str]:
    return runtime.store.leave_runs([one.lease for one in leased], leave_for_seconds=seconds)


def adopt(runtime: Runtime, leased: LeasedRun, keeper: str = "new") -> LeasedRun:
    lease = runtime.store.adopt(leased.lease, keeper=keeper)
    assert lease is not None
    return leased._replace(lease=lease)


# --- leaving


def test_a_lease_that_was_left_stays_for_so_long_and_says_since_when(runtime: Runtime) -> None:
    one, two = kept(runtime, 2)
    runtime.pass_time(10)
    assert leave(runtime, one, two) == {}
    for held in runtime.store.leases():
        assert (held.left_us, held.remaining_seconds) == (runtime.rig.now_us(), 120)
    assert [row["keeper"] for row in runtime.audit("leave")] == ["old", "old"]
    assert runtime.store.leave_runs([], leave_for_seconds=1) == {}


def test_leaving_never_shortens_a_lease(runtime: Runtime) -> None:
    (leased,) = kept(runtime, ttl=300)
    leave(runtime, leased)
    assert runtime.store.leases()[0].remaining_seconds == 300


def test_a_renewal_that_comes_after_it_was_left_does_not_shorten_it_either(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    leave(runtime, leased)
    assert runtime.store.renew_leases([leased.lease]) == {leased.lease.id: "renewed"}
    assert runtime.store.leases()[0].remaining_seconds == 120


def test_nobody_leaves_what_is_no_longer_theirs(runtime: Runtime) -> None:
    mine, moved, broken = kept(runtime, 3)
    adopt(runtime, moved)
    runtime.store.break_lease(next(held for held in runtime.store.leases() if held.id == broken.lease.id), why="test")
    assert leave(runtime, mine, moved, broken) == {moved.run.id: "moved", broken.run.id: "lost"}
    left = [held.id for held in runtime.store.leases() if held.left_us is not None]
    assert left == [mine.lease.id]


# --- adopting


def test_an_adopted_lease_is_the_same_one_with_the_next_epoch_and_its_full_time(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    leave(runtime, leased)
    runtime.pass_time(110)
    lease = runtime.store.adopt(leased.lease, keeper="new")
    assert lease == leased.lease._replace(epoch=1)
    (held,) = runtime.store.leases()
    assert (held.keeper, held.epoch, held.left_us, held.remaining_seconds) == ("new", 1, None, 30)
    assert (held.fence, held.run_id) == (leased.lease.fence, leased.run.id)
    assert runtime.audit("adopt") == [{"fence": leased.lease.fence, "epoch": 1, "keeper": "new"}]
    assert runtime.run(leased.run.id).attempt == 1


def test_adopting_never_shortens_a_lease_whose_guard_was_told_of_more_time(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    leave(runtime, leased)
    adopted = adopt(runtime, leased)
    assert runtime.store.leases()[0].remaining_seconds == 120
    runtime.store.renew_leases([adopted.lease])
    assert runtime.store.leases()[0].remaining_seconds == 30, "by then its guard has heard of its new keeper"


def test_the_key_of_a_lease_is_changed_only_by_who_brings_a_new_one(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    first = adopt(runtime, leased)
    assert runtime.sql("SELECT adopt_key FROM $lease") == [("secret",)]
    assert runtime.store.adopt(first.lease, keeper="newer", adopt_key="another")
    assert runtime.sql("SELECT adopt_key FROM $lease") == [("another",)]


def test_of_two_that_adopt_by_the_same_epoch_one_comes_too_late(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    assert runtime.store.adopt(leased.lease, keeper="first") is not None
    before = runtime.contents()
    assert runtime.store.adopt(leased.lease, keeper="second") is None
    assert runtime.contents() == before


def test_many_that_adopt_at_the_same_moment_share_nothing(runtime: Runtime) -> None:
    leases = [one.lease for one in kept(runtime, 20)]
    found: list[Lease] = []

    def work(worker: tuple[str, RuntimeStore]) -> None:
        name, store = worker
        found.extend(store.adopt_runs(leases, keeper=name).values())

    together(work, [(f"w{number}", runtime.another()) for number in range(4)])
    assert sorted(lease.id for lease in found) == sorted(lease.id for lease in leases)
    assert {lease.epoch for lease in found} == {1}


def test_asking_again_after_an_unknown_answer_finds_the_lease_adopted(runtime: Runtime) -> None:
    (leased,) = kept(runtime)
    first = runtime.store.adopt(leased.lease, keeper="new")
    assert runtime.store.adopt(leased.lease, keeper="new") == first
    assert runtime.store.leases()[0].epoch == 1


@pytest.mark.parametrize("how", ["another fence", "ended", "broken", "an epoch to come", "nobody keeps it"])
def test_nobody_adopts(runtime: Runtime, how: str) -> None:
    (leased,) = kept(runtime, keeper=None if how == "nobody keeps it" else "old")
    lease = leased.lease
    match how:
        case "another fence":
            lease = lease._replace(fence=lease.fence - 1)
        case "ended":
            runtime.settle(leased)
        case "broken":
            runtime.store.break_lease(runtime.store.leases()[0], why="test")
        case "an epoch to come":
            lease = lease._replace(epoch=1)
    before = runtime.contents()
    assert runtime.store.adopt(lease, keeper="new") is None
    assert runtime.contents() == before


def test_a_lease_whose_time_is_up_can_be_adopted_while_nobody_has_taken_it(runtime: Runtime) -> None:
    (leased,) = kept(runtime, ttl=5)
    runtime.pass_time(60)
    again = adopt(runtime, leased)
    assert runtime.store.settle_runs([Ended(again, SUCCEEDED, Report("succeeded"))]) == {}


VERBS = ["renew", "start_run", "settle", "put_checkpoint", "note_session", "release"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_that_wakes_up_after_its_run_was_adopted_changes_nothing(runtime: Runtime, verb: str) -> None:
    (old,) = kept(runtime)
    new = adopt(runtime, old)
    before = runtime.contents()
    store = runtime.store
    verbs: dict[str, Callable[[], object]] = {
        "renew": lambda: store.renew(old.lease),
        "start_run": lambda: store.start_run(old),
        "settle": lambda: runtime.settle(old),
        "put_checkpoint": lambda: store.put_checkpoint(old.lease, "{}"),
        "note_session": lambda: store.note_session(old.lease, "S"),
        "release": lambda: store.release(old.lease, clean=True),
    }
    with pytest.raises(LeaseMoved):
        verbs[verb]()
    assert runtime.contents() == before
    assert store.renew_leases([old.lease]) == {old.lease.id: "moved"}
    runtime.settle(new)
    assert store.renew_leases([old.lease]) == {old.lease.id: "lost"}


# --- what can be adopted


def test_all_that_another_worker_needs_is_told_with_the_secret(runtime: Runtime) -> None:
    (leased,) = kept(runtime, gates=("file:/x",), start=False)
    runtime.store.start_runs([Starting(leased.lease, leased.run, "S1")])
    runtime.store.put_checkpoint(leased.lease, '{"page":1}')
    (one,) = runtime.store.adoptable(HERE)
    assert one.run == runtime.run(leased.run.id)
    assert one.lease == leased.lease._replace(started=True, owed=None)
    assert (one.held.keeper, one.held.adopt_key, one.held.keeper_socket) == ("old", "secret", "/run/k.sock")
    assert (one.checkpoint, one.session) == ('{"page":1}', "S1")


def test_a_resumed_run_is_told_what_its_conversation_came_to_before(runtime: Runtime) -> None:
    (first,) = kept(runtime, start=False)
    runtime.store.start_runs([Starting(first.lease, first.run, "S1")])
    resume = Settlement(RunState.READY, Reason.RESUME, resume=True)
    runtime.store.settle(first.lease, resume, Report("interrupted", cost_micro=7), clean=True)
    (again,) = runtime.lease_batch(**KEPT)
    (one,) = runtime.store.adoptable(HERE)
    assert (one.session, one.so_far) == (again.session, again.so_far) == ("S1", one.so_far)
    assert one.so_far.cost_micro == 7


def test_only_leases_with_a_keeper_whose_guard_is_here_can_be_adopted(runtime: Runtime) -> None:
    (mine,) = kept(runtime)
    runtime.store.acquire(claim("lock:exec"))
    kept(runtime, keeper=None)
    kept(runtime, keeper_socket=None)
    for elsewhere in (
        Host("tower", "machine-2", "boot-1", "pid:1"),
        Host("tower", "machine-1", "boot-2", "pid:1"),
        Host("tower", "machine-1", "boot-1", "pid:2"),
    ):
        kept(runtime, supervisor=ProcessId(elsewhere, 1, "1"))
    assert [one.lease.id for one in runtime.store.adoptable(HERE)] == [mine.lease.id]
    runtime.settle(mine)
    assert runtime.store.adoptable(HERE) == []


def test_the_leases_on_a_machine_are_told_without_those_that_a_keeper_holds_itself(runtime: Runtime) -> None:
    def told(**besides: str) -> set[str]:
        return {held.id for held in runtime.store.leases_on(HERE.machine, **besides)}

    (mine,) = kept(runtime, keeper="me")
    (lost,) = kept(runtime, keeper="me")
    (theirs,) = kept(runtime, keeper="other")
    (unkept,) = kept(runtime, keeper=None)
    earlier = Host("tower", HERE.machine, "boot-0", "pid:1")
    (before,) = kept(runtime, keeper="other", supervisor=ProcessId(earlier, 1, "1"))
    kept(runtime, supervisor=ProcessId(Host("tower", "machine-2", "boot-1", "pid:1"), 1, "1"))
    (held,) = (one for one in runtime.store.leases() if one.id == lost.lease.id)
    assert runtime.store.break_lease(held, why="holder dead")

    others = {one.lease.id for one in (lost, theirs, unkept, before)}
    assert told(besides="me") == others
    assert told() == {mine.lease.id, *others}
    (whole,) = (one for one in runtime.store.leases() if one.id == theirs.lease.id)
    (same,) = (one for one in runtime.store.leases_on(HERE.machine) if one.id == theirs.lease.id)
    assert same._replace(remaining_seconds=0, expires_us=0) == whole._replace(remaining_seconds=0, expires_us=0)


def test_a_lease_rebuilt_from_the_store_settles_its_run_and_its_places(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), project="p"))
    here = (Workplace("default", "p", "project:here", "/here", 2, isolated=False),)
    runtime.store.keep_workplaces("worker", MYSELF, here, ttl_seconds=300)
    first, second = (runtime.store.acquire(_place(gates)) for gates in ((), ("file:/two",)))
    runtime.store.start(second.lease)  # type: ignore[union-attr]
    runtime.store.release(second.lease, clean=False)  # type: ignore[union-attr]
    runtime.store.release(first.lease, clean=True)  # type: ignore[union-attr]
    agent_run(runtime)
    (offer,) = runtime.offers(runtime.store.next_runs(1, places=here), **KEPT)
    wanted = offer.claim._replace(resources=(*offer.claim.resources, "project:here"), slots=2)
    (leased,) = runtime.store.lease_runs([offer._replace(claim=wanted)], lambda *_: None)
    runtime.store.start_run(leased)
    (one,) = runtime.store.adoptable(HERE)
    assert one.lease.fenced == leased.lease.fenced == ("project:here#2",)
    assert set(one.lease.gates) == {"file:/two"}
    lease = runtime.store.adopt(one.lease, keeper="new")
    assert lease is not None
    taken = LeasedRun(one.run, lease, (), one.checkpoint)
    assert runtime.store.settle_runs([Ended(taken, SUCCEEDED, Report("succeeded"))]) == {}
    after = runtime.store.acquire(_place(()))
    assert after.lease.gates == ()  # type: ignore[union-attr]


def _place(gates: tuple[str, ...]) -> Claim:
    return claim("project:here", gates=gates, ttl=300)._replace(slots=2)


def test_the_secret_is_in_no_listing_and_in_no_backup(runtime: Runtime, tmp_path: Path) -> None:
    kept(runtime)
    assert all(held.adopt_key is None for held in runtime.store.leases())
    store_maintenance.backup(runtime.store, str(tmp_path / "backup"))
    text = (tmp_path / "backup").read_text()
    assert "keeper_socket" in text
    assert "secret" not in text
    assert "adopt_key" not in text


def test_a_store_that_was_restored_has_nothing_to_adopt(runtime: Runtime, tmp_path: Path) -> None:
    (leased,) = kept(runtime)
    store_maintenance.backup(runtime.store, str(tmp_path / "backup"))
    store_maintenance.restore(runtime.store, str(tmp_path / "backup"), confirm=lambda _: True)
    other = runtime.another()
    assert other.adoptable(HERE) == []
    assert other.adopt(leased.lease, keeper="new") is None
    runtime.sql("UPDATE $meta SET value = ? WHERE key = 'store_id'", runtime.store.facts().id)


def test_looking_for_fifty_takes_as_many_statements_as_for_one(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []
    for number in (1, 49):
        kept(runtime, number)
        with counted_statements(monkeypatch) as seen:
            found: list[Adoptable] = runtime.store.adoptable(HERE)
            adopted = runtime.store.adopt_runs([one.lease for one in found], keeper=f"w{number}")
            runtime.store.leave_runs(list(adopted.values()), leave_for_seconds=60)
        assert len(adopted) == len(found)
        numbers.append(len(seen))
    assert len(found) == 50
    assert numbers[0] == numbers[1] <= 12


# --- who shall stop


def test_a_worker_is_told_which_of_its_runs_shall_stop(runtime: Runtime) -> None:
    mine, other, theirs = kept(runtime, 3)
    adopt(runtime, theirs, "another")
    assert runtime.store.stops_asked_of("old") == {}
    for one in (mine, theirs):
        runtime.store.cancel(one.run.id, tenant="default", by="ada")
    assert runtime.store.stops_asked_of("old") == {mine.run.id: "cancelled"}
    assert runtime.store.stops_asked_of("another") == {theirs.run.id: "cancelled"}
    runtime.settle(mine)
    assert runtime.store.stops_asked_of("old") == {}
    assert runtime.run(other.run.id).stop is None


# --- nobody came


def drained(runtime: Runtime, *, on_lost: str, checkpoint: bool = False, start: bool = True) -> LeasedRun:
    """Leave a run until its time is up."""
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost=on_lost))
    (leased,) = kept(runtime, start=start)
    if checkpoint:
        runtime.store.put_checkpoint(leased.lease, "{}")
    leave(runtime, leased)
    runtime.pass_time(119)
    assert runtime.reap() == 0
    runtime.pass_time(1)
    return leased


@pytest.mark.parametrize(
    ("on_lost", "left", "becomes"),
    [
        ("triage", "nothing", "dead interrupted"),
        ("triage", "a checkpoint", "ready drained resume"),
        ("resume", "nothing", "ready drained resume"),
        ("restart", "nothing", "ready drained"),
        ("restart", "a checkpoint", "ready drained resume"),
    ],
)
def test_a_run_that_was_left_and_not_adopted_was_drained_and_used_no_attempt(
    runtime: Runtime, on_lost: str, left: str, becomes: str
) -> None:
    leased = drained(runtime, on_lost=on_lost, checkpoint=left == "a checkpoint")
    assert runtime.reap() == 1
    run = runtime.run(leased.run.id)
    assert [run.state, run.reason, *(["resume"] if run.resume else [])] == becomes.split()
    assert run.attempt == 0
    assert runtime.store.attempts(run.id)[0].outcome == "interrupted"


def test_one_that_never_started_comes_back_whatever_its_owner_said(runtime: Runtime) -> None:
    drained(runtime, on_lost="triage", start=False)
    assert runtime.reap() == 1
    assert runtime.states() == ["ready lost_before_start"]


def test_one_that_was_left_and_taken_over_by_another_claim_was_drained_too(runtime: Runtime) -> None:
    """Whoever comes next ends its tree and forgets its lease, and yet the reaper knows."""
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="restart"))
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    (leased,) = runtime.lease_batch(**KEPT)
    runtime.store.start_run(leased)
    leave(runtime, leased)
    runtime.pass_time(121)
    taken = runtime.store.acquire(claim("schedule:s"))
    (before,) = taken.predecessors  # type: ignore[union-attr]
    runtime.store.bury(before)
    assert runtime.reap() == 1
    assert runtime.states() == ["ready drained"]
    runtime.store.bury(before)
    assert [held.id for held in runtime.store.leases()] == [taken.lease.id]  # type: ignore[union-attr]


def test_one_that_was_left_and_whose_guard_died_was_drained(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="restart"))
    leave(runtime, *kept(runtime))
    assert runtime.reap(Fate.ALIVE) == 0
    assert runtime.reap(Fate.DEAD) == 1
    assert runtime.states() == ["ready drained"]


def test_one_that_was_adopted_after_it_was_left_and_lost_then_was_lost(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="restart"))
    (leased,) = kept(runtime)
    leave(runtime, leased)
    adopt(runtime, leased)
    runtime.pass_time(121)
    assert runtime.reap() == 1
    run = runtime.run(leased.run.id)
    assert (run.state, run.reason, run.attempt) == ("ready", "restart", 1)


def test_one_that_is_adopted_while_the_reaper_is_thinking_is_not_reaped(runtime: Runtime) -> None:
    leased = drained(runtime, on_lost="restart")
    (seen,) = runtime.store.lost_runs(10)
    assert runtime.store.was_left(seen)
    adopt(runtime, leased)
    back = Settlement(RunState.READY, Reason.DRAINED, uses_attempt=False)
    assert not runtime.store.reap(seen, back, Report("interrupted"), started=True)
    assert runtime.states() == ["running"]
