#!/usr/bin/env python3
"""Run every model in spec/, right and with each planted mistake, and compare with spec/expect.txt."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "spec" / "expect.txt"
PAGE = ROOT / "docs" / "explanation" / "models.md"
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"

COLUMNS = 6
FOUND = {"holds": "holds", "fails": "fails", "limit": "fails", "reached": "fails"}
SECONDS_AT_MOST = 300

# An error counts as a catch only if it is one of these: anything else is a mistake in the model itself.
CATCH = re.compile(r"^pan:\d+: (assertion violated|acceptance cycle|invalid end state)", re.MULTILINE)
TRUNCATED = re.compile(r"max search depth too small|Search not completed|out of memory|MEMLIM", re.IGNORECASE)


class Unusable(Exception):
    """The table, a model or a tool is not as it must be."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a property of a model's variant, and what must come out."""

    model: str
    variant: tuple[str, ...]
    prop: str
    must: str
    stands_for: str
    note: str

    @property
    def mode(self) -> Literal["safety", "deadlock", "fair"]:
        """Say how to search: a claim about progress needs cycles and fairness, a deadlock needs no claim."""
        if self.prop.startswith("eventually_"):
            return "fair"
        return "deadlock" if self.prop == "no_deadlock" else "safety"

    @property
    def build(self) -> tuple[str, ...]:
        """Name what rows must have in common to share one program."""
        return (self.mode, self.model, *self.variant)


@dataclass(frozen=True, slots=True)
class Result:
    """What the search said."""

    row: Row
    found: str
    states: int

    @property
    def passed(self) -> bool:
        """Tell whether that is what had to come out."""
        return self.found == FOUND[self.row.must]


COMPILE = {"safety": ["-DSAFETY"], "deadlock": ["-DSAFETY", "-DNOCLAIM"], "fair": ["-DNFAIR=3"]}
SEARCH = {"safety": ["-N"], "deadlock": [], "fair": ["-a", "-f", "-N"]}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for, print one line per row, and return the exit code."""
    args = parse(argv)
    try:
        require_tools()
        rows = [
            row for row in read_table(deep=args.deep) if args.only in f"{row.model} {' '.join(row.variant)} {row.prop}"
        ]
        results = [show(result) for result in check(rows, jobs=args.jobs)]
        if args.markdown:
            PAGE.write_text(with_results(PAGE.read_text(), results))
        failed = sum(not result.passed for result in results)
        if not (args.only or args.deep) and with_results(PAGE.read_text(), results) != PAGE.read_text():
            print(f"{PAGE.relative_to(ROOT)} shows other results: run scripts/spec.py --markdown")
            failed += 1
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{sum(result.passed for result in results)} passed, {failed} failed")
    return 1 if failed or not results else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only rows whose model, variant or property has TEXT"
    )
    parser.add_argument("--deep", action="store_true", help="also the large searches")
    parser.add_argument("--markdown", action="store_true", help=f"write the results into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="searches at a time")
    args = parser.parse_args(argv)
    if args.markdown and (args.only or args.deep):
        parser.error("--markdown shows the usual rows: leave out --only and --deep")
    return args


def require_tools() -> None:
    """Make sure that Spin and a C compiler are there; install them where that is ours to do."""
    packages = {"spin": ["spin"], "gcc": ["gcc", "libc6-dev"]}
    missing = [tool for tool in packages if not shutil.which(tool)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        wanted = [package for tool in missing for package in packages[tool]]
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", *wanted]):
            subprocess.run(command, capture_output=True, check=False)
        missing = [tool for tool in packages if not shutil.which(tool)]
    if missing:
        raise Unusable(
            f"The models need {' and '.join(missing)}: on Debian, `apt-get install spin gcc`, then run this again."
        )


def read_table(*, deep: bool) -> list[Row]:
    """Read the rows that are to be run."""
    usual, _, large = TABLE.read_text().partition("[deep]\n")
    return [*map(read_row, content(usual)), *(map(read_row, content(large)) if deep else ())]


def content(text: str) -> Iterator[str]:
    """Leave out comments and empty lines."""
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def read_row(line: str) -> Row:
    """Read one line of the table."""
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != COLUMNS or cells[3] not in FOUND:
        raise Unusable(
            f"{TABLE.relative_to(ROOT)}: expected {COLUMNS} columns, the fourth one of {', '.join(FOUND)}: {line}"
        )
    model, variant, prop, must, stands_for, note = cells
    return Row(model, tuple(variant.split()), prop, must, stands_for, note)


def check(rows: Sequence[Row], *, jobs: int) -> Iterator[Result]:
    """Search every row and yield the results in the table's order; rows that share a variant share a build."""
    builds: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        builds.setdefault(row.build, []).append(row)
    with tempfile.TemporaryDirectory(prefix="spec-") as scratch, ThreadPoolExecutor(jobs) as pool:
        searches = {
            key: pool.submit(check_build, shared, Path(scratch, str(number)))
            for number, (key, shared) in enumerate(builds.items())
        }
        try:
            for row in rows:
                yield searches[row.build].result()[row]
        finally:
            pool.shutdown(cancel_futures=True)


