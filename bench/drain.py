"""How fast a queue of runs that do nothing is drained, durably: a worker's lanes, raw SQL, and the fastest peers.

Each round runs every contender once, one after the other, so that a busy machine slows all of them. On PostgreSQL: raw
SQL (one statement settles a batch of 100 and leases the next), peers, and `fencepost worker`. On SQLite: huey with
fsync, DBOS, and `fencepost worker`. All commits are durable. Reported are medians, as JSON lines and as a table.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, sleep  # a benchmark measures real time

import psycopg

from bench.peers import APSCHEDULER, DBOS, PROCRASTINATE, measured, peer
from fencepost import wiring
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.wiring import new_run_ids
from tests.support.postgres import PostgresServer

BATCH = 100
CONFIG = """[fencepost]
store = "{store}"
timezone = "UTC"
[agents.noop]
engine = "python"
function = "bench_noop:noop"
in_process = true
on_lost = "restart"
waiting_max = 10000000
"""
RAW_TABLE = """
CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text NOT NULL,
                  state text NOT NULL DEFAULT 'ready', fence bigint NOT NULL DEFAULT 0, lease_until timestamptz)
WITH (fillfactor = 60);
CREATE INDEX job_ready ON job (id) WHERE state = 'ready';
"""
RAW_TURN = b"""
WITH done AS (UPDATE job SET state = 'done', lease_until = NULL
                FROM unnest(%s::bigint[], %s::bigint[]) AS d (id, fence)
               WHERE job.id = d.id AND job.fence = d.fence AND state = 'running' RETURNING 1),
     next AS (SELECT id FROM job WHERE state = 'ready' ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
UPDATE job SET state = 'running', fence = fence + 1, lease_until = clock_timestamp() + interval '30s'
  FROM next WHERE job.id = next.id
RETURNING job.id, job.fence
"""


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=("postgresql", "sqlite", "both"), default="both")
    options = parser.parse_args()
    if options.store != "sqlite":
        with PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False) as server:
            contenders = {
                "raw sql": lambda: drain_raw(server.create_database(), options.runs),
                "pgqueuer": lambda: drain_pgqueuer(server.create_database(), options.runs),
                "procrastinate": lambda: measured(PROCRASTINATE, "drain", server.create_database(), BATCH * 20),
                "apscheduler": lambda: measured(APSCHEDULER, "drain", server.create_database(), BATCH * 4),
                "fencepost": lambda: drain_fencepost(server.create_database(), options.runs),
            }
            compare("postgresql", contenders, options.rounds)
    if options.store != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            few = options.runs // 8  # it commits each by itself
            names = (f"{folder}/{number}.db" for number in range(1000))
            contenders = {
                "huey fsync": lambda: drain_huey(next(names), few),
                "dbos": lambda: measured(DBOS, "drain", f"sqlite:///{next(names)}", BATCH * 4),
                "fencepost": lambda: drain_fencepost(f"sqlite:{next(names)}", options.runs),
            }
            compare("sqlite", contenders, options.rounds)
    return 0


def compare(store: str, contenders: dict[str, Callable[[], float]], rounds: int) -> None:
    """Let each drain once per round; print each figure as it comes, and the medians at the end."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, drain in contenders.items():
            rates[name].append(drain())
            print(json.dumps({"store": store, "round": number, "who": name, "per_second": round(rates[name][-1])}))
    ours = median(rates["fencepost"])
    print(f"\n{store:<14} {'per second':>12} {'fencepost is':>14}")
    for name, found in rates.items():
        print(f"{name:<14} {median(found):>12,.0f} {ours / median(found):>13.2f}x")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores\n", flush=True)


def drain_raw(url: str, number: int) -> float:
    """Settle a batch and lease the next, one statement each."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RAW_TABLE)
        connection.execute("INSERT INTO job (payload) SELECT '{}' FROM generate_series(1, %s)", [number])
        connection.execute("VACUUM ANALYZE job")
        ids: list[int] = []
        fences: list[int] = []
        began = perf_counter()
        while True:
            rows = connection.execute(RAW_TURN, (ids, fences), prepare=True).fetchall()
            if not rows and not ids:
                return number / (perf_counter() - began)
            ids, fences = [row[0] for row in rows], [row[1] for row in rows]


def drain_pgqueuer(url: str, number: int) -> float:
    """Drain with its own worker in its drain mode, with a batch of the same size."""
    drivers, queues = peer("pgqueuer.adapters.drivers.asyncpg"), peer("pgqueuer.core.qm")

    async def work() -> float:
        driver = drivers.AsyncpgDriver(await peer("asyncpg").connect(url))
        queries = peer("pgqueuer.queries").Queries(driver)
        await queries.install()
        for first in range(0, number, 1000):
            size = min(1000, number - first)
            await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)
        manager = queues.QueueManager(queries)

        async def noop(job: object) -> None:
            del job

        manager.entrypoint("noop")(noop)

        began = perf_counter()
        await manager.run(batch_size=BATCH, mode=peer("pgqueuer.types").QueueExecutionMode.drain)
        return number / (perf_counter() - began)

    return asyncio.run(work())


def drain_huey(path: str, number: int) -> float:
    """Take each task, execute it and store nothing, as its consumer does in one thread."""
    huey = peer("huey").SqliteHuey(filename=path, fsync=True, results=False)

    def nothing() -> None:
        return None

    noop = huey.task()(nothing)

    for _ in range(number):
        noop()
    began = perf_counter()
    while (task := huey.dequeue()) is not None:
        huey.execute(task)
    return number / (perf_counter() - began)


def drain_fencepost(store: str, number: int, program: Sequence[str] = ("-m", "fencepost")) -> float:
    """Start a worker on a full queue; the rate is that of the store's own records, from first start to last end."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fencepost.toml").write_text(CONFIG.format(store=store))
        Path(folder, "bench_noop.py").write_text("def noop(ctx): pass\n")
        env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        command = [sys.executable, "-m", "fencepost"]
        subprocess.run([*command, "apply"], cwd=folder, env=env, check=True, capture_output=True)
        enqueue(store, number)
        with open(f"{folder}/log", "wb") as log:
            worker = subprocess.Popen([sys.executable, *program, "worker"], cwd=folder, env=env, stderr=log)
        try:
            return _rate(store, number)
        finally:
            worker.terminate()
            worker.wait(60)


def enqueue(store: str, number: int) -> None:
    """Put runs into the queue, a thousand per transaction."""
    runtime = wiring.open_runtime(store)
    batch = [WantedRun()] * 1000
    for _ in range(0, number, 1000):
        request_many(runtime, tenant="default", agent="noop", wanted=batch, new_run_ids=new_run_ids, by="bench")
    runtime.close()


def _rate(store: str, number: int) -> float:
    runtime = wiring.open_runtime(store)
    try:
        while runtime.runs(tenant="default", live=True, limit=1):
            sleep(1)  # seldom: a look takes a server about 25 ms among 40,000 that wait, which is the contender's time
        runs = runtime.runs(tenant="default", state="succeeded", limit=number)
    finally:
        runtime.close()
    assert len(runs) == number, f"{len(runs)} of {number} runs succeeded"
    first, last = min(run.started_us or 0 for run in runs), max(run.ended_us or 0 for run in runs)
    return number / ((last - first) / 1e6)


if __name__ == "__main__":
    sys.exit(main())
