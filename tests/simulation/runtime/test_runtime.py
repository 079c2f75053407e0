"""Hundreds of bad days of the whole runtime, the same ones each time; and mistakes on purpose, which they must bring to light."""

# ruff: noqa: T201  # the figures belong into the report

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.simulation.mutations import mutations as of_leases
from tests.simulation.promises import assert_noticed
from tests.simulation.run import summary, toothless
from tests.simulation.runtime.bites import BITES
from tests.simulation.runtime.mutations import applied, mutations, seeds_until_caught
from tests.simulation.runtime.play import simulate_runtime
from tests.simulation.runtime.postgres import Stand
from tests.simulation.simulate import Result

CHUNKS, CHUNK = 2, 70
CAUGHT_WITHIN = 150
SAMPLE = 8  # of the mutations, every so many; `make mutations` tries all
POSTGRES_SEEDS = (0, 1, 2, 310014)  # the last: an end was given up, since burying what was lost had no answer
HERE = os.path.dirname(__file__)


def passed(seed: int) -> Result:
    result = simulate_runtime(seed)
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
    print(summary(results, time.perf_counter() - began, BITES))
    totals = sum((result.totals for result in results), start=Counter[str]())
    assert toothless(totals, BITES) == []


def test_no_promise_is_broken_on_postgresql_either(postgres_url: str) -> None:
    with closing(Stand(postgres_url)) as stand:
        for seed in POSTGRES_SEEDS:
            result = simulate_runtime(seed, stand=stand)
            assert result.violation is None, result.report()


@pytest.mark.parametrize("name", list(mutations())[::SAMPLE])
def test_the_simulator_notices(name: str) -> None:
    assert_noticed(name, seeds_until_caught(mutations()[name], CAUGHT_WITHIN))


def test_every_mistake_can_be_planted() -> None:
    for mutation in mutations().values():
        with applied(mutation):
            pass
    for other in of_leases().values():
        with other.apply():
            pass


def test_a_seed_has_one_trace_whatever_the_hash_seed() -> None:
    here = [f"{seed} {simulate_runtime(seed).digest}" for seed in range(6)]
    command = [sys.executable, "-m", "tests.simulation.runtime.run", "--digest", "--seeds", "6"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert here == done.stdout.splitlines()[:6]
