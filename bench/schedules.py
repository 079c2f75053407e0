"""1,000 schedules due in one instant: how late is each committed as a ready run, seen by another connection.

A real `fencepost scheduler` decides; another connection looks every few milliseconds how many runs are there. With
`--registered N` so many further schedules stand in the registry, none of them due. `ticker_cpu_s` is the processor time
of the scheduler from the instant on, `cpu_before_s` what it used since the apply, to look ahead and to idle (on
PostgreSQL the server's own comes on top). Exits with 1 beyond the target.
"""

import argparse
import sys
import time
from datetime import UTC, datetime, timedelta
from os import cpu_count, getloadavg
from pathlib import Path
from typing import Any

import apsw
import psycopg

from bench.ground import KINDS, apply, daemon, execute, fill, now, opened, report, stores
from fencepost.flow.ticker import Ticker
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.instants import format_instant

DUE = 1_000
LEAD_SECONDS = 8.0
GIVE_UP_SECONDS = 30.0
LOOK_SECONDS = 0.005
P99_SECONDS = 0.1


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registered", type=int, default=0, metavar="N", help="further schedules that are not due")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--store", choices=KINDS, action="append")
    args = parser.parse_args()
    rows = []
    with stores(args.store or KINDS) as found:
        for kind, url in found:
            prepare(url, args.registered)
            with daemon(url, "scheduler") as process:
                rows += [measure(kind, url, process.pid, args.registered, turn) for turn in range(args.rounds)]
    report("1,000 schedules due in one instant", rows, target=f"none lost, p99 at most {P99_SECONDS} s")
    print(f"load: {' '.join(f'{one:.1f}' for one in getloadavg())} on {cpu_count()} cores")
    return int(any(row["lost"] or float(str(row["p99_s"])) > P99_SECONDS for row in rows))


def prepare(url: str, registered: int) -> None:
    """Make the store, fill it, and have all of that on the disk, as it is after an hour."""
    with opened(url) as store:
        Ticker(store, lambda: "").step()  # the first look of all has every schedule decided anew
    if registered:
        fill(url, registered)
        execute(url, "PRAGMA wal_checkpoint(TRUNCATE)" if url.startswith("sqlite:") else "CHECKPOINT")


def measure(kind: str, url: str, pid: int, registered: int, turn: int) -> dict[str, object]:
    """Have the schedules come due together, and see when their runs are there."""
    due_at = (datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS)).replace(microsecond=0)
    names = [f"due-{turn}-{number}" for number in range(DUE)]
    at = format_instant(due_at)
    apply(url, {name: ScheduleDefinition(name, "agent", at=at) for name in names}, source=f"/round-{turn}.toml")
    early = due_at.timestamp() - now()
    applied_cpu = cpu_seconds(pid)
    time.sleep(max(0.0, due_at.timestamp() - now() - 0.05))
    due_cpu = cpu_seconds(pid)
    seen = look(url, due_at.timestamp())
    done_cpu = cpu_seconds(pid)
    late = [at for at, count in seen for _ in range(count)]
    late += [GIVE_UP_SECONDS] * (DUE - len(late))
    p50, p99 = late[(DUE - 1) // 2], late[DUE * 99 // 100]
    return {
        "store": kind,
        "registered": registered + DUE * (turn + 1),
        "due": DUE,
        "lost": DUE - sum(count for _, count in seen),
        "p50_s": round(p50, 3),
        "p99_s": round(p99, 3),
        "max_s": round(late[-1], 3),
        "ticker_cpu_s": round(done_cpu - due_cpu, 3),
        "cpu_before_s": round(due_cpu - applied_cpu, 3),
        "applied_early_s": round(early, 1),
    }


def cpu_seconds(pid: int) -> float:
    """Return how long the scheduler's own process has been on a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def look(url: str, due: float) -> list[tuple[float, int]]:
    """Return how late each look was, and how many runs it found that the one before had not."""
    lite = url.startswith("sqlite:")
    connection: Any = apsw.Connection(url.removeprefix("sqlite:")) if lite else psycopg.connect(url, autocommit=True)
    question = f"SELECT count(*) FROM {'' if lite else 'fencepost.'}run WHERE tick_us = {round(due * 1e6)}"
    found: list[tuple[float, int]] = []
    known = 0
    while known < DUE and now() < due + GIVE_UP_SECONDS:
        ((count,),) = connection.execute(question).fetchall()
        if count > known:
            found.append((max(0.0, now() - due), count - known))
            known = count
        time.sleep(LOOK_SECONDS)
    connection.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
