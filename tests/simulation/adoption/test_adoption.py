"""Workers that come and go under running agents, through hundreds of small disasters; and mistakes on purpose."""

import pytest

from tests.simulation.adoption.mutations import mutations, seeds_until_caught
from tests.simulation.adoption.play import BITES, simulate_adoption
from tests.simulation.promises import assert_kept, assert_noticed

CHUNKS, CHUNK = 2, 15
CAUGHT_WITHIN = 60


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken_and_every_fault_bites(chunk: int) -> None:
    assert_kept(map(simulate_adoption, range(chunk * CHUNK, (chunk + 1) * CHUNK)), BITES)


@pytest.mark.parametrize("name", mutations())
def test_the_simulator_notices(name: str) -> None:
    assert_noticed(name, seeds_until_caught(mutations()[name], CAUGHT_WITHIN))


def test_a_seed_has_one_trace() -> None:
    assert [simulate_adoption(seed).digest for seed in range(3)] == [
        simulate_adoption(seed).digest for seed in range(3)
    ]
