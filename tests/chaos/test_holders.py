"""Whatever is killed or frozen: one agent at a time, rising fences, no lost release, nothing left alive."""

from tests.chaos.holders import FAULTS, rampage
from tests.support.ground import Ground

ROUNDS = 2 * len(FAULTS)


def test_killed_and_frozen_holders_never_overlap(any_ground: Ground) -> None:
    totals = rampage(any_ground, rounds=ROUNDS, seed=7420)
    assert totals.failures == []
    assert totals.rounds.keys() == FAULTS.keys()
    assert totals.bites.total() == ROUNDS  # every fault was injected
    assert len(totals.takeover_seconds) >= ROUNDS // 2
