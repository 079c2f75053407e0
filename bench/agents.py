"""A thousand agents at once by one worker: what they cost, how fast they start, and how fast the next worker adopts them.

The worker, its guards and a PostgreSQL with its default settings are real; the agents sleep. Memory is PSS of a guard,
without its agent. Adoption: the worker is killed, and from the moment at which the next one says that it is up, the
time is taken until every lease has its new keeper and every agent its old pid.
"""

import os
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep, time_ns  # a benchmark measures real time

from bench.ground import FENCEPOST, execute, report
from bench.idle import kilobytes
from fencepost import wiring
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.wiring import new_run_ids
from tests.support.postgres import PostgresServer

CONFIG = """[fencepost]
store = "{store}"
timezone = "UTC"
[agents.sleeper]
command = ["sleep", "3600"]
[agents.quick]
command = ["sh", "-c", "date +%s%N > began"]
"""
PATIENCE_SECONDS = 120.0
KEPT_SECONDS = 30.0
ASKING_SECONDS = 0.05  # between two questions to the server, which has other work to do meanwhile
TARGETS = {
    "connections": ("at most", 8),
    "pss_mb": ("at most", 2.5),
    "kept_percent": ("at most", 5),
    "starts_per_s": ("at least", 100),
    "start_p50_ms": ("at most", 40),
    "adopted_s": ("at most", 2),
}


class Place:
    """A folder with a configuration, a store, and workers."""

    def __init__(self, folder: str, url: str) -> None:
        self.folder, self.url = folder, url
        self.environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/state", "XDG_RUNTIME_DIR": f"{folder}/run"}
        os.mkdir(f"{folder}/run", 0o700)
        Path(folder, "fencepost.toml").write_text(CONFIG.format(store=url), encoding="utf-8")
        self.store = wiring.open_runtime(url)
        self.worker: subprocess.Popen[bytes] | None = None

    def start(self, number: int) -> float:
        """Start a worker; return when it said that it is up."""
        said = Path(self.folder, f"said-{time_ns()}")
        words = [str(FENCEPOST), "up", "--no-web", "--workers", str(number)]
        with said.open("wb") as file:
            self.worker = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=file)
        until(lambda: b"up: " in said.read_bytes())
        return monotonic()

    def ask(self, agent: str, number: int = 1) -> float:
        """Ask for runs, all at once; return when."""
        began, wanted = monotonic(), [WantedRun()] * number
        request_many(self.store, tenant="default", agent=agent, wanted=wanted, new_run_ids=new_run_ids, by="bench")
        return began

    def count(self, condition: str) -> int:
        """Count held leases of runs."""
        where = f"state = 'held' AND run_id LIKE 'r0%' AND {condition}"
        return int(execute(self.url, f"SELECT count(*) FROM fencepost.lease WHERE {where}")[0][0])

    def guards(self) -> dict[int, list[int]]:
        """Return each guard's children, by its pid."""
        rows = execute(self.url, "SELECT guard_pid FROM fencepost.lease WHERE state = 'held' AND keeper IS NOT NULL")
        return {int(pid): children(int(pid)) for (pid,) in rows}


def main() -> int:
    """Measure, print, judge."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with site() as place:
        found = measure(place, options.agents, options.rounds)
    target = ", ".join(f"{name} {how} {bound:g}" for name, (how, bound) in TARGETS.items())
    report("agents at once", [found], target=target)
    return int(any(is_missed(name, float(str(found[name]))) for name in TARGETS))


def is_missed(name: str, value: float) -> bool:
    """Tell whether a figure is not what it shall be."""
    how, bound = TARGETS[name]
    return value > bound if how == "at most" else value < bound


@contextmanager
def site() -> Iterator[Place]:
    """Make a place, and clear it away with everything that was started there."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer.private(in_memory=False) as server:
        url = server.create_database()
        wiring.migrate_store(url)
        place = Place(folder, url)
        try:
            yield place
        finally:
            if place.worker is not None:
                place.worker.kill()
                place.worker.wait()
            for pid in place.guards():
                os.kill(pid, signal.SIGKILL)  # its agent dies with it
            place.store.close()


def measure(place: Place, number: int, rounds: int) -> dict[str, object]:
    """Take all figures, one after the other."""
    place.start(number)
    place.ask("quick")
    until(lambda: Path(place.folder, "began").exists())
    latencies = [latency(place) for _ in range(rounds)]
    assert place.worker is not None
    helpers = [place.worker.pid, *children(place.worker.pid)]
    before = sum(map(used, helpers))
    began = place.ask("sleeper", number)
    until(lambda: place.count("started_us IS NOT NULL") >= number, pause=ASKING_SECONDS)
    started = monotonic() - began
    until(lambda: all(len(agents) == 1 for agents in place.guards().values()))  # nothing is being prepared any more
    guards = place.guards()
    processes = [*helpers, *guards, *(agent for agents in guards.values() for agent in agents)]
    spent = sum(map(used, processes)) - before
    pss = [kilobytes(pid, "Pss") / 1024 for pid in guards]
    connections = execute(place.url, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    kept = share(place, guards)
    place.worker.kill()
    place.worker.wait()
    up_at = place.start(number)
    until(lambda: place.count("epoch > 0") >= number, pause=ASKING_SECONDS)
    adopted = monotonic() - up_at
    assert place.guards() == guards, "every agent has the guard and the pid that it had"
    return {
        "agents": number,
        "connections": int(connections[0][0]) - 2,  # without ours: one asks, one counts
        "pss_mb": round(sum(pss) / len(pss), 2),
        "kept_percent": round(kept, 1),
        "starts_per_s": round(number / started),
        "start_processor_ms": round(
            spent / number * 1000, 1
        ),  # of worker, helpers, guard and agent; load hardly matters
        "start_p50_ms": round(median(latencies), 1),
        "adopted_s": round(adopted, 2),
        "load": " ".join(f"{one:.1f}" for one in os.getloadavg()),
    }


def latency(place: Place) -> float:
    """Return the milliseconds from a request to the start of its command, on an idle worker."""
    sleep(0.3)
    file = Path(place.folder, "began")
    file.unlink()
    asked_ns = time_ns()
    place.ask("quick")
    until(lambda: file.exists() and file.read_bytes())
    return (int(file.read_bytes()) - asked_ns) / 1e6


def share(place: Place, guards: dict[int, list[int]]) -> float:
    """Return the share of a processor that keeping the agents takes, in percent."""
    assert place.worker is not None
    family = [place.worker.pid, *children(place.worker.pid), *guards]
    before, began = sum(map(used, family)), monotonic()
    sleep(KEPT_SECONDS)
    return (sum(map(used, family)) - before) / (monotonic() - began) * 100


def used(pid: int) -> float:
    """Return how many seconds a process has been on a processor, by the scheduler's own account: ticks are too coarse."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text(encoding="ascii").split()[0]) for one in threads) / 1e9


def children(pid: int) -> list[int]:
    """Return a process's children."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def until(condition: Callable[[], object], *, pause: float = 0.005) -> None:
    """Wait for something to become true."""
    give_up = monotonic() + PATIENCE_SECONDS
    while not condition():
        if monotonic() > give_up:
            raise TimeoutError("it did not happen")
        sleep(pause)


if __name__ == "__main__":
    sys.exit(main())