def check_build(rows: Sequence[Row], place: Path) -> dict[Row, Result]:
    """Build one variant of one model and search it for each of its properties."""
    place.mkdir()
    build(rows[0], place)
    results = {row: search(row, place) for row in rows}
    shutil.rmtree(place)
    return results


def build(row: Row, place: Path) -> None:
    """Turn the model into a program that searches its states."""
    model = ROOT / "spec" / f"{row.model}.pml"
    made = run(["spin", *(f"-D{name}" for name in row.variant), "-a", str(model)], place)
    if "Error" in made or not (place / "pan.c").exists():
        raise Unusable(f"{model.relative_to(ROOT)} with {' '.join(row.variant) or 'nothing'}:\n{made}")
    # Unoptimised: most searches are so short that compiling costs more than it saves.
    compiled = run(["gcc", "-O0", "-w", "-DMEMLIM=3000", *COMPILE[row.mode], "-o", "pan", "pan.c"], place)
    if not (place / "pan").exists():
        raise Unusable(compiled)


def search(row: Row, place: Path) -> Result:
    """Search all states for one that breaks the property."""
    claim = [row.prop] if row.mode != "deadlock" else []
    said = run(["./pan", "-m100000", "-w20", "-n", *SEARCH[row.mode], *claim], place)
    if claim and not re.search(rf"never claim\s+\+ \({row.prop}\)", said):
        raise Unusable(f"spec/{row.model}.pml has no property {row.prop}, or the search broke off:\n{said}")
    states = re.search(r"(\d+) states, stored", said)
    return Result(row, verdict(said), int(states[1]) if states else 0)


def verdict(said: str) -> str:
    """Read what the search found; a search that was cut short proves nothing."""
    errors = re.search(r"errors: (\d+)", said)
    if errors is None:
        return "unproven"
    if int(errors[1]):
        return "fails" if CATCH.search(said) else "broken"
    return "unproven" if TRUNCATED.search(said) else "holds"


def run(command: Sequence[str], place: Path) -> str:
    """Run a command and return all that it said."""
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=SECONDS_AT_MOST, check=False)
    except subprocess.TimeoutExpired as late:
        raise Unusable(f"{command[0]} took longer than {SECONDS_AT_MOST} s") from late
    return done.stdout + done.stderr


def show(result: Result) -> Result:
    """Print one aligned line."""
    row = result.row
    mark = "ok" if result.passed else "WRONG"
    variant = " ".join(row.variant) or "-"
    aside = f"({row.must})" if row.must != FOUND[row.must] else ""
    found = f"{result.found} {aside}" if result.passed else f"{result.found}, must: {row.must}"
    print(f"{mark:<6}{row.model:<10}{variant:<49}{row.prop:<22}{found:<16}{result.states:>10,}  {row.note}", flush=True)
    return result


def with_results(page: str, results: Iterable[Result]) -> str:
    """Put the results between the page's two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise Unusable(f"{PAGE.relative_to(ROOT)} must have the lines {BEGIN.strip()} and {END.strip()}")
    return before + begin + "".join(markdown(results)) + end + after


def markdown(results: Iterable[Result]) -> Iterator[str]:
    """Render the results as one table."""
    yield "\n| model | variant | property | result | states | stands for | in words |\n"
    yield "|---|---|---|---|---:|---|---|\n"
    for result in results:
        row = result.row
        variant = " ".join(f"`{name}`" for name in row.variant) or "as designed"
        outcome = row.must if result.passed else f"**{result.found}**"
        cells = (row.model, variant, row.prop, outcome, f"{result.states:,}", row.stands_for, row.note)
        yield f"| {' | '.join(cells)} |\n"
    yield "\n"


if __name__ == "__main__":
    sys.exit(main())
