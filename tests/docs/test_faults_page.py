"""The page of faults: all 74 rows and those of the doors, each with tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/faults.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| (F\d|[SWLT]-)", line)]
ATTACKS = [*(f"S-{n}" for n in range(1, 8)), *(f"W-{n}" for n in range(1, 6)), "L-1", "L-2", "L-3", "T-1"]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_every_fault_has_its_row() -> None:
    assert [row[0].strip("| ") for row in ROWS] == [*(f"F{number:02d}" for number in range(1, 75)), *ATTACKS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]).strip("| "))
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    named = NAMED.findall(row[-1])
    assert named, "a fault that nobody plays needs at least a reason and a test of what comes nearest"
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file} has no {test}"
