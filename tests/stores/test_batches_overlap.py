"""Workers whose batches overlap in everything, in whatever order: no deadlock, nothing held twice, nothing lost."""

import os
import random  # noqa: TID251  # seeded
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.instants import from_us
from fencepost.model.outcome import Settlement
from fencepost.model.process import Host, ProcessId
from fencepost.model.project import Workplace
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import Ended, LeasedRun, Offer, Report, RunRow, Starting
from fencepost.stores.postgres.store import open_store
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import Opening
from tests.support.runtime import MYSELF, SUCCEEDED, new_id, together

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from tests.support.postgres import PostgresDatabases

SECONDS = float(os.environ.get("FENCEPOST_STRESS_SECONDS", "1.5"))
WORKERS, BATCH, SLOTS = 5, 14, 2
PROJECT = "project:here"
PLACES = (Workplace("default", "p", PROJECT, "/here", SLOTS, isolated=False),)
HERE = Host("tower", "machine-1", "boot-1", "pid:1")


class Yard:
    """A store whose runs want the same few things, and what its workers know of each other."""

    def __init__(self, open_it: Callable[[], RuntimeStore]) -> None:
        self.open_it = open_it
        self.store = open_it()
        self.lock = threading.Lock()
        self.held: dict[tuple[str, str], int] = {}  # resource -> fence
        self.leases: list[Lease] = []
        self._clock = SystemClock()
        self.did = {"leased": 0, "settled": 0, "asked to renew": 0, "could be adopted": 0}
        self._fill()
        self._end_ns = self._clock.awake_ns() + round(SECONDS * 1e9)

    def _fill(self) -> None:
        agents = {
            "agent": AgentDefinition("agent", command=("true",), max_attempts=99),
            "inside": AgentDefinition("inside", command=("true",), max_attempts=99, project="p"),
        }
        common = {"at": "2020-01-01T00:00:00Z", "grace": "36500d", "concurrency_key": "k", "concurrency": 3}
        schedules = {f"s{number}": ScheduleDefinition(f"s{number}", "agent", **common) for number in range(8)}  # type: ignore[arg-type]
        self.store.registry().apply(want("default", "test.toml", agents=agents, schedules=schedules), actor="test")
        self.store.keep_workplaces("worker", MYSELF, PLACES, ttl_seconds=3600)
        for number in range(24):
            target = ("agent", "inside")[number % 2]
            request_run(self.store, tenant="default", target=target, key=f"k{number}", new_run_id=new_id, by="ada")
        while Ticker(self.store, new_id).step():
            pass

    def goes_on(self) -> bool:
        return self._clock.awake_ns() < self._end_ns

    def work(self, seed: int) -> None:
        """Lease, start and settle what everybody else wants too, in an order of one's own."""
        store, dice = self.open_it(), random.Random(seed)
        while self.goes_on():
            runs = store.next_runs(BATCH, places=PLACES)
            dice.shuffle(runs)
            leased = store.lease_runs([_offer(run) for run in runs], recheck_for)
            self.take(leased)
            dice.shuffle(leased)
            assert store.start_runs([Starting(one.lease, one.run) for one in leased]) == {}
            threading.Event().wait(0.001)
            dice.shuffle(leased)
            self.give_back(leased)
            now_us = store.clock_us()
            assert store.settle_runs([_end(one, now_us, last=dice.random() < 0.01) for one in leased]) == {}
            with self.lock:
                self.did["settled"] += len(leased)
        store.close()

    def renew(self, _seed: int) -> None:
        """Renew whatever anybody has in hand."""
        store = self.open_it()
        while self.goes_on():
            with self.lock:
                leases = list(self.leases)
            answers = store.renew_leases(leases)
            assert set(answers.values()) <= {"renewed", "busy", "lost"}
            self.did["asked to renew"] += len(answers)
            threading.Event().wait(0.002)
        store.close()

    def look(self, _seed: int) -> None:
        """Look for what could be adopted, as every worker does before it reaps."""
        store = self.open_it()
        while self.goes_on():
            self.did["could be adopted"] += len(store.adoptable(HERE))
            store.stops_asked_of("w")
            threading.Event().wait(0.005)
        store.close()

    def take(self, leased: list[LeasedRun]) -> None:
        with self.lock:
            for one in leased:
                for name in one.lease.resources:
                    key = (one.lease.tenant, name)
                    assert key not in self.held, f"{name} is held twice"
                    self.held[key] = one.lease.fence
            self.leases += [one.lease for one in leased]
            self.did["leased"] += len(leased)
            keys = [name for _, name in self.held if name.startswith("key:")]
            assert len(keys) <= 3, keys

    def give_back(self, leased: list[LeasedRun]) -> None:
        with self.lock:
            for one in leased:
                self.leases.remove(one.lease)
                for name in one.lease.resources:
                    del self.held[one.lease.tenant, name]


def _offer(run: RunRow) -> Offer:
    inside = run.agent == "inside"
    claim = claim_for(
        run,
        lease_id=f"l-{new_id()}",
        supervisor=ProcessId(HERE, 4711, "1"),
        ttl_seconds=60,
        gates=("file:/x",),
        also=(PROJECT,) if inside else (),
        slots=SLOTS if inside else 1,
    )
    return Offer(run.id, claim._replace(keeper="w", keeper_socket="/s", adopt_key="k"))


def _end(leased: LeasedRun, now_us: int, *, last: bool) -> Ended:
    """Send it back into the queue at once, so that everybody wants it again."""
    again = Settlement(RunState.READY, Reason.RESTART, ready_at=from_us(now_us))
    return Ended(leased, SUCCEEDED if last else again, Report("succeeded" if last else "interrupted"))


def crowd(open_it: Callable[[], RuntimeStore]) -> Yard:
    yard = Yard(open_it)
    jobs = [*[yard.work] * WORKERS, yard.renew, yard.look]
    together(lambda job: job[1](job[0]), list(enumerate(jobs)))
    assert yard.held == {}
    assert yard.store.leases() == []
    assert yard.did["leased"] == yard.did["settled"] >= BATCH
    assert yard.did["asked to renew"] + yard.did["could be adopted"] > 0
    fences = [one.fence for run in yard.store.runs(tenant="default") for one in yard.store.attempts(run.id)]
    assert len(fences) == yard.did["leased"]
    return yard


def test_batches_that_overlap_share_nothing_on_sqlite(tmp_path: Path) -> None:
    def open_it() -> RuntimeStore:
        opening = Opening(
            str(tmp_path / "state.db"), clock=SystemClock(), boot="boot", network_kind=lambda _: None, busy_ms=60_000
        )
        return RuntimeStore(opening.open(new_id="yard"))

    crowd(open_it).store.close()


def test_batches_that_overlap_share_nothing_on_postgresql_and_never_wait_in_a_circle(
    postgres_server: "PostgresDatabases", counted_deadlocks: list[BaseException]
) -> None:
    url = postgres_server.create_database()
    crowd(lambda: RuntimeStore(open_store(url, new_id="yard", allow_lossy=True))).store.close()
    assert [str(error) for error in counted_deadlocks] == []
    postgres_server.drop_database(url)
