"""What every simulator's tests ask of a batch of seeds: that no promise was broken, or how soon one was."""

# ruff: noqa: T201  # the figures belong into the report

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from tests.simulation.run import toothless
from tests.simulation.simulate import Result
from tests.simulation.world import Violation


def assert_kept(results: Iterable[Result], bites: Sequence[str]) -> None:
    """Fail with the report of the first broken promise, or with the faults that never struck."""
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result.totals)
        if result.violation is not None:
            pytest.fail(result.report(), pytrace=False)
    print(dict(totals))
    unstruck = toothless(totals, bites)
    assert not unstruck, f"never happened: {unstruck}"


def until_broken(results: Iterable[Result]) -> tuple[int, Violation | None]:
    """Play until a promise is broken; return how many seeds that took, and which promise it was, if any."""
    played = 0
    for played, result in enumerate(results, 1):
        if result.violation is not None:
            return played, result.violation
    return played, None


def assert_noticed(name: str, caught: tuple[int, Violation | None]) -> None:
    """Fail where a mistake on purpose has broken no promise."""
    seeds, violation = caught
    assert violation is not None, f"{name}: not noticed in {seeds} seeds"
    print(f"{name}: noticed after {seeds} seeds, by {violation}")
