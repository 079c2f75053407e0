"""Takeovers between two machines that share nothing but a store, each with its own processes, name and network.

FENCEPOST_TEST_TAKEOVERS=1000 pytest tests/cells/test_takeovers.py -s --timeout 0, or: make takeovers-cells
"""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from fencepost.model.cell import patience
from tests.cells.apart import Apart
from tests.cells.grounds import ONCE, CellGround, ground_of
from tests.support.scratch import wait_until

MANY = int(os.environ.get("FENCEPOST_TEST_TAKEOVERS", "8"))
LOCKS = min(MANY, 20)
TTL = 2.0
SECONDS = 120 + 6 * MANY


class Line(NamedTuple):
    """What a machine noted."""

    what: str
    machine: str
    lock: str
    fence: int
    asked_ns: int
    at_ns: int


def lines_of(journal: Path) -> list[Line]:
    words = (line.split() for line in journal.read_text().splitlines()) if journal.exists() else ()
    return [Line(what, machine, lock, *map(int, numbers)) for what, machine, lock, *numbers in words]


def port_of(ground: CellGround) -> int | None:
    """Return where on our loopback the server is; a repository by its path needs no network."""
    asked = urlsplit(ground.url)
    return urlsplit(parse_qs(asked.query).get("endpoint_url", [ground.url])[0]).port


@pytest.fixture(params=ONCE)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CellGround]:
    with ground_of(request.param, tmp_path, request.getfixturevalue) as found:
        yield found


def test_no_two_machines_ever_hold_one_fence_and_the_replaced_one_is_always_told(
    ground: CellGround, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    machines = [
        Apart(
            "tests.cells.taker",
            *(ground.url, str(journal), str(LOCKS), str(TTL)),
            name=name,
            port=port_of(ground),
            env={**kept, **ground.environment, "XDG_STATE_HOME": str(tmp_path / name)},
            log=tmp_path / f"{name}.log",
        )
        for name in ("studio", "mini")
    ]
    try:
        wait_until(lambda: _over(journal, machines), what=f"{MANY} takeovers", seconds=SECONDS)
    finally:
        for machine in machines:
            machine.close()

    lines = lines_of(journal)
    granted = [line for line in lines if line.what == "granted"]
    assert len(granted) >= MANY, [path.read_text() for path in tmp_path.glob("*.log")]
    assert not [line for line in lines if line.what == "renewed"], (
        "a lease was renewed that another machine had replaced"
    )
    waits = [wait for lock in {line.lock for line in granted} for wait in _waits(granted, lock)]
    assert min(waits) >= patience(TTL), "nobody is replaced before its time is up"
    sys.stderr.write(
        f"\n{ground.kind}: {len(waits)} takeovers, {min(waits):.2f} to {max(waits):.2f} s after the grant\n"
    )


def _over(journal: Path, machines: list[Apart]) -> bool:
    taken = sum(line.what == "lost" for line in lines_of(journal))
    return taken >= MANY or any(machine.process.poll() is not None for machine in machines)


def _waits(granted: list[Line], lock: str) -> list[float]:
    """Return how long each holder of a lock was left alone, at the most; each has a higher fence than the one before."""
    holders = [line for line in granted if line.lock == lock]
    for before, after in pairwise(holders):
        assert before.fence < after.fence
        assert before.machine != after.machine
    return [(after.at_ns - before.asked_ns) / 1e9 for before, after in pairwise(holders)]
