"""What a tick, a run, a renewal and an idle worker cost a PostgreSQL server: processor, transactions, WAL, bytes kept.

Ticks are decided by the product's own ticker, runs (the command `true`, each a process) are carried out by a real
`fencepost worker`, leases are renewed many in a transaction as a worker renews them, and idle is a worker and a
scheduler that have nothing to do. The processor time is that of all processes of the server, which depends on the
load far less than time by the clock. `fencepost simulate --agents` reckons with these (operations/simulation/costs.py).
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
from time import sleep
from typing import NamedTuple

from bench.ground import FENCEPOST, apply, execute, opened, report
from bench.past import size_of
from fencepost import wiring
from fencepost.flow.ticker import Ticker
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.instants import format_instant
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.wiring import new_run_id
from tests.support.postgres import PostgresServer

LEAD_SECONDS = 4.0
SHORT_SECONDS, LONG_SECONDS = 6.0, 26.0
RENEWED_TOGETHER = 250  # as many as custody asks for at once
RENEWALS = 100
COUNTS = """
SELECT xact_commit + xact_rollback, pg_current_wal_lsn() - '0/0' FROM pg_stat_database WHERE datname = current_database()
"""


class Look(NamedTuple):
    """What the server has done by now."""

    processor_us: float
    transactions: int
    wal_bytes: int
    stored_bytes: int


class Meter:
    """Looks at a server before and after."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.url = server, server.create_database()
        wiring.migrate_store(self.url)

    def look(self) -> Look:
        """Look now; a session that has ended is counted by its transactions alone, so look before it ends as well."""
        ((transactions, wal),) = execute(self.url, COUNTS)
        return Look(self.processor_us(), int(transactions), int(wal), sum(size_of(self.url).values()))

    def processor_us(self) -> float:
        """Return how long the server's processes have been on a processor."""
        pid = self.server.pid
        family = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]
        return sum(on_processor(one) for one in family) / 1e3

    def costs(self, what: str, number: float, work: Callable[[Callable[[], None]], None]) -> dict[str, object]:
        """Do some work, which says when its sessions are about to end, and return what one of so many costs."""
        execute(self.url, "CHECKPOINT", "VACUUM ANALYZE")
        before, processor = self.look(), [0.0]
        work(lambda: processor.append(self.processor_us()))
        sleep(0.5)
        after = self.look()
        return {
            "what": what,
            "server_us": round((max(processor) - before.processor_us) / number, 1),
            "transactions": round((after.transactions - before.transactions) / number, 3),
            "wal_bytes": round((after.wal_bytes - before.wal_bytes) / number),
            "stored_bytes": round((after.stored_bytes - before.stored_bytes) / number),
        }


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    number = parser.parse_args().runs
    with PostgresServer.private({"shared_buffers": "256MB", "autovacuum": "off"}, in_memory=False) as server:
        meter = Meter(server)
        rows = [*ticks(meter, number), *runs(meter, number), *renewals(meter), *idle(meter)]
    report("what PostgreSQL does for one", rows, target="none: `fencepost simulate --agents` reckons with them")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return 0


def ticks(meter: Meter, number: int) -> Iterator[dict[str, object]]:
    """Decide ticks that are due together, each with its run."""
    at = format_instant((datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS)).replace(microsecond=0))
    apply(meter.url, {f"s-{n}": ScheduleDefinition(f"s-{n}", "agent", at=at) for n in range(number)})

    def work(ending: Callable[[], None]) -> None:
        with opened(meter.url) as store:
            ticker, decided = Ticker(store, new_run_id), 0
            while decided < number:
                decided += ticker.step()
            ending()

    with opened(meter.url) as store:
        Ticker(store, new_run_id).step()  # the first look of all decides every schedule anew
    sleep(LEAD_SECONDS + 1)
    yield meter.costs("tick, with its run", number, work)


def runs(meter: Meter, number: int) -> Iterator[dict[str, object]]:
    """Let a worker carry out the runs of the ticks."""

    def work(ending: Callable[[], None]) -> None:
        with worker(meter.url, "worker", "--workers", "8"), opened(meter.url) as store:
            while store.runs(tenant="default", live=True, limit=1):
                sleep(0.2)
            ending()

    yield meter.costs("run, a process", number, work)


def renewals(meter: Meter) -> Iterator[dict[str, object]]:
    """Renew many leases together, and one alone."""
    me = system_processes(SystemClock()).myself()
    with opened(meter.url) as store:
        claims = [
            Claim(os.urandom(16).hex(), "default", (f"lock:{n}",), f"bench-{n}", 600.0, me, starts=True)
            for n in range(RENEWED_TOGETHER)
        ]
        granted = [store.acquire(claim) for claim in claims]
        leases = [one.lease for one in granted if isinstance(one, Granted)]

    def work(some: list[Lease], ending: Callable[[], None]) -> None:
        with opened(meter.url) as store:
            for _ in range(RENEWALS):
                assert len(store.renew_leases(some)) == len(some)
            ending()

    for some in (leases, leases[:1]):
        yield meter.costs(f"renewal, {len(some)} together", RENEWALS * len(some), partial(work, some))


def idle(meter: Meter) -> Iterator[dict[str, object]]:
    """Let a worker and a scheduler do nothing, for a short and for a longer time; the difference is what a second costs."""

    def work(name: str, seconds: float, ending: Callable[[], None]) -> None:
        with worker(meter.url, name):
            sleep(seconds)
            ending()

    between = LONG_SECONDS - SHORT_SECONDS
    for name in ("worker", "scheduler"):
        _, short, long = (  # the first one also does what was left to do
            meter.costs(name, between, partial(work, name, seconds))
            for seconds in (SHORT_SECONDS, SHORT_SECONDS, LONG_SECONDS)
        )
        gone = {key: round(float(str(long[key])) - float(str(short[key])), 2) for key in short if key != "what"}
        yield {"what": f"second of an idle {name}", **gone}


@contextmanager
def worker(url: str, *words: str) -> Iterator[None]:
    """Run one part of the service on a store."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        command = [str(FENCEPOST), *words, "--store", url]
        process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def on_processor(pid: int) -> int:
    """Return how many nanoseconds a process of one thread has been on a processor; none if it has just ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
