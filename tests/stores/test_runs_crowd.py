"""Everybody at once: ticking, leasing, settling, cancelling, asking and applying, without deadlock and without a double."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg

from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Busy, LeaseLost
from fencepost.model.instants import from_us
from fencepost.model.lease import Claim, Granted
from fencepost.model.outcome import Settlement
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.prove import prove
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun, Offer, Report, Starting
from fencepost.stores.postgres.store import open_store
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import Opening
from tests.stores.rig import QUEUE_DIFFERS, claim
from tests.support.runtime import DEAD, MYSELF, SUCCEEDED, AnyFate, together

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import PostgresDatabases

SECONDS = float(os.environ.get("FENCEPOST_STRESS_SECONDS", "2"))
DONE = ("ticked", "taken", "settled", "asked", "applied", "held")
OVERLAPS = ("forbid", "queue", "allow_parallel", "cancel_previous")


def new_id() -> str:
    return os.urandom(8).hex()


class Crowd:
    """One store, and what ten threads with a connection each do to it for a while, by the real clock."""

    def __init__(self, open_it: Callable[[], RuntimeStore]) -> None:
        self.open_it = open_it
        self.clock = SystemClock()
        self.store = open_it()
        self.spans: list[tuple[str, int, int, int]] = []  # schedule, fence, start, end, as the store saw them
        self.starts: dict[tuple[str, int], int] = {}
        self.did: Counter[str] = Counter()
        self._apply(self.store, 0)

    def _apply(self, store: RuntimeStore, turn: int) -> None:
        schedules = {
            f"{overlap}-{number}": ScheduleDefinition(
                f"{overlap}-{number}",
                "inner" if number == 2 else "agent",
                cron="* * * * * *",
                timezone="UTC",
                overlap=overlap,
                queue_max=3 if overlap == "queue" else None,
                parallel_max=3 if overlap == "allow_parallel" else None,
                concurrency_key="shared" if number == 1 else "",
                priority=turn % 3 if number == 2 else 0,
            )
            for overlap in OVERLAPS
            for number in range(3)
        }
        schedules["every"] = ScheduleDefinition("every", "agent", every="100ms")
        agent = AgentDefinition("agent", command=("true",), max_attempts=3, on_lost="restart")
        inner = AgentDefinition("inner", engine="python", function="m:f", in_process=True, on_lost="restart")
        wanted = want("default", "test.toml", agents={"agent": agent, "inner": inner}, schedules=schedules)
        store.registry().apply(wanted, actor="test")

    def run(self, seconds: float) -> None:
        end = self.clock.awake_ns() + round(seconds * 1e9)
        jobs = [self.tick, self.tick, self.work, self.work, self.turn, self.turn, self.reap, self.ask, self.edit]
        jobs += [self.batch, self.batch, self.adopt, self.hold]

        def live(job: Callable[[RuntimeStore, int], None]) -> None:
            store = self.open_it()
            turn = 0
            while self.clock.awake_ns() < end:
                turn += 1
                job(store, turn)
            store.close()

        together(live, jobs)

    def tick(self, store: RuntimeStore, _turn: int) -> None:
        self.did["ticked"] += Ticker(store, new_id, batch_max=4).step()
        threading.Event().wait(0.01)

    def work(self, store: RuntimeStore, turn: int) -> None:
        ttl = 0.2 if turn % 7 == 0 else 30
        leased = store.lease_run(
            lambda run: claim_for(run, lease_id=new_id(), supervisor=MYSELF, ttl_seconds=ttl), recheck_for
        )
        if leased is None:
            threading.Event().wait(0.005)
            return
        self.did["taken"] += 1
        began = store.clock_us()
        with suppress(LeaseLost):
            store.start_run(leased)
            store.put_checkpoint(leased.lease, json.dumps({"turn": turn}))
            if turn % 7 == 0 and turn % 2:
                return  # this worker has died
            stopped = store.stops_asked(leased.lease).get(leased.run.id)
            retry = Settlement(RunState.READY, Reason.RETRY, ready_at=store_now(store.clock_us)())
            settlement = (SUCCEEDED, DEAD, retry)[turn % 3]
            if stopped:
                settlement = Settlement(RunState.CANCELLED, Reason(stopped))
            ended = store.clock_us()
            store.settle(leased.lease, settlement, Report(settlement.state.value), clean=True)
            self.did["settled"] += 1
            self.spans.append((str(leased.run.schedule), leased.lease.fence, began, ended))

    def batch(self, store: RuntimeStore, turn: int) -> None:
        """Lease what others want as well, start it, and settle it together; now and then leave it, or die with it."""
        runs = store.next_runs(8)
        ttl = 0.2 if turn % 7 == 0 else 30
        claims = [claim_for(run, lease_id=new_id(), supervisor=MYSELF, ttl_seconds=ttl) for run in runs]
        offers = [Offer(one.run_id, one._replace(keeper="w", keeper_socket="/s", adopt_key="k")) for one in claims]
        leased = store.lease_runs(offers, recheck_for)
        self.did["taken"] += len(leased)
        if not leased:
            threading.Event().wait(0.005)
            return
        leased_us = store.clock_us()
        self.starts.update({(one.run.id, one.lease.fence): leased_us for one in leased})
        lost = store.start_runs([Starting(one.lease, one.run) for one in leased])
        store.renew_leases([one.lease for one in leased])
        if turn % 5 == 0:
            store.leave_runs([one.lease for one in leased], leave_for_seconds=0.5)
        elif turn % 7 or turn % 2:
            self.settle_batch(store, [one for one in leased if one.run.id not in lost], turn)

    def adopt(self, store: RuntimeStore, turn: int) -> None:
        """Take custody of what others have left, or have in hand, and settle it in their place."""
        there = store.adoptable(MYSELF.host)
        leases = store.adopt_runs([one.lease for one in there if one.held.left_us or turn % 4 == 0], keeper=new_id())
        self.did["adopted"] += len(leases)
        mine = [LeasedRun(one.run, leases[one.lease.id], (), None) for one in there if one.lease.id in leases]
        self.settle_batch(store, mine, turn)
        threading.Event().wait(0.01)

    def settle_batch(self, store: RuntimeStore, leased: list[LeasedRun], turn: int) -> None:
        ended_us = store.clock_us()
        retry = Settlement(RunState.READY, Reason.RETRY, ready_at=from_us(ended_us))
        ends = (SUCCEEDED, DEAD, retry)
        done = [
            Ended(one, ends[(turn + number) % 3], Report(f"{one.lease.epoch} {number}"), clean=number % 4 > 0)
            for number, one in enumerate(leased)
        ]
        lost = store.settle_runs(done)
        self.did["settled"] += len(done) - len(lost)
        self.spans += [
            (str(one.run.schedule), one.lease.fence, self.starts[one.run.id, one.lease.fence], ended_us)
            for one in leased
            if one.run.id not in lost and (one.run.id, one.lease.fence) in self.starts
        ]

    def hold(self, store: RuntimeStore, turn: int) -> None:
        """Hold what a schedule wants, as a command in a terminal does."""
        wanted = claim(f"schedule:forbid-{turn % 3}", f"schedule:queue-{turn % 3}", id=new_id(), ttl=1.0)
        answer = store.acquire(wanted)
        threading.Event().wait(0.01)
        if isinstance(answer, Granted):
            self.did["held"] += 1
            with suppress(LeaseLost):
                store.release(answer.lease, clean=True)

    def turn(self, store: RuntimeStore, turn: int) -> None:
        """Carry out two batches, settling the first with the lease of the second; now and then a lane dies."""
        first = self.lease_batch(store, (), turn)
        second = self.lease_batch(store, first, turn)
        if turn % 7:
            self.lease_batch(store, second, turn, limit=0)
        if not first and not second:
            threading.Event().wait(0.005)

    def lease_batch(
        self, store: RuntimeStore, done: Sequence[LeasedRun], turn: int, limit: int = 5
    ) -> Sequence[LeasedRun]:
        now_us = store.clock_us()
        retry = Settlement(RunState.READY, Reason.RETRY, ready_at=from_us(now_us))
        ended = [
            Ended(one, (SUCCEEDED, DEAD, retry)[(turn + number) % 3], Report(str(number)))
            for number, one in enumerate(done)
        ]
        claim = Claim(new_id(), "", (), "lane", 0.2 if turn % 7 == 0 else 30, MYSELF)
        wanted = LaneRequest(claim, limit, turn % 4, lambda _: (), recheck_for) if limit else None
        turned = store.turn(ended, [done[0].lease] if done else [], wanted)
        spans = [(str(one.run.schedule), one.lease.fence, began, now_us) for began, one in self.began(done)]
        self.spans += [span for span, one in zip(spans, done, strict=True) if one.run.id not in turned.lost]
        self.did["taken"] += len(turned.leased)
        leased_us = store.clock_us()
        self.starts.update({(one.run.id, one.lease.fence): leased_us for one in turned.leased})
        return turned.leased

    def began(self, leased: Sequence[LeasedRun]) -> list[tuple[int, LeasedRun]]:
        return [(self.starts[one.run.id, one.lease.fence], one) for one in leased]

    def reap(self, store: RuntimeStore, _turn: int) -> None:
        self.did["reaped"] += Reaper(store, store, AnyFate(), store_now(store.clock_us)).step()  # type: ignore[arg-type]
        threading.Event().wait(0.02)

    def ask(self, store: RuntimeStore, turn: int) -> None:
        target = ("agent", "inner", *(f"{overlap}-{turn % 3}" for overlap in OVERLAPS))[turn % 6]
        with suppress(Busy):
            asked = request_run(
                store, tenant="default", target=target, key=f"k{turn // 2}", new_run_id=new_id, by="ada"
            )
            self.did["asked"] += 1
            if turn % 3 == 0:
                store.cancel(asked.run.id, tenant="default", by="ada")
                self.did["cancelled"] += 1
        threading.Event().wait(0.005)

    def edit(self, store: RuntimeStore, turn: int) -> None:
        self._apply(store, turn)
        self.did["applied"] += 1
        threading.Event().wait(0.05)


def check(crowd: Crowd, rows: Callable[[str], list[tuple[object, ...]]]) -> None:
    """Look at what is left: nothing double, nothing overlapping, everything accounted for."""
    ticks = rows("SELECT schedule, occurrence FROM $run WHERE trigger IN ('cron', 'every', 'at')")
    assert len(ticks) == len(set(ticks))
    grants = rows(
        "SELECT schedule, attempt.fence FROM $attempt JOIN $run ON run.id = run_id WHERE lease_max = 1 AND schedule <> ''"
    )
    assert len(grants) == len(set(grants)), "a fence of a schedule was given out twice"
    for schedule in {span[0] for span in crowd.spans if span[0].startswith(("forbid", "queue", "cancel", "every"))}:
        spans = sorted(span[1:] for span in crowd.spans if span[0] == schedule)
        for (_, _, ended), (_, began, _) in pairwise(spans):
            assert ended <= began, f"{schedule} overlaps"
    proof = prove(crowd.store, tenant="default")
    assert proof.holds, [one.findings for one in proof.schedules if not one.holds]
    assert all(crowd.did[word] for word in DONE), crowd.did


def test_sqlite_survives_the_crowd(tmp_path: "Path") -> None:
    def open_it() -> RuntimeStore:
        opening = Opening(
            str(tmp_path / "state.db"), clock=SystemClock(), boot="boot", network_kind=lambda _: None, busy_ms=30_000
        )
        return RuntimeStore(opening.open(new_id="crowd"))

    crowd = Crowd(open_it)
    crowd.run(SECONDS)
    connection = crowd.store.dialect._connection  # type: ignore[attr-defined]
    check(crowd, lambda text: connection.execute(text.replace("$", "")).fetchall())
    crowd.store.close()


def test_postgresql_survives_the_crowd_without_a_single_deadlock(
    postgres_server: "PostgresDatabases", counted_deadlocks: list[BaseException]
) -> None:
    url = postgres_server.create_database()
    crowd = Crowd(lambda: RuntimeStore(open_store(url, new_id="crowd", allow_lossy=True)))
    crowd.run(SECONDS)
    with psycopg.connect(url) as connection:
        check(crowd, lambda text: connection.execute(text.replace("$", "fencepost.").encode()).fetchall())
        assert connection.execute(QUEUE_DIFFERS.encode()).fetchall() == []
    crowd.store.close()
    assert [str(error) for error in counted_deadlocks] == []
    postgres_server.drop_database(url)
