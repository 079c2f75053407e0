"""How long a run waits on an idle daemon, from the request to its start, on PostgreSQL.

The raw path is the floor: insert a row and NOTIFY in one connection; another one that listens claims it with one
statement. Ours: a run is asked for, and its function says when it began, in a lane (`in_process = true`) and as an
ordinary attempt in a process of its own. All take turns, so that a busy machine slows all of them.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from time import monotonic, sleep  # a benchmark measures real time

import psycopg

from bench.drain import RAW_TABLE
from fencepost import wiring
from fencepost.operations.run_requests import request_run
from fencepost.wiring import new_run_id
from tests.support.postgres import PostgresServer

PAUSE_SECONDS = 0.3  # between two requests: it shall be idle
TARGET = 2.0
CLAIM = """
UPDATE job SET state = 'running', fence = fence + 1, lease_until = clock_timestamp() + interval '30s'
 WHERE id = (SELECT id FROM job WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id
"""
CONFIG = """[fencepost]
store = "{store}"
timezone = "UTC"
[agents.lane]
engine = "python"
function = "bench_began:began"
in_process = true
[agents.apart]
engine = "python"
function = "bench_began:began"
"""
BEGAN = """
import os, time
def began(ctx):
    now = time.monotonic()
    with open(ctx.payload["fifo"], "w") as fifo:
        fifo.write(repr(now))
"""


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    with (
        PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False) as server,
        raw_path(server.create_database()) as raw,
        daemon(server.create_database()) as ask,
    ):
        ways: dict[str, Callable[[], float]] = {
            "raw insert+notify": raw,
            "fencepost lane": lambda: ask("lane"),
            "fencepost attempt": lambda: ask("apart"),
        }
        for way in ways.values():
            way()  # the first has to start what the others find
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                sleep(PAUSE_SECONDS)
                found[name].append(way() * 1000)
    return show(found)


def show(found: dict[str, list[float]]) -> int:
    """Print JSON lines and a table; fail if the lane is not within its target."""
    floor = median(found["raw insert+notify"])
    for name, times in found.items():
        print(json.dumps({"figure": "latency", "who": name, "ms": [round(one, 2) for one in times]}))
    print(f"\n{'idle, from request to start':<28} {'p50 ms':>8} {'p90 ms':>8} {'of raw p50':>11}")
    for name, times in found.items():
        print(f"{name:<28} {median(times):>8.2f} {quantiles(times, n=10)[-1]:>8.2f} {median(times) / floor:>10.1f}x")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return int(median(found["fencepost lane"]) > TARGET * floor)


@contextmanager
def raw_path(url: str) -> Iterator[Callable[[], float]]:
    """Give a way to measure the raw path: a thread listens and claims, we insert."""
    claimed: list[float] = []
    with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url, autocommit=True) as client:
        listener.execute(RAW_TABLE.encode())
        listener.execute("LISTEN job")

        def work() -> None:
            while [note.payload for note in listener.notifies(stop_after=1)] != ["end"]:
                listener.execute(CLAIM.encode()).fetchall()
                claimed.append(monotonic())

        thread = Thread(target=work)
        thread.start()

        def measure() -> float:
            number = len(claimed)
            began = monotonic()
            with client.transaction():
                client.execute("INSERT INTO job (payload) VALUES ('{}')")
                client.execute("NOTIFY job, 'new'")
            while len(claimed) == number:
                sleep(0.0005)
            return claimed[-1] - began

        yield measure
        client.execute("NOTIFY job, 'end'")
        thread.join()


@contextmanager
def daemon(url: str) -> Iterator[Callable[[str], float]]:
    """Give a way to measure a run of an agent on an idle worker."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "fencepost.toml").write_text(CONFIG.format(store=url))
        Path(folder, "bench_began.py").write_text(BEGAN)
        fifo = f"{folder}/began"
        os.mkfifo(fifo)
        env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        command = [sys.executable, "-m", "fencepost"]
        subprocess.run([*command, "apply"], cwd=folder, env=env, check=True, capture_output=True)
        with open(f"{folder}/log", "wb") as log:
            worker = subprocess.Popen([*command, "worker", "--workers", "2"], cwd=folder, env=env, stderr=log)
        store = wiring.open_runtime(url)

        def ask(agent: str) -> float:
            began = monotonic()
            request_run(
                store, tenant="default", target=agent, payload={"fifo": fifo}, new_run_id=new_run_id, by="bench"
            )
            with open(fifo, encoding="ascii") as file:
                return float(file.read()) - began

        try:
            yield ask
        finally:
            store.close()
            worker.terminate()
            worker.wait(60)


if __name__ == "__main__":
    sys.exit(main())
