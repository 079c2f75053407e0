"""How long the server takes for each page of the dashboard, with ten thousand runs on record: `make bench-pages`."""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.support.postgres import PostgresServer
from tests.support.runtime import open_runtime
from tests.support.webdoor import WebDoor, web_door
from tests.web.test_dashboard import Person, fill

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
LOOKS = 15
PAGES = (
    *("/", "/skips", "/schedules", "/schedules/s5", "/schedules/s5?wanted=overlap", "/schedules/s5/why", "/calendar"),
    *("/runs", "/runs?state=succeeded", "/runs?state=dead", "/runs?schedule=s3", "/runs/x9", "/queues", "/dead"),
    *("/leases", "/notices", "/audit", "/audit?verb=tick", "/audit?prove=1", "/keys"),
)


def main() -> None:
    """Measure both stores."""
    for kind in ("sqlite", "postgresql"):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

            def url(stack: ExitStack = stack) -> str:
                server = stack.enter_context(PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False))
                return server.create_database()

            runtime = stack.enter_context(open_runtime(kind, folder, url))
            web = stack.enter_context(web_door(runtime, folder))
            fill(web, 1, RUNS)
            web.runtime.sql(SKIPPED.format(now_us=web.runtime.rig.now_us(), last=RUNS))
            web.runtime.sql(AUDITED.format(now_us=web.runtime.rig.now_us(), last=RUNS))
            web.runtime.sql("ANALYZE")
            measure(kind, web)


def measure(kind: str, web: WebDoor) -> None:
    """Print how long each page takes, the slowest last."""
    person = Person(web)
    found = sorted((timed(lambda path=path: person.looks(path)), path) for path in PAGES)  # type: ignore[misc]
    print(f"{kind}, {RUNS:,} runs, {RUNS:,} ticks with a run and as many without, {RUNS:,} audit entries:")
    for (middle, worst), path in found:
        print(f"  {middle * 1e3:7.1f} ms  worst {worst * 1e3:7.1f} ms  {path}")


def timed(look: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the worst of some looks, the first left out."""
    look()
    took = []
    for _ in range(LOOKS):
        start = time.perf_counter()
        look()
        took.append(time.perf_counter() - start)
    return median(took), max(took)


SKIPPED = """
WITH RECURSIVE n(n) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM n WHERE n < {last})
INSERT INTO $tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count, disposition,
                   tzdata, decided_us)
SELECT 'default', 's' || (n % 7 + 1), 'k' || n, 1, '2026-01-01T00:00:00', '2026-01-01T00:00:00',
       {now_us} - n * 1000000 - 500000, {now_us} - n * 1000000 - 500000, 1, 'overlap', '', {now_us} - n * 1000000 FROM n
"""
AUDITED = """
WITH RECURSIVE n(n) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM n WHERE n < {last})
INSERT INTO $audit (tenant, at_us, actor, verb, subject, detail)
SELECT 'default', {now_us} - 1000000 * ({last} - n), 'w', CASE WHEN n % 3 = 0 THEN 'tick' ELSE 'settle' END,
       'run:x' || n, '{{"state": "succeeded"}}' FROM n
"""


if __name__ == "__main__":
    main()
