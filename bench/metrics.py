"""What a look at /metrics costs the store, with a hundred thousand runs and ticks on record: `make bench-metrics`."""

import sys
import tempfile
import time
from contextlib import ExitStack

import psycopg

from fencepost.model.definition import AgentDefinition
from fencepost.model.registry_plan import want
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.ports.requests import BATCH_MAX
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import new_run_ids, open_runtime
from tests.support.postgres import PostgresServer

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
AGENTS = 20
LOOKS = 20
# A day ago, all but the last hundredth, so that most of it is old enough to be counted once and for all.
END = (
    "UPDATE {run} SET state = 'succeeded', started_us = created_us, ended_us = created_us + 1000000 * (attempt + 7),"
    " cost_micro = 12000, created_us = created_us - CASE WHEN id < '{recent}' THEN 86400000000 ELSE 0 END"
)
RECENT = f"SELECT id FROM {{run}} ORDER BY id DESC LIMIT 1 OFFSET {RUNS // 100}"
TICKS = """
INSERT INTO {tick} (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count, disposition,
                    run_id, tzdata, decided_us)
SELECT tenant, agent, id, 1, id, id, created_us, created_us, 1, 'run', id, 'x', created_us FROM {run}
"""


def fill(store: RuntimeStore) -> None:
    """Put so many runs and ticks on record."""
    agents = {
        f"a{number}": AgentDefinition(f"a{number}", command=("true",), waiting_max=RUNS) for number in range(AGENTS)
    }
    store.registry().apply(want("default", "bench.toml", agents=agents, schedules={}), actor="bench")
    for start in range(0, RUNS, BATCH_MAX):
        agent = f"a{start // BATCH_MAX % AGENTS}"
        wanted = [WantedRun()] * min(BATCH_MAX, RUNS - start)
        request_many(store, tenant="default", agent=agent, wanted=wanted, new_run_ids=new_run_ids, by="bench")


def fold(name: str, store: RuntimeStore) -> None:
    """Count what is old, page by page, as `up` does, and print how long that takes."""
    start, pages = time.perf_counter(), 1
    while store.metering().fold("default"):
        pages += 1
    took = time.perf_counter() - start
    print(f"{name}: counted once in {took:.1f} s, {pages} pages, {took / pages * 1e3:.1f} ms each")


def measure(name: str, store: RuntimeStore) -> None:
    """Print how long a look takes."""
    took = []
    for _ in range(LOOKS):
        start = time.perf_counter()
        figures = store.metering().figures("default")
        took.append(time.perf_counter() - start)
    assert sum(one.number for one in figures.runs) == RUNS
    assert sum(one.number for one in figures.ticks) == RUNS
    took.sort()
    print(f"{name}: {RUNS:,} runs, median {took[LOOKS // 2] * 1e3:.1f} ms, worst {took[-1] * 1e3:.1f} ms")


def main() -> None:
    """Measure both stores."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = open_runtime(f"sqlite:{folder}/bench.db")
        fill(store)
        connection = store.dialect._connection  # type: ignore[attr-defined]  # noqa: SLF001  # rows by hand
        ((recent,),) = connection.execute(RECENT.format(run="run"))
        for text in (END, TICKS):
            connection.execute(text.format(run="run", tick="tick", recent=recent))
        measure("sqlite, nothing counted before", store)
        fold("sqlite", store)
        measure("sqlite", store)
        store.close()
        server = stack.enter_context(PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False))
        url = server.create_database()
        store = open_runtime(url)
        fill(store)
        with psycopg.connect(url, autocommit=True) as admin:
            ((recent,),) = admin.execute(RECENT.format(run="fencepost.run").encode())
            for text in (END, TICKS):
                admin.execute(text.format(run="fencepost.run", tick="fencepost.tick", recent=recent).encode())
            admin.execute("ANALYZE")
        measure("postgresql, nothing counted before", store)
        fold("postgresql", store)
        measure("postgresql", store)
        store.close()


if __name__ == "__main__":
    main()
