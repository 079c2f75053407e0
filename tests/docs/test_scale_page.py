"""The page on scale shows the costs that `fencepost simulate` reckons with."""

from pathlib import Path

import pytest

from fencepost.operations.simulation import costs
from fencepost.operations.simulation.costs import UnitCost

PAGE = (Path(__file__).parents[2] / "docs/explanation/scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("tick, with its run", costs.TICK),
        ("run of a process", costs.RUN),
        ("renewal of a lease, among those of its worker", costs.RENEWAL),
        (f"transaction that renews up to {costs.RENEWED_TOGETHER}", costs.RENEWING),
        ("second of an idle worker", costs.IDLE_WORKER_SECOND),
        ("second of an idle scheduler", costs.IDLE_SCHEDULER_SECOND),
    ],
)
def test_each_cost_stands_on_the_page(name: str, cost: UnitCost) -> None:
    assert f"| {name} | {cost.server_us:,} | {cost.transactions:g} | {cost.wal_bytes:,} |" in PAGE


def test_the_sums_for_the_big_fleet_follow_from_the_costs() -> None:
    transactions = 1000 * (costs.TICK.transactions + costs.RUN.transactions) + 1000 + 10_000 * 7
    processors = (1000 * (75 + 3450) + 10_000 * 6.1 + 1000 * 280 + 10_000 * 5960) / 1e6
    assert f"| in all | | {transactions:,.0f} | {processors:.0f} |" in PAGE
    assert f"keep {1000 * 86_400 * costs.RUN_KEPT_BYTES / 1e9:.0f} GB a day" in PAGE
