"""The page that names a test for each failure of others: the tests are there, and no line is without an answer."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "what-hurt-others.md").read_text()
LINES = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_there_is_a_line_for_every_failure() -> None:
    assert [int(line[0].strip("| ")) for line in LINES] == list(range(1, 48))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0].strip("| "))
def test_a_line_names_tests_that_exist_or_says_why_there_is_none(line: list[str]) -> None:
    answer = line[-1]
    named = NAMED.findall(answer)
    assert named or answer.startswith("Not yet: "), answer
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / "tests" / file).read_text(), f"{file} has no {test}"
