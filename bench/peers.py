"""Peers that users would pick, each set up as its own documents say: `python -m bench.peers WHO enqueue|drain URL NUMBER`.

Each runs in a process of its own, because some keep one state for a whole process, and prints tasks per second. procrastinate
and APScheduler 4 write to PostgreSQL with durable commits. DBOS wants an extension there that the PostgreSQL of the tests does not
have, and is measured on SQLite, with the settings that it gives its file. procrastinate puts a thousand into the queue with one
call, as we do; the other two offer one call for each.
"""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from time import perf_counter, sleep  # a benchmark measures real time
from typing import Any

import psycopg

BATCH = 1000
CONCURRENCY = 20  # of procrastinate's worker; DBOS and APScheduler have their own defaults
GIVE_UP_SECONDS = 120.0
PROCRASTINATE, DBOS, APSCHEDULER = "procrastinate", "dbos", "apscheduler"


def measured(who: str, what: str, url: str, number: int) -> float:
    """Let one peer fill or drain a queue in a process of its own; return tasks per second."""
    command = [sys.executable, "-m", "bench.peers", who, what, url, str(number)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return float(ran.stdout.splitlines()[-1])


def noop() -> None:
    """Do nothing."""


def peer(name: str) -> Any:  # noqa: ANN401  # a library that need not be there
    """Import one of those whom we measure ourselves against; `make bench-drain` installs them."""
    return import_module(name)


async def procrastinate(url: str, number: int, *, drains: bool) -> float:
    """Defer in batches, then run a worker until nothing is left; return how long the one or the other took."""
    library = peer("procrastinate")
    app = library.App(connector=library.PsycopgConnector(conninfo=url))
    task = app.task(noop, name="noop")
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = perf_counter()
        for _ in range(0, number, BATCH):
            await task.batch_defer_async(*[{}] * BATCH)
        if not drains:
            return perf_counter() - began
        began = perf_counter()
        await app.run_worker_async(
            concurrency=CONCURRENCY, wait=False, listen_notify=False, install_signal_handlers=False
        )
        took = perf_counter() - began
    done = count(url, "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")
    assert done == number, f"{done} of {number} succeeded"
    return took


def dbos(url: str, number: int, *, drains: bool) -> float:
    """Enqueue one by one as a client does, then launch, and wait until all have succeeded."""
    library = peer("dbos")
    config = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
    library.DBOS(config=config)
    library.DBOS.launch()  # which makes its tables
    library.DBOS.destroy(destroy_registry=True)
    client = library.DBOSClient(system_database_url=url)
    began = perf_counter()
    for _ in range(number):
        client.enqueue({"queue_name": "bench", "workflow_name": "noop"})
    took = perf_counter() - began
    client.destroy()
    if not drains:
        return took
    library.DBOS(config=config)
    library.Queue("bench")
    library.DBOS.workflow(name="noop")(noop)
    began = perf_counter()
    library.DBOS.launch()
    wait_for(url, "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'", number)
    took = perf_counter() - began
    library.DBOS.destroy()
    return took


async def apscheduler(url: str, number: int, *, drains: bool) -> float:
    """Add job after job, then start the scheduler, and wait until none is left."""
    library = peer("apscheduler")
    engine = peer("sqlalchemy.ext.asyncio").create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    store = peer("apscheduler.datastores.sqlalchemy").SQLAlchemyDataStore(engine)
    async with library.AsyncScheduler(store) as scheduler:
        await scheduler.configure_task("noop", func=noop)
        began = perf_counter()
        for _ in range(number):
            await scheduler.add_job("noop")
        took = perf_counter() - began
        if not drains:
            return took
        began = perf_counter()
        await scheduler.start_in_background()
        await asyncio.to_thread(wait_for, url, f"SELECT {number} - count(*) FROM jobs", number)
        took = perf_counter() - began
    await engine.dispose()
    return took


def wait_for(url: str, question: str, number: int) -> None:
    """Wait until the peer's own tables say that all is done."""
    began = perf_counter()
    while count(url, question) < number:
        assert perf_counter() - began < GIVE_UP_SECONDS, "it takes too long"
        sleep(0.1)  # seldom, because looking costs the contender its time


def count(url: str, question: str) -> int:
    """Ask the peer's own tables."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return int(file.execute(question).fetchone()[0])
    with psycopg.connect(url, autocommit=True) as connection:
        ((found,),) = connection.execute(question.encode()).fetchall()
        return int(found)


def main() -> int:
    """Measure one peer."""
    who, what, url, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    drains = what == "drain"
    if who == DBOS:
        took = dbos(url, number, drains=drains)
    else:
        took = asyncio.run((procrastinate if who == PROCRASTINATE else apscheduler)(url, number, drains=drains))
    print(number / took)
    return 0


if __name__ == "__main__":
    sys.exit(main())
