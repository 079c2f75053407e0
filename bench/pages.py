"""How long each page of the dashboard takes with many runs on record, from the server and in a browser: `make bench-pages`.

A simulated month is copied until there are so many runs within thirty days. The server's time is the median of some looks;
first paint is what Chromium says, from the request to something on the screen.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

from tests.support.browser import running_browser
from tests.support.month import Month
from tests.support.postgres import PostgresServer
from tests.support.runtime import Runtime, open_runtime
from tests.support.scene import scene_on
from tests.support.webdoor import WebDoor, web_door
from tests.web.test_dashboard import Person

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
KINDS = sys.argv[2:] or ["sqlite", "postgresql"]
LOOKS = 9
PAGES = (
    *("/", "/timeline", "/timeline?span=1h", "/timeline?span=7d", "/timeline?span=30d", "/timeline?span=30d&by=worker"),
    *("/skips", "/schedules", "/schedules/inbox-triage", "/schedules/inbox-triage?span=30d", "/projects/checkout-api"),
    *("/schedules/inbox-triage/why", "/calendar", "/runs", "/runs?state=dead", "/runs/RUN", "/queues", "/dead"),
    *("/leases", "/notices", "/audit", "/keys"),
)


def main() -> None:
    """Measure both stores."""
    for kind in KINDS:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

            def url(stack: ExitStack = stack) -> str:
                server = stack.enter_context(PostgresServer.private({"shared_buffers": "256MB"}, in_memory=False))
                return server.create_database()

            runtime = stack.enter_context(open_runtime(kind, folder, url, throwaway=True))
            Month(runtime).play()
            copies = multiply(runtime)
            run = runtime.runs("checkout-review")[-1].id
            pages = [path.replace("RUN", run) for path in PAGES]
            paints = painted(runtime, folder, pages)
            web = stack.enter_context(web_door(runtime, folder))
            report(kind, copies, {path: (*served(web, path), paints[path]) for path in pages})


def multiply(runtime: Runtime) -> int:
    """Copy the month's runs, attempts and ticks, each copy a little later, until there are enough; return how many runs."""
    ((number,),) = runtime.sql("SELECT count(*) FROM $run WHERE state IN ('succeeded', 'dead', 'cancelled')")
    times = max(0, round(RUNS / number) - 1)
    for table, copied, only in (
        ("run", COPIED_RUN, "state IN ('succeeded', 'dead', 'cancelled')"),
        ("attempt", COPIED_ATTEMPT, "ended_us IS NOT NULL"),
        ("tick", COPIED_TICK, "true"),
    ):
        columns = _columns(runtime, table)
        values = ", ".join(copied.get(name, name) for name in columns)
        series = f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {times})"
        runtime.sql(
            f"{series} INSERT INTO ${table} ({', '.join(columns)}) SELECT {values} FROM ${table}, n WHERE {only}"
        )
    runtime.sql("ANALYZE")
    ((found,),) = runtime.sql("SELECT count(*) FROM $run")
    return int(found)


def _columns(runtime: Runtime, table: str) -> list[str]:
    if runtime.kind == "sqlite":
        return [str(row[1]) for row in runtime.sql(f"PRAGMA table_info({table})")]
    rows = runtime.sql(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = 'fencepost' AND table_name = '{table}'"
    )
    return [str(name) for (name,) in rows]


def painted(runtime: Runtime, folder: Path, pages: list[str]) -> dict[str, float]:
    """Return when Chromium painted something of each page for the first time, in seconds; the second look counts."""
    with scene_on(runtime, folder) as scene, running_browser() as browser:
        page = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
        page.goto(scene.link())
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{scene.address}/")
        return {path: min(_first_paint(page, f"{scene.address}{path}") for _ in range(2)) for path in pages}


def _first_paint(page: Page, address: str) -> float:
    page.goto(address)
    return float(page.evaluate(PAINTED)) / 1e3


def served(web: WebDoor, path: str) -> tuple[float, float]:
    """Return the median and the worst of some looks, the first left out."""
    person = Person(web)
    return timed(lambda: person.looks(path))


def timed(look: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the worst of some looks, the first left out."""
    look()
    took = []
    for _ in range(LOOKS):
        start = time.perf_counter()
        look()
        took.append(time.perf_counter() - start)
    return median(took), max(took)


def report(kind: str, runs: int, found: dict[str, tuple[float, float, float]]) -> None:
    """Print how long each page takes, the slowest last."""
    print(f"{kind}, {runs:,} runs within thirty days; milliseconds")
    print(f"  {'server':>9}  {'worst':>9}  {'first paint':>11}  page")
    for path, (middle, worst, paint) in sorted(found.items(), key=lambda one: one[1][2]):
        print(f"  {middle * 1e3:9.1f}  {worst * 1e3:9.1f}  {paint * 1e3:11.1f}  {path}")


PAINTED = """() => new Promise((resolve) => {
    const look = () => {
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        if (paint) resolve(paint.startTime); else requestAnimationFrame(look);
    };
    look();
})"""
COPY = "'r' || ({} + n * 7000000) || '-' || n || '-' || {}"  # ids rise with time, as those of real runs do
LATER = {name: f"{name} + n * 7000000" for name in ("created_us", "started_us", "ended_us", "counted_us", "decided_us")}
MADE = "(SELECT created_us FROM $run AS one WHERE one.id = run_id)"
COPIED_RUN = {
    **LATER,
    "id": COPY.format("created_us", "id"),
    "occurrence": "occurrence || '-' || n",
    "request_key": "NULL",
}
COPIED_ATTEMPT = {**LATER, "run_id": COPY.format(MADE, "run_id")}
COPIED_TICK = {
    **LATER,
    "occurrence": "occurrence || '-' || n",
    "run_id": COPY.format(MADE, "run_id"),
    "tick_us": "tick_us + n * 7000000",
    "tick_until_us": "tick_until_us + n * 7000000",
}


if __name__ == "__main__":
    main()
