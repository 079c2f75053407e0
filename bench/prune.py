"""How fast old records go: a store with many ended runs, pruned page by page, as the leading scheduler does it.

Prints how many runs and ticks go in a second, and the longest page: no other program waits longer than that for the pruner.
"""

import json
import os
import tempfile
from argparse import ArgumentParser
from contextlib import closing
from datetime import timedelta
from time import perf_counter
from typing import Any

from fencepost import wiring
from fencepost.flow.pruner import Pruner
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import want
from fencepost.ports.pruning import PrunePlace
from fencepost.stores.runtime import RuntimeStore

DAY_US = 86_400_000_000
SCHEDULES = 100
CHUNK = 20_000
COLUMNS = (
    "id, tenant, agent, schedule, version, trigger, occurrence, tick_us, idempotency_key, manifest, manifest_hash, payload,"
    " resources, lease_max, lines_up, priority, rank, state, created_us, waiting_us, ready_us, place_us, attempt, fence,"
    " started_us, ended_us, counted_us, summary"
)
TICK_COLUMNS = (
    "tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count, disposition, run_id, tzdata,"
    " decided_us"
)


def main() -> None:
    """Fill, prune, tell."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="an empty store (default: an SQLite file in a temporary folder)")
    parser.add_argument("--runs", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = args.store or f"sqlite:{folder}/state.db"
        with closing(wiring.open_runtime(url)) as store:
            fill(store, args.runs)
            print(json.dumps({"store": url.partition(":")[0], "runs": args.runs, **measure(store)}))


def fill(store: RuntimeStore, runs: int) -> None:
    """Make so many runs that succeeded a year ago, each with its tick and its attempt."""
    schedules = {
        f"s{number:03d}": ScheduleDefinition(f"s{number:03d}", "a", cron="0 0 1 1 *", timezone="UTC")
        for number in range(SCHEDULES)
    }
    agents = {"a": AgentDefinition("a", command=("true",))}
    store.registry().apply(want("default", "bench.toml", agents=agents, schedules=schedules), actor="bench")
    began_us = store.clock_us() - 365 * DAY_US
    for start in range(0, runs, CHUNK):
        rows = [record(number, began_us) for number in range(start, min(start + CHUNK, runs))]
        store.dialect.write(lambda tx, rows=rows: put(tx, rows), patient=True)  # type: ignore[misc]


def record(number: int, began_us: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Spell one run, its tick and its attempt."""
    run_id, schedule, at = f"r{number:018d}", f"s{number % SCHEDULES:03d}", began_us + number * 1_000_000
    occurrence = f"UTC|{number}|0"
    run = [
        run_id,
        "default",
        "a",
        schedule,
        1,
        "cron",
        occurrence,
        at,
        "0" * 64,
        '{"command":["true"],"name":"a"}',
        "h",
        "{}",
    ]
    run += ["[]", 1, False, 0, 0, "succeeded", at, at, at, at, 1, at, at, at + 1, at, "ok"]
    tick = ["default", schedule, occurrence, 1, "x", "x", at, at, 1, "run", run_id, "2026a", at]
    return run, tick, [run_id, 1, at, f"{os.uname().nodename}:1"]


def put(tx: Any, rows: list[tuple[list[Any], list[Any], list[Any]]]) -> None:  # noqa: ANN401  # of either dialect
    """Write rows past the verbs, which would take an hour."""
    is_sqlite = "sqlite" in type(tx).__module__
    prefix, mark = ("", "?") if is_sqlite else ("fencepost.", "%s")
    cursor = tx._connection.cursor()  # noqa: SLF001  # the bench alone
    columns = (("run", COLUMNS), ("tick", TICK_COLUMNS), ("attempt", "run_id, number, fence, worker"))
    for place, (table, names) in enumerate(columns):
        marks = ", ".join([mark] * len(names.split(",")))
        cursor.executemany(f"INSERT INTO {prefix}{table} ({names}) VALUES ({marks})", [row[place] for row in rows])


def measure(store: RuntimeStore) -> dict[str, object]:
    """Prune all of it, and time each page."""
    pruner = Pruner(store, "default", timedelta(days=90))
    place: PrunePlace | None = PrunePlace()
    gone = {"runs": 0, "ticks": 0, "pauses": 0, "logs": 0}
    seconds = dict.fromkeys(gone, 0.0)
    longest = 0.0
    while place is not None:
        started = perf_counter()
        page = pruner.step(place)
        took = perf_counter() - started
        gone[place.what] += page.gone
        seconds[place.what] += took
        longest = max(longest, took)
        place = page.next
    return {
        "runs_per_second": round(gone["runs"] / seconds["runs"]),
        "ticks_per_second": round(gone["ticks"] / max(seconds["ticks"], 1e-9)),
        "longest_page_ms": round(longest * 1000, 1),
    }


if __name__ == "__main__":
    main()
