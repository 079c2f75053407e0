"""Everybody at once: ticking, leasing, settling, cancelling, asking and applying, without deadlock and without a double."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg
import pytest

from fencepost.flow.leasing import claim_for, recheck_for
from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Busy, LeaseLost
from fencepost.model.lease import Claim
from fencepost.model.moment import from_us
from fencepost.model.outcome import Settlement
from fencepost.model.registry import want
from fencepost.model.run import Reason, RunState
from fencepost.operations.prove import prove
from fencepost.operations.requests import request_run
from fencepost.ports.runs import Ended, LeasedRun, Report, Wanted
from fencepost.stores.postgres import dialect as postgres
from fencepost.stores.postgres.store import open_store
from fencepost.stores.runtime import RuntimeStore
from fencepost.stores.sqlite.store import Opening
from tests.support.runtime import DEAD, MYSELF, SUCCEEDED, AnyFate, together

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import PostgresDatabases

SECONDS = float(os.environ.get("FENCEPOST_STRESS_SECONDS", "2"))
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
        self.did["leased"] += 1
        began = store.clock_us()
        with suppress(LeaseLost):
            store.start_run(leased)
            store.put_checkpoint(leased.lease, json.dumps({"turn": turn}))
            if turn % 7 == 0 and turn % 2:
                return  # this worker has died
            stopped = store.stop_asked(leased.lease)
            retry = Settlement(RunState.READY, Reason.RETRY, ready_at=store_now(store.clock_us)())
            settlement = (SUCCEEDED, DEAD, retry)[turn % 3]
            if stopped:
                settlement = Settlement(RunState.CANCELLED, Reason(stopped))
            ended = store.clock_us()
            store.settle(leased.lease, settlement, Report(settlement.state.value), clean=True)
            self.did["settled"] += 1
            self.spans.append((str(leased.run.schedule), leased.lease.fence, began, ended))

    def turn(self, store: RuntimeStore, turn: int) -> None:
        """Carry out two batches, settling the first with the lease of the second; now and then a lane dies."""
        first = self.lease_batch(store, (), turn)
        second = self.lease_batch(store, first, turn)
        if turn % 7:
            self.lease_batch(store, second, turn, limit=0)
        if not first and not second:
            threading.Event().wait(0.005)

    def lease_batch(
        self, store: RuntimeStore, done: tuple[LeasedRun, ...], turn: int, limit: int = 5
    ) -> tuple[LeasedRun, ...]:
        now_us = store.clock_us()
        retry = Settlement(RunState.READY, Reason.RETRY, ready_at=from_us(now_us))
        ended = [
            Ended(one, (SUCCEEDED, DEAD, retry)[(turn + number) % 3], Report(str(number)))
            for number, one in enumerate(done)
        ]
        claim = Claim(new_id(), "", (), "lane", 0.2 if turn % 7 == 0 else 30, MYSELF)
        wanted = Wanted(claim, limit, turn % 4, lambda _: (), recheck_for) if limit else None
        turned = store.turn(ended, [done[0].lease] if done else [], wanted)
        spans = [(str(one.run.schedule), one.lease.fence, began, now_us) for began, one in self.began(done)]
        self.spans += [span for span, one in zip(spans, done, strict=True) if one.run.id not in turned.lost]
        self.did["turned"] += len(turned.leased)
        leased_us = store.clock_us()
        self.starts.update({(one.run.id, one.lease.fence): leased_us for one in turned.leased})
        return turned.leased

    def began(self, leased: tuple[LeasedRun, ...]) -> list[tuple[int, LeasedRun]]:
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
    assert all(crowd.did[word] for word in ("ticked", "leased", "settled", "turned", "asked", "applied")), crowd.did


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


@pytest.fixture
def counted_deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Count the transactions that PostgreSQL ended because they waited in a circle; the dialect would try again."""
    seen: list[BaseException] = []
    once = postgres.PostgresDialect._write_once

    def watched(self: postgres.PostgresDialect, work: object, limits: postgres.Limits) -> object:
        try:
            return once(self, work, limits)  # type: ignore[arg-type]
        except psycopg.errors.DeadlockDetected as error:
            seen.append(error)
            raise

    monkeypatch.setattr(postgres.PostgresDialect, "_write_once", watched)
    return seen


def test_postgresql_survives_the_crowd_without_a_single_deadlock(
    postgres_server: "PostgresDatabases", counted_deadlocks: list[BaseException]
) -> None:
    url = postgres_server.create_database()
    crowd = Crowd(lambda: RuntimeStore(open_store(url, new_id="crowd", allow_lossy=True)))
    crowd.run(SECONDS)
    with psycopg.connect(url) as connection:
        check(crowd, lambda text: connection.execute(text.replace("$", "fencepost.").encode()).fetchall())
    crowd.store.close()
    assert counted_deadlocks == []
    postgres_server.drop_database(url)
