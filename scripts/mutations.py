"""Plants every mistake and reports who noticed it, and after how many seeds: `make mutations`."""

import argparse
import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from statistics import median
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from tests.planted.change import Change, Copy  # noqa: E402
from tests.planted.changes import changes  # noqa: E402
from tests.planted.fences import fences  # noqa: E402
from tests.simulation import mutations as leases  # noqa: E402
from tests.simulation.adoption import mutations as adoption  # noqa: E402
from tests.simulation.cells import mutations as cells  # noqa: E402
from tests.simulation.gates import mutations as gates  # noqa: E402
from tests.simulation.moving import mutations as moving  # noqa: E402
from tests.simulation.runtime import mutations as runtime  # noqa: E402
from tests.support.postgres import PostgresServer  # noqa: E402

LIMIT = 150
SERVER = "FENCEPOST_TEST_POSTGRES"
PAGE = os.path.join(ROOT, "docs", "reference", "mutations.md")
HEAD = """# Mistakes on purpose

Each takes one rule of the product away, and a test or the simulator must notice. Written by `make mutations`, in one go.

"""


class Row(NamedTuple):
    """What became of one mistake."""

    area: str
    name: str
    noticed_by: str | None
    seeds: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        said = f"| {self.area}: {self.name} |"
        if self.seeds:
            said += f" {self.seeds if self.noticed_by else 'none'} |"
        return f"{said} {self.noticed_by or '**nobody**'} |"


def main() -> int:
    """Try them all, print each as it is done, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose area or name has this in it; the page is left alone")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    wanted = [one for one in everything() if arguments.only in f"{one[0]}: {one[1]}"]
    began = time.perf_counter()
    rows = []
    with server(), ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for row in pool.map(tried, wanted):
            rows.append(row)
            print(f"{row} {row.seconds:.1f} s", flush=True)
    missed = [row for row in rows if row.noticed_by is None]
    if not arguments.only:
        write_page(rows)
    print(f"{len(rows)} mistakes, {len(missed)} not noticed, in {(time.perf_counter() - began) / 60:.1f} minutes")
    return int(bool(missed))


def everything() -> list[tuple[str, str]]:
    """Return area and name of every mistake: those for the simulator, then those for the suite."""
    return [
        *(("leases", name) for name in leases.mutations()),
        *(("gates", name) for name in gates.MUTATIONS),
        *(("cells", name) for name in cells.mutations()),
        *(("adoption", name) for name in adoption.mutations()),
        *(("moving", name) for name in moving.mutations()),
        *(("runtime", name) for name in runtime.mutations()),
        *planted(),
    ]


def tried(which: tuple[str, str]) -> Row:
    """Plant one mistake and see who notices."""
    area, name = which
    began = time.perf_counter()
    if which in planted():
        noticed_by = copy().noticed_by(planted()[which])
        return Row(area, name, noticed_by, seconds=time.perf_counter() - began)
    if area == "leases":
        seeds, violation = leases.seeds_until_caught(leases.mutations()[name], LIMIT)
    elif area == "gates":
        seeds, violation = gates.seeds_until_caught(gates.MUTATIONS[name], LIMIT)
    elif area == "cells":
        seeds, violation = cells.seeds_until_caught(cells.mutations()[name], LIMIT)
    elif area == "adoption":
        seeds, violation = adoption.seeds_until_caught(adoption.mutations()[name], LIMIT)
    elif area == "moving":
        seeds, violation = moving.seeds_until_caught(moving.mutations()[name], LIMIT)
    else:
        seeds, violation = runtime.seeds_until_caught(runtime.mutations()[name], LIMIT)
    return Row(area, name, violation.invariant if violation else None, seeds, time.perf_counter() - began)


@cache
def planted() -> dict[tuple[str, str], Change]:
    """Return the mistakes for the suite, by area and name."""
    return {(change.area, change.name): change for change in (*fences(), *changes())}


@cache
def copy() -> Copy:
    """Return the copy of the sources that this process makes its mistakes in."""
    folder = tempfile.mkdtemp(prefix="fencepost-mutations-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Copy(folder)


@contextmanager
def server() -> Iterator[None]:
    """Have one PostgreSQL for all the tests that want one."""
    if SERVER in os.environ:
        yield
        return
    with PostgresServer.private() as started:
        os.environ[SERVER] = started.admin_url
        yield


def write_page(rows: list[Row]) -> None:
    """Write down what was noticed, and by whom."""
    simulated, tested = [row for row in rows if row.seeds], [row for row in rows if not row.seeds]
    caught = [row.seeds for row in simulated if row.noticed_by]
    missed = sum(row.noticed_by is None for row in rows)
    lines = [
        f"{len(rows)} mistakes, {len(rows) - missed} noticed.",
        *("", "## By the simulator", ""),
        f"Seeds are tried from 0 on (a few mistakes begin later), {LIMIT} at most: half of the mistakes show within {median(caught):.0f}, the last one",
        f"after {max(caught)}. The last column names [the promise](../explanation/simulation.md) that was seen broken.",
        *("", "| mistake | seeds | noticed by |", "|---|---|---|", *map(str, simulated)),
        *("", "## By the suite", ""),
        "A line of a copy of the sources is changed, and the tests of that line are run on the copy. The fence is left out of",
        "each condition of each statement, in both dialects; a test keeps the list of them complete.",
        *("", "| mistake | noticed by |", "|---|---|", *map(str, tested)),
    ]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
