"""The checklist of attacks: every row names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKLIST = (ROOT / "SECURITY.md").read_text().partition("## Checklist")[2].partition("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in CHECKLIST.splitlines() if line.startswith("| ")][1:]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_an_attack_names_tests_that_exist(row: list[str]) -> None:
    named = NAMED.findall(row[-1])
    assert named, "an attack that nobody tries again may work again"
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file} has no {test}"
