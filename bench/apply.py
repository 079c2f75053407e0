"""100,000 schedules applied: for the first time, again without a change, and again with every one of them edited.

Exits with 1 beyond a target.
"""

import os
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from bench.ground import KINDS, apply, opened, report, stores
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.errors import StoreUnavailable

NUMBER = 100_000
SECONDS = {"first": 3.0, "unchanged": 1.0, "all edited": 15.0}
WAIT_SECONDS = 0.2  # of another writer


def main() -> int:
    """Measure, print, judge."""
    kinds = [one for one in KINDS if one in sys.argv] or KINDS
    rows: list[dict[str, Any]] = []
    with stores(kinds) as found:
        for kind, url in found:
            with opened(url):
                pass
            first = {
                f"s-{n}": ScheduleDefinition(f"s-{n}", "agent", cron=f"{n % 60} {n % 24} * * *", timezone="UTC")
                for n in range(NUMBER)
            }
            edited = {name: replace(one, grace="90s") for name, one in first.items()}
            for what, schedules in zip(SECONDS, (first, first, edited), strict=True):
                rows.append({"store": kind, "apply": what, **timed(url, schedules)})
    wanted = ", ".join(f"{what} {seconds:g} s" for what, seconds in SECONDS.items())
    report("100,000 schedules applied", rows, target=f"at most {wanted}; no other writer waits for {WAIT_SECONDS:g} s")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return int(any(row["seconds"] > SECONDS[row["apply"]] or row["longest_wait_s"] > WAIT_SECONDS for row in rows))


def timed(url: str, schedules: dict[str, ScheduleDefinition]) -> dict[str, object]:
    """Apply, and see how long another writer has to wait meanwhile, or how often it gives up."""
    done = threading.Event()
    waits = [0.0]
    refused: list[StoreUnavailable] = []

    def write() -> None:
        with opened(url) as store:
            while not done.wait(0.05):
                begin = time.perf_counter()
                try:
                    store.dialect.write(lambda tx: tx.rows("set_meta", key="bench", value="x"))
                except StoreUnavailable as error:  # it was locked for longer than a program waits
                    refused.append(error)
                waits[0] = max(waits[0], time.perf_counter() - begin)

    other = threading.Thread(target=write)
    other.start()
    begin, cpu = time.perf_counter(), time.process_time()
    apply(url, schedules)
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    done.set()
    other.join()
    return {
        "seconds": round(seconds, 2),
        "client_cpu_s": round(used, 2),
        "longest_wait_s": round(waits[0], 2),
        "refused": len(refused),
    }


if __name__ == "__main__":
    sys.exit(main())
