"""Failures that other schedulers' users have reported, each as the behaviour that keeps it from happening here."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.flow.foresight import Foresight
from fencepost.flow.ticker import Ticker, plan_of
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Busy, LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Granted
from fencepost.model.process import Fate
from fencepost.operations.run_requests import request_run
from fencepost.service.custody import Custody, Term
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.transaction import Dialect, Transaction
from tests.stores.rig import SqliteRig, claim
from tests.support.clock import ManualClock
from tests.support.runtime import DEAD, MYSELF, TENANT, Runtime, at, new_id, together, us

START = at("2027-01-15T08:00:00")


def test_workers_with_the_same_name_and_pid_are_still_different_holders(runtime: Runtime) -> None:
    """Three processes of one host shared a node name, and all believed that they were the leader."""
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    stores = [runtime.another() for _ in range(3)]
    together(runtime.tick, stores)
    together(runtime.lease, stores)
    assert len(runtime.runs()) == 1
    assert len(runtime.store.leases()) == 1


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.integers(-90, 240), min_size=1, max_size=25))
def test_the_watermark_advances_once_for_each_slot(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    """One slot fired twice, then the cadence advanced twice, so that the next week was skipped."""
    rig = SqliteRig(tmp_path_factory.mktemp("watermark") / "state.db")
    runtime = Runtime(rig)
    runtime.cron(overlap="allow_parallel", parallel_max=1000, missed="replay", catchup_max=1000, grace="0s")
    cursors = [runtime.schedule()["cursor_us"]]
    highest = START
    for step in steps:
        runtime.go_to(runtime.now + timedelta(seconds=step))
        runtime.tick()
        cursors.append(runtime.schedule()["cursor_us"])
        highest = max(highest, runtime.now)
    assert cursors == sorted(cursors)
    minutes = int((highest - START).total_seconds() // 60)
    assert [slot for slot, _, _ in runtime.ticks()] == [
        (START + timedelta(minutes=number + 1)).replace(tzinfo=None).isoformat() for number in range(minutes)
    ]
    rig.close()


def test_the_key_lives_in_the_run_and_not_in_the_definition(runtime: Runtime) -> None:
    """A file that was rewritten lost what had run, and everything ran twice for a month."""
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.work()
    runtime.definitions["default"].clear()
    runtime.put()
    runtime.cron()
    runtime.tick()
    assert len(runtime.runs()) == 1


def test_a_run_ten_times_as_long_as_its_lease_is_delivered_once(runtime: Runtime) -> None:
    """Work that took longer than the visibility timeout was delivered again and again."""
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    leased = runtime.leased(ttl=30, start=True)
    for _ in range(30):
        runtime.pass_time(10)
        runtime.store.renew(leased.lease)
        assert runtime.reap() == 0
        assert runtime.lease() is None
    runtime.settle(leased)
    assert runtime.states("s")[0] == "succeeded"


def test_a_run_that_waits_ten_times_as_long_as_a_lease_is_delivered_once(runtime: Runtime) -> None:
    runtime.cron(jitter="10h")
    runtime.tick_at("2027-01-15T08:01:00")
    (run,) = runtime.runs()
    runtime.pass_time(300)
    runtime.tick()
    assert runtime.lease() is None
    runtime.go_to(START + timedelta(microseconds=run.ready_us - us("2027-01-15T08:00:00")))
    assert runtime.leased().run.id == run.id
    assert runtime.lease() is None


def test_what_a_full_schedule_defers_stays_owed_until_it_is_decided(runtime: Runtime) -> None:
    """A tick that was put off by a cap was lost, because it matched one minute only."""
    runtime.cron(overlap="queue", queue_max=1)
    runtime.tick_at("2027-01-15T08:01:00")
    leased = runtime.leased(start=True, ttl=3600)
    for minute in range(2, 7):
        runtime.tick_at(f"2027-01-15T08:{minute:02d}:00")
    runtime.settle(leased)
    assert runtime.leased().run.tick_us == us("2027-01-15T08:06:00"), "the newest has waited"
    assert len(runtime.ticks()) == 6
    assert set(runtime.kinds()) == {"run"}


def test_giving_a_lease_back_twice_makes_no_room_for_two(runtime: Runtime) -> None:
    """A worker that was thought dead released the lock a second time: a limit of one became eleven."""
    runtime.cron("a", concurrency_key="one")
    runtime.cron("b", concurrency_key="one")
    runtime.cron("c", concurrency_key="one")
    runtime.tick_at("2027-01-15T08:01:00")
    slow = runtime.leased(ttl=5, start=True)
    runtime.pass_time(6)
    runtime.reap()
    runtime.leased(start=True)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            runtime.store.release(slow.lease, clean=True)
        with pytest.raises(LeaseLost):
            runtime.settle(slow)
    assert runtime.lease() is None


PHASES: dict[str, Callable[[Runtime], object]] = {
    "queued": lambda _runtime: None,
    "leased": lambda runtime: runtime.leased(ttl=5),
    "started": lambda runtime: runtime.leased(ttl=5, start=True),
    "settled": lambda runtime: runtime.work(DEAD),
}


@pytest.mark.parametrize("phase", PHASES)
def test_whatever_phase_a_worker_dies_in_the_schedule_goes_on(runtime: Runtime, phase: str) -> None:
    """A flag that said "running" outlived the run, and the schedule never ran again."""
    runtime.cron(overlap="forbid")
    runtime.tick_at("2027-01-15T08:01:00")
    PHASES[phase](runtime)
    runtime.pass_time(30)
    runtime.reap()
    while leased := runtime.lease():
        runtime.settle(leased)
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.kinds() == ["run", "run"]


def test_the_registry_is_in_the_store_and_needs_no_client(runtime: Runtime) -> None:
    """A restart emptied the plan until every application had registered again."""
    runtime.cron()
    runtime.go_to("2027-01-15T08:01:00")
    assert runtime.tick(runtime.another()) == 1
    assert len(runtime.runs()) == 1


def test_recovery_goes_through_the_same_admission_as_everything_else(runtime: Runtime) -> None:
    """After a change of leader, runs were launched again beside those that still ran."""
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="restart"))
    runtime.cron(overlap="queue", queue_max=5)
    runtime.tick_at("2027-01-15T08:01:00", "2027-01-15T08:02:00")
    runtime.leased(ttl=5, start=True)
    runtime.pass_time(6)
    heir = runtime.leased(start=True, ttl=300)
    assert runtime.reap() == 1
    assert sorted(run.state for run in runtime.runs()) == ["ready", "running"]
    assert runtime.lease() is None, "what comes back waits like any other"
    runtime.settle(heir)
    assert runtime.lease() is not None


def test_the_reaper_is_a_loop_and_not_a_step_at_the_start(runtime: Runtime) -> None:
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="restart"))
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")
    for _ in range(2):
        runtime.leased(ttl=5, start=True)
        runtime.pass_time(6)
        assert runtime.reap() == 1
        assert runtime.reap(Fate.ALIVE) == 0


def test_a_tick_and_a_request_at_the_same_moment_are_one_decision_after_the_other(runtime: Runtime) -> None:
    """A "run at restart" and the due tick fired 836 ms apart."""
    runtime.cron()
    runtime.go_to("2027-01-15T08:01:00")
    made: list[str] = []

    def ask(number: int) -> None:
        store = runtime.another()
        if number % 2:
            runtime.tick(store)
            return
        try:
            made.append(
                request_run(store, tenant="default", target="s", new_run_id=lambda: f"m{number}", by="x").run.id
            )
        except Busy:
            made.append("")

    together(ask, range(4))
    runtime.tick()
    assert len([run for run in runtime.runs() if run.state == "ready"]) == 1
    assert len(runtime.ticks()) == 1


def test_an_instant_with_many_schedules_is_not_worked_through_by_halves(runtime: Runtime) -> None:
    for number in range(6):
        name = f"at{number}"
        runtime.definitions.setdefault("default", {})[name] = ScheduleDefinition(
            name, "agent", at="2027-01-15T08:05:00Z", concurrency_key="three"
        )
    runtime.apply()
    runtime.tick_at("2027-01-15T08:05:00")
    done = 0
    while leased := runtime.lease():
        runtime.settle(leased)
        done += 1
    assert done == 6


@pytest.mark.parametrize(
    ("start", "daily"),
    [("2027-10-30T12:00:00", ["run", "run"]), ("2027-03-27T12:00:00", ["dst_gap", "run"])],
    ids=["clocks go back", "clocks go ahead"],
)
def test_schedulers_that_take_turns_go_through_a_clock_change(runtime: Runtime, start: str, daily: list[str]) -> None:
    """At the end of summer time the beat stopped, and nobody held the lock afterwards."""
    runtime.go_to(start)
    runtime.cron(cron="30 * * * *", timezone="Europe/Berlin", overlap="allow_parallel", parallel_max=100)
    runtime.cron("daily", cron="30 2 * * *", timezone="Europe/Berlin", overlap="allow_parallel", parallel_max=100)
    stores = [runtime.another(), runtime.another()]
    for number in range(2 * 40):
        runtime.tick(stores[number % 2])
        runtime.pass_time(1800)
    assert len({run.occurrence for run in runtime.runs("s")}) == len(runtime.runs("s")) == 40, "each real hour once"
    assert runtime.kinds("daily") == daily


def test_a_change_of_the_leader_every_second_swallows_no_tick(runtime: Runtime) -> None:
    """A change of leader swallowed the tick, or all later ones; here it changes at every tick, and in between."""
    runtime.go_to("2027-01-15T08:00:00")
    runtime.cron(cron="* * * * * *", overlap="allow_parallel", parallel_max=1000)
    runtime.every("after", every="1s")
    leaders = [(store, Foresight(plan_of)) for store in (runtime.another(), runtime.another(), runtime.another())]
    lead = f"scheduler:{TENANT}"
    for number in range(120):
        store, foresight = leaders[number % len(leaders)]
        for held in store.leases():
            store.break_lease(held, why="elections")
        taken = store.acquire(claim(lead, id=f"lead-{number}"))
        assert isinstance(taken, Granted)
        ticker = Ticker(store, new_id, foresight=foresight)
        while ticker.step():
            pass
        agenda = store.agenda(0)
        ticker.prepare(now_us=agenda.now_us, next_due_us=agenda.next_due_us)
        while leased := runtime.lease():
            runtime.store.start_run(leased)
            runtime.settle(leased)
        runtime.pass_time(0.5)
    made = sorted(run.tick_us or 0 for run in runtime.runs("s"))
    assert made == [us("2027-01-15T08:00:01") + second * 1_000_000 for second in range(len(made))]
    assert len(made) == 59
    assert runtime.kinds("s") == ["run"] * 59
    assert len(runtime.runs("after")) >= 55, "each a second after the one before has ended"


def test_a_schedule_is_over_when_its_end_has_come(runtime: Runtime) -> None:
    """Agents made schedules that nobody owned, and that went on for ever."""
    runtime.cron(start="2027-01-15T08:02:00Z", end="2027-01-15T08:04:00Z", overlap="allow_parallel", parallel_max=9)
    for minute in range(1, 8):
        runtime.tick_at(f"2027-01-15T08:0{minute}:00")
    assert sorted(run.tick_us or 0 for run in runtime.runs()) == [us("2027-01-15T08:02:00"), us("2027-01-15T08:03:00")]
    assert runtime.schedule()["due_us"] is None


class RollingBack:
    """A store on which every write is done and then rolled back, as when the server gives up at the last moment."""

    def __init__(self, store: RuntimeStore) -> None:
        self._store = store
        self._write = store.dialect.write
        self.rolled_back = 0

    def __enter__(self) -> RuntimeStore:
        def write(work: Callable[[Transaction], object], *, patient: bool = False, often: bool = False) -> object:
            def fail(tx: Transaction) -> object:
                work(tx)
                self.rolled_back += 1
                raise StoreUnavailable("rolled back at the last moment.")

            return self._write(fail, patient=patient, often=often)

        self._store._dialect = cast("Dialect", SimpleNamespace(write=write, read=self._store.dialect.read))
        self._store.close = lambda: None  # type: ignore[method-assign]  # the next try gets the same one
        return self._store

    def __exit__(self, *_: object) -> None:
        return


def test_a_renewal_that_was_rolled_back_lends_no_authority(runtime: Runtime) -> None:
    """A node believed itself leader for nineteen days, because a rolled-back election kept the old flag."""
    claim = Claim("l1", "default", ("scheduler:default",), "r1", 5, MYSELF)
    granted = runtime.store.acquire(claim)
    assert isinstance(granted, Granted)
    clock = ManualClock()
    term = Term(clock, counts_sleep=False)
    term.extend(5, asked_ns=clock.awake_ns())
    until = term.deadline_ns
    failing = RollingBack(runtime.another())
    with failing as store:
        custody = Custody(lambda: store, clock, counts_sleep=False)
        kept = custody.keep(granted.lease, term)
        while kept.lost is None:
            clock.pass_time(custody.step() or 1)
            assert term.deadline_ns == until, "only an explicit success lends more time"
        with pytest.raises(StoreUnavailable):
            store.acquire(claim._replace(id="l2", run_id="r2"))
    assert failing.rolled_back >= 3
    assert term.over
    runtime.pass_time(6)
    heir = runtime.store.acquire(claim._replace(id="l3", run_id="r3"))
    assert isinstance(heir, Granted), "and nobody else was kept out by what was rolled back"


def test_two_that_both_believe_to_lead_make_each_tick_once(runtime: Runtime) -> None:
    """The unique occurrence decides, whoever believes what."""
    first, second = runtime.another(), runtime.another()
    claim = Claim("l1", "default", ("scheduler:default",), "r1", 5, MYSELF)
    granted = first.acquire(claim)
    assert isinstance(granted, Granted)
    runtime.pass_time(6)
    heir = second.acquire(claim._replace(id="l2", run_id="r2"))
    assert isinstance(heir, Granted)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            first.renew(granted.lease)
        runtime.pass_time(1)
    runtime.cron()
    runtime.go_to(runtime.now + timedelta(minutes=1))
    together(runtime.tick, [first, second])
    assert len(runtime.ticks()) == len(runtime.runs()) == 1, "and if both went on, the unique tick decides"
