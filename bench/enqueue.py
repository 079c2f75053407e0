"""How fast runs are put into the queue on PostgreSQL, a thousand per durable commit: raw SQL, peers and us.

Ours is the public operation behind `app.trigger_many`: checked, admitted to the line, audited, with an idempotency key
for each. Each round lets every contender fill an empty queue once, one after the other. With --apart the server has a
processor of its own, as on a machine of its own: some kernels leave it on the caller's for as long as the caller works.
"""

import asyncio
import os
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from time import perf_counter  # a benchmark measures real time

import psycopg

from bench.drain import CONFIG, RAW_TABLE, compare
from bench.peers import APSCHEDULER, PROCRASTINATE, measured, peer
from fencepost import wiring
from fencepost.config.load import load
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.operations.schedule_registry import apply_config
from fencepost.wiring import new_run_ids
from tests.support.postgres import PostgresServer

BATCH = 1000
RAW_INSERT = "INSERT INTO job (payload) SELECT unnest(%s::text[])"


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--apart", action="store_true")
    options = parser.parse_args()
    first, *others = sorted(os.sched_getaffinity(0))
    if options.apart:
        os.sched_setaffinity(0, others)  # which the server inherits
    with PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False) as server:
        if options.apart:
            os.sched_setaffinity(0, [first])
        contenders = {
            "raw sql": lambda: enqueue_raw(server.create_database(), options.runs),
            "pgqueuer": lambda: enqueue_pgqueuer(server.create_database(), options.runs),
            "procrastinate": lambda: measured(PROCRASTINATE, "enqueue", server.create_database(), options.runs),
            "apscheduler": lambda: measured(APSCHEDULER, "enqueue", server.create_database(), options.runs // 50),
            "fencepost": lambda: enqueue_fencepost(server.create_database(), options.runs),
        }
        compare("postgresql", contenders, options.rounds)
    return 0


def enqueue_raw(url: str, number: int) -> float:
    """Insert a narrow row for each."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RAW_TABLE.encode())
        began = perf_counter()
        for _ in range(0, number, BATCH):
            connection.execute(RAW_INSERT, (["{}"] * BATCH,))
        return number / (perf_counter() - began)


def enqueue_pgqueuer(url: str, number: int) -> float:
    """Enqueue with its own batch call."""
    drivers = peer("pgqueuer.adapters.drivers.asyncpg")

    async def work() -> float:
        driver = drivers.AsyncpgDriver(await peer("asyncpg").connect(url))
        queries = peer("pgqueuer.queries").Queries(driver)
        await queries.install()
        began = perf_counter()
        for _ in range(0, number, BATCH):
            await queries.enqueue(["noop"] * BATCH, [b"{}"] * BATCH, [0] * BATCH)
        return number / (perf_counter() - began)

    return asyncio.run(work())


def enqueue_fencepost(url: str, number: int) -> float:
    """Ask for them as a program does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fencepost.toml")
        path.write_text(CONFIG.format(store=url))
        runtime = wiring.open_runtime(url)
        apply_config(runtime.registry(), load(str(path)), tenant="default", actor="bench")
    batch = [WantedRun({})] * BATCH
    began = perf_counter()
    for _ in range(0, number, BATCH):
        request_many(runtime, tenant="default", agent="noop", wanted=batch, new_run_ids=new_run_ids, by="bench")
    rate = number / (perf_counter() - began)
    runtime.close()
    return rate


if __name__ == "__main__":
    sys.exit(main())
