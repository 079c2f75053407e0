"""Hundreds of small disasters, the same ones each time; and mistakes on purpose, which they must bring to light."""

# ruff: noqa: T201  # the figures belong into the report

import os
import subprocess
import sys
import time

import pytest

from tests.simulation.mutations import mutations, seeds_until_caught
from tests.simulation.promises import assert_noticed
from tests.simulation.run import summary, toothless
from tests.simulation.simulate import Result, simulate

CHUNKS, CHUNK = 4, 90
CAUGHT_WITHIN = 120
HERE = os.path.dirname(__file__)


def passed(seed: int) -> Result:
    result = simulate(seed)
    if result.violation is not None:
        pytest.fail(result.report(), pytrace=False)
    return result


def known_seeds() -> list[int]:
    with open(os.path.join(HERE, "seeds.txt"), encoding="utf-8") as file:
        return [int(line.split()[0]) for line in file if line.strip() and not line.startswith("#")]


def test_seeds_that_once_failed_pass() -> None:
    for seed in known_seeds():
        passed(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_and_every_fault_bites(chunk: int) -> None:
    began = time.perf_counter()
    results = [passed(seed) for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
    print(summary(results, time.perf_counter() - began))
    totals = sum((result.totals for result in results), start=results[0].totals.__class__())
    assert not toothless(totals)
    assert totals["writes accepted"] >= totals["writes acknowledged"]


@pytest.mark.parametrize("name", mutations())
def test_the_simulator_notices(name: str) -> None:
    assert_noticed(name, seeds_until_caught(mutations()[name], CAUGHT_WITHIN))


def test_a_seed_has_one_trace_whatever_the_hash_seed() -> None:
    here = [f"{seed} {simulate(seed).digest}" for seed in range(20)]
    assert here == [f"{seed} {simulate(seed).digest}" for seed in range(20)]
    assert here == digests_elsewhere("20")


def digests_elsewhere(seeds: str) -> list[str]:
    command = [sys.executable, "-m", "tests.simulation.run", "--digest", "--seeds", seeds]
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    root = os.path.dirname(os.path.dirname(HERE))
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[: int(seeds)]
