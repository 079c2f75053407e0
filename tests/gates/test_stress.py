"""Thousands of late writes at every kind of gate: none passes. `make stress` throws ten thousand at each and tells."""

# ruff: noqa: T201  # `make stress` shows how far it is

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost.model.errors import FenceRefused
from tests.gates.guards import ALL, GUARDS
from tests.gates.harness import Harness
from tests.gates.proofs import proof

NEWEST = 1_000_000
TEN_THOUSAND = 10_000
OVERTAKEN = ("git", "redis", "s3")  # kinds that look first and then swap: a raise may come in between


@pytest.fixture
def harness(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    with ALL[kind](tmp_path, request.getfixturevalue) as made:
        yield made


def wanted(harness: Harness, share: int = 1) -> int:
    return max(1, int(os.environ.get("FENCEPOST_TEST_STALE_WRITES", harness.stale_writes)) // share)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "git-hook"])  # who looks first needs no hook
def test_of_thousands_of_stale_writes_none_passes(kind: str, harness: Harness) -> None:
    harness.gate().raise_fence(proof(1))
    harness.gate().raise_fence(proof(NEWEST))
    harness.write(proof(NEWEST), "kept")
    write, before = harness.stale_writer(), facts(harness)

    def is_refused(number: int) -> bool:
        with suppress(FenceRefused):
            write(proof(NEWEST - 1 - number))
            return False
        return True

    tally(kind, wanted(harness), is_refused, crew=harness.crew)
    assert facts(harness) == before


@pytest.mark.parametrize("kind", GUARDS)
def test_of_thousands_of_writes_past_the_gate_a_guard_lets_none_pass(kind: str, harness: Harness) -> None:
    harness.gate().raise_fence(proof(1))
    harness.gate().raise_fence(proof(NEWEST))
    harness.write(proof(NEWEST), "kept")
    before = facts(harness)

    write: Callable[[int], bool] = harness.stray_writer()  # type: ignore[attr-defined]  # a guard's harness has it
    tally(f"{kind}, strangers", wanted(harness), write, crew=harness.crew)
    assert facts(harness) == before


@pytest.mark.parametrize("kind", OVERTAKEN)
def test_of_the_writes_that_are_overtaken_between_look_and_effect_none_passes(kind: str, harness: Harness) -> None:
    harness.gate().raise_fence(proof(1))
    harness.write(proof(1), "kept")
    newer = harness.gate()

    def is_refused(number: int) -> bool:
        with suppress(FenceRefused):
            harness.write(proof(number + 1), "zombie", lambda: newer.raise_fence(proof(number + 2)))
            return False
        return True

    tally(f"{kind}, overtaken", wanted(harness, share=10), is_refused)
    assert harness.content() == "kept"


def facts(harness: Harness) -> tuple[object, ...]:
    """All that a write could change: the payload, and every mark."""
    return harness.content(), harness.gate().status().marks


def tally(what: str, many: int, is_refused: Callable[[int], bool], *, crew: int = 1) -> None:
    """Try so many, tell how far it is, and demand that each was refused."""
    began, refused, tenth = time.perf_counter(), 0, max(1, many // 10)
    with ThreadPoolExecutor(crew) as pool:
        tried = pool.map(is_refused, range(many)) if crew > 1 else map(is_refused, range(many))
        for number, one in enumerate(tried, 1):
            refused += one
            if number % tenth == 0 and many >= TEN_THOUSAND:
                print(
                    f"{what}: {refused:,} of {number:,} refused after {time.perf_counter() - began:.0f} s", flush=True
                )
    milliseconds = (time.perf_counter() - began) / many * 1000
    bound = f"at most {3 / many:.2%} with 95 % confidence"  # the rule of three, for none of so many
    print(f"| {what} | {many:,} | {many - refused} | {bound} | {milliseconds:.1f} ms |", flush=True)
    assert refused == many
