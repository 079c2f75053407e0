"""Where the time goes when a queue of runs that do nothing is drained on PostgreSQL: microseconds per run, by stage.

`server` is what the server's own record of each statement says (`log_statement_stats`): the processor time of its
process, and the time by the clock, in which it may also wait for the disk or for a processor. `client`, `messages` and
`call` come from a worker whose lanes tell (bench/profiled.py): keepers speak to the store, keepers and runners to each
other, runners call the function. What others did meanwhile slows the clock, and the processor time much less.
"""

import json
import os
import re
import sys
import tempfile
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.drain import drain_fencepost
from bench.ground import report
from fencepost.stores.postgres.dialect import STATEMENTS
from tests.support.postgres import PostgresServer

PROFILED = str(Path(__file__).with_name("profiled.py"))
LANE = "settle_batch"  # lanes alone settle many at once
SMALL_US = 0.1  # what costs a run less is told as one line
SETTINGS = {
    "shared_buffers": "256MB",
    "log_statement_stats": "on",
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_directory": "log",
    "log_rotation_size": "0",
}
STAGES = ("server", "client", "messages", "call")
USAGE = re.compile(r"([\d.]+) s user, ([\d.]+) s system, ([\d.]+) s elapsed")
VALUE = re.compile(r"%\(\w+\)s|\$\d+")
Spent = dict[tuple[str, str], tuple[float, float]]  # by stage and part: on a processor, and by the clock


def main() -> int:
    """Measure and show."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40_000)
    number = parser.parse_args().runs
    with PostgresServer.private(SETTINGS, in_memory=False) as server, tempfile.TemporaryDirectory() as folder:
        rate = drain_fencepost(server.create_database(), number, (PROFILED, folder))
        spent = {**served(server.data / "log"), **worked(Path(folder))}
    rows = list(lines(spent, number))
    report(f"drain of {number:,} runs, {rate:,.0f} a second", rows, target="none: where the next step starts")
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return 0


def lines(spent: Spent, number: int) -> Iterator[dict[str, object]]:
    """Yield a line for each part, the dearest of a stage first, and one for each stage."""
    for stage in STAGES:
        parts = {part: took for (of, part), took in spent.items() if of == stage}
        if not parts:
            continue
        small = {part for part, took in parts.items() if took[0] / number < SMALL_US}
        shown = sorted((part for part in parts if part not in small), key=lambda part: -parts[part][0])
        for part in shown:
            yield line(stage, part, [parts[part]], number)
        if small:
            yield line(stage, f"{len(small)} more", [parts[part] for part in small], number)
        yield line(stage, "in all", parts.values(), number)


def line(stage: str, part: str, took: Iterable[tuple[float, float]], number: int) -> dict[str, object]:
    """Spell one line."""
    processor, clock = (sum(one) / number for one in zip(*took, strict=True))
    return {"stage": stage, "part": part, "processor_us": round(processor, 2), "clock_us": round(clock, 2)}


def served(folder: Path) -> Spent:
    """Add up what the server said of each statement in the lanes' own sessions, under the statement's name."""
    names = {VALUE.sub("?", text.decode().replace("%%", "%")): name for name, text in STATEMENTS.complete().items()}
    sessions: dict[int, Spent] = defaultdict(lambda: defaultdict(lambda: (0.0, 0.0)))
    for file in folder.glob("*.json"):
        for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            used = USAGE.search(entry.get("detail", ""))
            if used is not None and "statement" in entry:
                user, system, clock = (float(one) * 1e6 for one in used.groups())
                add(sessions[entry["pid"]], ("server", name_of(entry["statement"], names)), user + system, clock)
    spent: Spent = defaultdict(lambda: (0.0, 0.0))
    for session in sessions.values():
        if ("server", LANE) in session:
            for key, took in session.items():
                add(spent, key, *took)
    return spent


def name_of(statement: str, names: dict[str, str]) -> str:
    """Return a statement's name; one of no file goes by its first word."""
    return names.get(VALUE.sub("?", statement)) or statement.split(maxsplit=1)[0].rstrip(";").upper()


def add(spent: Spent, key: tuple[str, str], processor: float, clock: float) -> None:
    """Add to what a part took."""
    spent[key] = spent[key][0] + processor, spent[key][1] + clock


def worked(folder: Path) -> Spent:
    """Add up what keepers and runners left."""
    spent: Spent = defaultdict(lambda: (0.0, 0.0))
    for file in folder.glob("*.json"):
        for stage, part, processor_ns, clock_ns in json.loads(file.read_text(encoding="utf-8")):
            add(spent, (stage, part), processor_ns / 1e3, clock_ns / 1e3)
    return spent


if __name__ == "__main__":
    sys.exit(main())
