"""Two stores with tenants that move between them, through small disasters; and mistakes on purpose."""

# ruff: noqa: T201  # the figures belong into the report

from collections import Counter

import pytest

from tests.simulation.moving.mutations import mutations, seeds_until_caught
from tests.simulation.moving.play import BITES, simulate_moves

CHUNKS, CHUNK = 2, 10
CAUGHT_WITHIN = 20


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_and_every_fault_bites(chunk: int) -> None:
    totals: Counter[str] = Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        result = simulate_moves(seed)
        totals.update(result.totals)
        if result.violation is not None:
            pytest.fail(result.report(), pytrace=False)
    print(dict(totals))
    assert [name for name in BITES if not totals[name]] == []


@pytest.mark.parametrize("name", mutations())
def test_the_simulator_notices(name: str) -> None:
    seeds, violation = seeds_until_caught(mutations()[name], CAUGHT_WITHIN)
    assert violation is not None, f"{name}: not noticed in {seeds} seeds"
    print(f"{name}: noticed after {seeds} seeds, by {violation}")


def test_a_seed_has_one_trace() -> None:
    assert [simulate_moves(seed).digest for seed in range(2)] == [simulate_moves(seed).digest for seed in range(2)]
