"""What the benchmarks of the scheduler share: both stores, made for one measurement, and how figures are printed."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any

import apsw
import psycopg

from fencepost import wiring
from fencepost.host.garbage import uncollected
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import want
from fencepost.stores.runtime import RuntimeStore

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.postgres import PostgresServer  # after the path to it

TENANT = "default"
AGENTS = {"agent": AgentDefinition("agent", command=("true",))}
FENCEPOST = Path(sys.executable).parent / "fencepost"
KINDS = ("sqlite", "postgresql")


@contextmanager
def stores(kinds: Sequence[str] = KINDS) -> Iterator[Iterator[tuple[str, str]]]:
    """Yield the kind and the URL of an empty store on a disk, one after the other."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
    try:
        yield _each(folder, kinds)
    finally:
        shutil.rmtree(folder)


def _each(folder: Path, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    if "sqlite" in kinds:
        yield "sqlite", f"sqlite:{folder}/state.db"
    if "postgresql" in kinds:
        settings = {"shared_buffers": "256MB"}
        with PostgresServer.private(settings, in_memory=False) as server:
            url = server.create_database()
            wiring.migrate_store(url)
            yield "postgresql", url


@contextmanager
def opened(url: str) -> Iterator[RuntimeStore]:
    """Open a store for a while."""
    store = wiring.open_runtime(url)
    try:
        yield store
    finally:
        store.close()


@uncollected()  # as every door has it
def apply(url: str, schedules: Mapping[str, ScheduleDefinition], source: str = "/bench.toml") -> None:
    """Put definitions into the registry."""
    with opened(url) as store:
        registry = store.registry()
        registry.apply(want(TENANT, "/agents.toml", agents=AGENTS, schedules={}), actor="bench")
        registry.apply(want(TENANT, source, agents={}, schedules=schedules), actor="bench")


def fill(url: str, number: int) -> None:
    """Register so many further schedules that are due once a year; copied from one that was applied, to save minutes."""
    apply(url, {"far": ScheduleDefinition("far", "agent", cron="0 0 1 1 *", timezone="UTC")}, source="/far.toml")
    common = "tenant, version, hash, agent, definition, manifest, manifest_hash, applied_us"
    tables = {
        "schedule": (
            f"{common}, source, trigger, cursor_us, due_us",
            f"{common}, source, trigger, cursor_us, due_us + n",
        ),
        "schedule_version": (f"{common}, applied_by, after_us".replace("agent, ", ""),) * 2,
    }
    lite = url.startswith("sqlite:")
    series = f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {number})"
    for table, (names, copied) in tables.items():
        source = "c" if lite else f"generate_series(1, {number}) AS n"
        place = table if lite else f"fencepost.{table}"
        execute(
            url,
            f"{series if lite else ''} INSERT INTO {place} (name, {names})"
            f" SELECT 'far-' || n, {copied} FROM {place}, {source} WHERE name = 'far'",
        )
    execute(url, "ANALYZE" if lite else "VACUUM ANALYZE")


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements of the benchmark's own over a connection of its own; return the rows of the last."""
    if url.startswith("sqlite:"):
        connection = apsw.Connection(url.removeprefix("sqlite:"))
        found = [connection.execute(one).fetchall() for one in statements]
        connection.close()
        return list(found[-1])
    with psycopg.connect(url, autocommit=True) as server:
        cursors = [server.execute(one.encode()) for one in statements]
        return cursors[-1].fetchall() if cursors[-1].description else []


def report(figure: str, rows: Sequence[Mapping[str, object]], *, target: str) -> None:
    """Print JSON lines, then a table."""
    for row in rows:
        print(json.dumps({"figure": figure, **row}))
    print(f"\n{figure}; target: {target}")
    names = list(rows[0])
    widths = [max(len(str(row[name])) for row in [dict(zip(names, names, strict=True)), *rows]) for name in names]
    for row in [dict(zip(names, names, strict=True)), *rows]:
        print("  ".join(str(row[name]).rjust(width) for name, width in zip(names, widths, strict=True)))


@contextmanager
def daemon(url: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real scheduler on a store until the block ends."""
    folder = tempfile.mkdtemp(prefix="fencepost-bench-")
    process = subprocess.Popen([FENCEPOST, *arguments, "--store", url], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
        shutil.rmtree(folder)


def now() -> float:
    """Return the wall clock, which ticks are about."""
    return time()
