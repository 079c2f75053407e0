"""100,000 schedules applied: for the first time, again without a change, and again with every one of them edited."""

import sys
import threading
import time
from dataclasses import replace

from bench.ground import KINDS, apply, opened, report, stores
from fencepost.model.definition import ScheduleDefinition

NUMBER = 100_000
SECONDS = 10.0


def main() -> int:
    """Measure, print, judge."""
    kinds = [one for one in KINDS if one in sys.argv] or KINDS
    rows = []
    with stores(kinds) as found:
        for kind, url in found:
            with opened(url):
                pass
            first = {
                f"s-{n}": ScheduleDefinition(f"s-{n}", "agent", cron=f"{n % 60} {n % 24} * * *", timezone="UTC")
                for n in range(NUMBER)
            }
            edited = {name: replace(one, grace="90s") for name, one in first.items()}
            for what, schedules in (("first", first), ("unchanged", first), ("all edited", edited)):
                seconds, waited = timed(url, schedules)
                rows.append(
                    {"store": kind, "apply": what, "seconds": round(seconds, 2), "longest_wait_s": round(waited, 2)}
                )
    report("100,000 schedules applied", rows, target=f"below {SECONDS:g} s each")
    return int(any(float(str(row["seconds"])) >= SECONDS for row in rows))


def timed(url: str, schedules: dict[str, ScheduleDefinition]) -> tuple[float, float]:
    """Apply, and see how long another writer has to wait meanwhile."""
    done = threading.Event()
    waits = [0.0]

    def write() -> None:
        with opened(url) as store:
            while not done.wait(0.05):
                begin = time.perf_counter()
                store.dialect.write(lambda tx: tx.rows("set_meta", key="bench", value="x"), patient=True)
                waits[0] = max(waits[0], time.perf_counter() - begin)

    other = threading.Thread(target=write)
    other.start()
    begin = time.perf_counter()
    apply(url, schedules)
    seconds = time.perf_counter() - begin
    done.set()
    other.join()
    return seconds, waits[0]


if __name__ == "__main__":
    sys.exit(main())
