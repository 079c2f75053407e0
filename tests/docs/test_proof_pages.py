"""The pages about tests and figures: their commands exist, what they name exists, and no zero stands without its bound."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutations import everything

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    ROOT / "docs" / name
    for name in (
        "explanation/how-we-test.md",
        "explanation/simulation.md",
        "reference/figures.md",
        "reference/faults.md",
    )
)
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE = re.compile(r"`(?:[A-Z]+=\S+ )?make ([a-z][a-z-]*)")
MODULE = re.compile(r"python -m (tests[\w.]+|bench[\w.]+)([^`\n#]*)")
PATH = re.compile(r"`((?:tests|bench|scripts|spec)/[\w./-]+)`")
MADE_UP = "TARGET"  # stands for any name


def modules() -> dict[str, set[str]]:
    """Return the modules that pages tell to run, with every option that they mention."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for module, words in MODULE.findall(page.read_text()):
            found.setdefault(module, set()).update(re.findall(r"--[a-z-]+", words))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_and_every_path_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    assert set(MAKE.findall(text)) <= TARGETS
    assert [path for path in PATH.findall(text) if MADE_UP not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("module", "options"), sorted(modules().items()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_command_that_a_page_names_knows_its_options(module: str, options: set[str]) -> None:
    told = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert options <= set(re.findall(r"--[a-z-]+", told.stdout))


def tables() -> list[list[str]]:
    """Return the tables of the figures, line by line."""
    lines = (ROOT / "docs/reference/figures.md").read_text().splitlines()
    found: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.mark.parametrize("table", tables(), ids=lambda table: table[0].strip("| ").split(" |")[0])
def test_no_zero_stands_without_its_bound(table: list[str]) -> None:
    """After n trials without a failure the rate is below 3/n with 95 % confidence, and no smaller claim is made."""
    bounded = "fewer than" in table[0]
    bare = [line for line in table if re.search(r"\| 0 \|", line) and not bounded and "below" not in line]
    assert bare == []
    for line in table:
        for cell in line.split("|"):
            if found := re.fullmatch(r" 0(?: of [\d,]+)? \(below ([\d.]+) %\) ", cell):
                assert any(claimed_by(float(found[1]), number) for number in numbers(line)), line


def numbers(line: str) -> list[int]:
    return [int(word.replace(",", "")) for word in re.findall(r"(?<![\d.])\d[\d,]*(?![\d.])", line)]


def claimed_by(percent: float, trials: int) -> bool:
    """Tell whether so many trials bear such a bound, as it is rounded."""
    return trials > 0 and 300 / trials <= 1.1 * percent


def test_the_list_of_mistakes_has_each_of_them_and_each_was_noticed() -> None:
    page = (ROOT / "docs" / "reference" / "mutations.md").read_text()
    missing = [f"{area}: {name}" for area, name in everything() if f"| {area}: {name} |" not in page]
    assert missing == [], "write the page anew: make mutations"
    assert "**nobody**" not in page
    assert f"{len(everything())} mistakes, {len(everything())} noticed." in page
