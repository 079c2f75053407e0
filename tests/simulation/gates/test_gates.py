"""Every kind of gate in the simulator: nobody who was overtaken writes, also when frozen between check and write (P4)."""

# ruff: noqa: T201  # the figures belong into the report

from collections import Counter

import pytest

from tests.simulation.gates.kinds import KINDS
from tests.simulation.gates.mutations import MUTATIONS, seeds_until_caught
from tests.simulation.simulate import Result, simulate

SEEDS_MIN, SEEDS_MAX = 4, 60  # as many as it takes until every fault has bitten; most kinds need few
CAUGHT_WITHIN = 60
BITES = ("raises", "stale writes tried", "stale writes refused", "writes accepted", "frozen between check and write")
ALSO = {"http": ("services killed",), "proxy": ("services killed", "unknown outcomes"), "git-hook": ("plain pushes",)}


# A request of an agent that had failed landed while the next one, which declared another gate, was at work.
ONCE_FAILED = ((310016, "proxy", None), (310023, "proxy", "zombies"))


def played(seed: int, kind: str, profile: str | None = "zombies") -> Result:
    result = simulate(seed, profile=profile, gates=kind)
    if result.violation is not None:
        pytest.fail(f"gates: {kind}\n{result.report()} --gates {kind} --profile {profile}", pytrace=False)
    return result


def test_seeds_that_once_failed_pass() -> None:
    for seed, kind, profile in ONCE_FAILED:
        played(seed, kind, profile)


@pytest.mark.parametrize("kind", KINDS)
def test_no_gate_lets_a_zombie_write_and_every_fault_bites(kind: str) -> None:
    totals: Counter[str] = Counter()
    bites = (*BITES, *ALSO.get(kind, ()))
    for seed in range(SEEDS_MAX):
        totals += played(seed, kind).totals
        if seed + 1 >= SEEDS_MIN and all(totals[name] for name in bites):
            break

    print(kind, {name: totals[name] for name in ("seeds", *bites)})
    assert not [name for name in bites if not totals[name]]


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_simulator_notices(name: str) -> None:
    seeds, violation = seeds_until_caught(MUTATIONS[name], CAUGHT_WITHIN)
    assert violation is not None, f"{name}: not noticed in {seeds} seeds"
    print(f"{name}: noticed after {seeds} seeds, by {violation}")


def test_a_redis_that_may_lose_its_tail_is_best_effort_and_no_gate() -> None:
    for seed in range(CAUGHT_WITHIN):
        violation = simulate(seed, profile="zombies", compares=False, gates="redis-everysec").violation
        if violation is not None and violation.invariant in ("no zombie writes", "order at the gate"):
            print(f"seen after {seed + 1} seeds: {violation}")
            return
    pytest.fail("it was as good as a gate")
