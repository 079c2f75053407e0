"""A store with many ended runs beside one with a page of them: what leasing, listing and looking take, and bytes per run.

A real `fencepost up` carries out two scheduled runs on each store, one that succeeds and one that ends dead. All rows
that it left of them (run, tick, attempt, audit) are copied backwards in time until there are enough, one dead among
a thousand, and `store compact` gives them their narrow form. Then every command runs on both stores in each round, one after the other, so that a busy machine slows both; the
quickest of the rounds counts, because the others waited for the machine.
Exits with 1 if one of them takes more than 1.2 times as long among many, or a run more than 1 KB.
"""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from bench.ground import FENCEPOST, KINDS, opened, report, stores
from bench.past import copy_runs, shrink, size_of
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.instants import format_instant
from fencepost.model.lease import Claim
from fencepost.operations.audit_verification import audit_state
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.operations.store_maintenance import compact
from fencepost.ports.runs import Report, RunRow
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import new_run_ids
from tests.support.runtime import SUCCEEDED

FEW = 100
FEW_SHARES, MANY_SHARES = {"succeeded": 50, "dead": 50}, {"succeeded": 999, "dead": 1}  # every list has a page to show
MANY_MAX = 10_000_000
LEASES = 20
LEAD_SECONDS = 5.0
RATIO_MAX, BYTES_MAX = 1.2, 1024
CONFIG = """[fencepost]
store = "{store}"
timezone = "UTC"
[agents.good]
command = ["true"]
waiting_max = 1000000
[agents.bad]
command = ["false"]
[schedules.daily-good]
agent = "good"
at = "{at}"
[schedules.daily-bad]
agent = "bad"
at = "{at}"
"""
COMMANDS = {
    "ps": ["ps"],
    "runs": ["runs"],
    "runs --state dead": ["runs", "--state", "dead"],
    "dead list": ["dead", "list"],
    "show": ["show"],
    "doctor": ["doctor"],
}


class Place:
    """A store with ended runs, and the folder from which commands are given."""

    def __init__(self, folder: Path, url: str, number: int, shares: dict[str, int]) -> None:
        self.folder, self.url = folder, url
        self.environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/state", "XDG_RUNTIME_DIR": f"{folder}/run"}
        self._live()
        before = size_of(url)

        def each() -> dict[str, float]:
            return {name: (size - before.get(name, 0)) / number for name, size in size_of(url).items()}

        self.shown = copy_runs(url, shares, number)
        self.plain_bytes = each()
        began = perf_counter()
        with opened(url) as store:
            self.compacted = compact(store)
        self.compact_seconds = perf_counter() - began
        for table in ("audit", "run", "attempt"):
            shrink(url, table)
        self.bytes = each()

    def command(self, words: list[str]) -> float:
        """Return how many seconds a command takes."""
        words = [*words, self.shown] if words == ["show"] else words
        began = perf_counter()
        subprocess.run([FENCEPOST, *words], cwd=self.folder, env=self.environment, check=True, capture_output=True)
        return perf_counter() - began

    def _live(self) -> None:
        """Let a daemon carry out the runs that all others are copies of."""
        self.folder.mkdir()
        os.mkdir(f"{self.folder}/run", 0o700)
        at = format_instant((datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS)).replace(microsecond=0))
        Path(self.folder, "fencepost.toml").write_text(CONFIG.format(store=self.url, at=at), encoding="utf-8")
        with opened(self.url) as store, self._daemon() as process:
            while not self._is_over(store):
                assert process.poll() is None, Path(self.folder, "said").read_text(encoding="utf-8")
                sleep(0.1)

    def _is_over(self, store: RuntimeStore) -> bool:
        """Tell whether the runs have ended, and the audit of them is sealed."""
        ended = [run for run in store.runs(tenant="default", limit=10) if run.ended_us]
        return len(ended) == len(MANY_SHARES) and not audit_state(store, "default").loose.entries

    @contextmanager
    def _daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        words = [str(FENCEPOST), "up", "--no-web"]
        with Path(self.folder, "said").open("wb") as said:
            process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=said)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


def main() -> int:
    """Measure, print, judge."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500_000, metavar="N", help=f"ended runs, at most {MANY_MAX:,}")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--store", choices=KINDS, action="append")
    args = parser.parse_args()
    if not FEW <= args.runs <= MANY_MAX:
        parser.error(f"--runs {args.runs}: from {FEW:,} to {MANY_MAX:,}")
    rows, sizes = [], []
    for kind in args.store or KINDS:
        with stores([kind]) as first, stores([kind]) as second, tempfile.TemporaryDirectory() as folder:
            few = Place(Path(folder, "few"), next(first)[1], FEW, FEW_SHARES)
            many = Place(Path(folder, "many"), next(second)[1], args.runs, MANY_SHARES)
            rows += list(compared(kind, few, many, args.rounds))
            sizes.append(size_row(kind, many))
    report(f"seconds with {args.runs:,} ended runs", rows, target=f"at most {RATIO_MAX:g} times those with {FEW}")
    report("bytes per ended run", sizes, target=f"at most {BYTES_MAX:,}")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return int(
        any(float(str(row["ratio"])) > RATIO_MAX for row in rows)
        or any(int(str(row["bytes"])) > BYTES_MAX for row in sizes)
    )


def compared(kind: str, few: Place, many: Place, rounds: int) -> Iterator[dict[str, object]]:
    """Yield what each thing takes on both stores, in turns."""
    with opened(few.url) as store_of_few, opened(many.url) as store_of_many:
        ways: dict[str, Callable[[Place], float]] = {
            "lease": lambda place: seconds_to_lease(store_of_few if place is few else store_of_many),
            **{name: partial(Place.command, words=words) for name, words in COMMANDS.items()},
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                took = way(few), way(many)
                if number:  # the first round warms up
                    found[name].append(took)
    for name, times in found.items():
        least, most = (min(one) for one in zip(*times, strict=True))
        yield {
            "store": kind,
            "what": name,
            "few_s": round(least, 4),
            "many_s": round(most, 4),
            "ratio": round(most / least, 2),
        }


def seconds_to_lease(store: RuntimeStore) -> float:
    """Ask for some runs, lease and settle each; return what leasing one takes."""
    me, took = system_processes(SystemClock()).myself(), []

    def claim(run: RunRow) -> Claim:
        return claim_for(run, lease_id=os.urandom(16).hex(), supervisor=me, ttl_seconds=30)

    wanted = [WantedRun()] * LEASES
    request_many(store, tenant="default", agent="good", wanted=wanted, new_run_ids=new_run_ids, by="bench")
    for _ in wanted:
        began = perf_counter()
        leased = store.lease_run(claim, recheck_for)
        took.append(perf_counter() - began)
        assert leased is not None
        store.start_run(leased)
        store.settle(leased.lease, SUCCEEDED, Report("succeeded", exit_code=0), clean=True)
    return median(took)


def size_row(kind: str, place: Place) -> dict[str, object]:
    """Tell what a run takes, and where."""
    dearest = sorted(place.bytes.items(), key=lambda item: -item[1])[:5]
    return {
        "store": kind,
        "bytes": round(sum(place.bytes.values())),
        "before_compact": round(sum(place.plain_bytes.values())),
        "moved": place.compacted.runs,
        "compact_s": round(place.compact_seconds, 1),
        "of_which": ", ".join(f"{name} {size:.0f}" for name, size in dearest),
    }


if __name__ == "__main__":
    sys.exit(main())
