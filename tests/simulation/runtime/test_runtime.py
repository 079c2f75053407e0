"""Hundreds of bad days of the whole runtime, the same ones each time; and mistakes on purpose, which they must bring to light."""

# ruff: noqa: T201  # the figures belong into the report

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.simulation.mutations import mutations as of_leases
from tests.simulation.run import summary
from tests.simulation.runtime.mutations import applied, mutations, seeds_until_caught
from tests.simulation.runtime.play import simulate_runtime
from tests.simulation.simulate import Result

CHUNKS, CHUNK = 4, 50
CAUGHT_WITHIN = 150
SAMPLE = 4  # of the mutations, every so many; `make mutations` tries all
HERE = os.path.dirname(__file__)

# What must have happened at least once before a batch of seeds says anything.
BITES = (
    *(f"ticks: {kind}" for kind in ("run", "missed", "dst_gap", "coalesced", "paused")),
    *(f"runs by {kind}" for kind in ("cron", "every", "manual")),
    *(f"ready: {why}" for why in ("retry", "resume", "restart")),
    *("succeeded: done", "dead: lost", "dead: exit_code", "takeovers", "reaped", "resumes", "checkpoints"),
    *("drains", "deploys", "kills", "sleeps", "clock steps", "answer lost", "never returns", "fails before"),
    *("caller dies before", "caller dies after", "transactions broken off", "requests acknowledged"),
    *("operator: edit", "operator: halt", "operator: backfill"),
)


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
    print(summary(results, time.perf_counter() - began))
    totals = sum((result.totals for result in results), start=Counter[str]())
    assert [bite for bite in BITES if not totals[bite]] == []


@pytest.mark.parametrize("name", list(mutations())[::SAMPLE])
def test_the_simulator_notices(name: str) -> None:
    seeds, violation = seeds_until_caught(mutations()[name], CAUGHT_WITHIN)
    assert violation is not None, f"{name}: not noticed in {seeds} seeds"
    print(f"{name}: noticed after {seeds} seeds, by {violation}")


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
