"""However many runs wait, leasing the next one costs the same.

FENCEPOST_TEST_BACKLOG=1000000 pytest tests/chaos/test_backlog.py -s
"""

# ruff: noqa: T201  # the figures belong into the report

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.config.load import load
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.lease import Claim
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.operations.schedule_registry import apply_config
from fencepost.ports.runs import Report, RunRow
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import new_run_ids
from tests.support.runtime import SUCCEEDED

CONFIG = """[fencepost]
timezone = "UTC"
[agents.one]
command = ["true"]
waiting_max = 10000000
"""
FEW, BATCH, TAKEN = 1_000, 2_000, 60
MANY = int(os.environ.get("FENCEPOST_TEST_BACKLOG", "40000"))  # a million take minutes to be put there
TIMES_MAX = 2.0
NOISE_SECONDS = 0.01  # looking at each of those who wait would take ten times as much


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RuntimeStore]:
    url = request.getfixturevalue("durable_url") if request.param == "postgresql" else f"sqlite:{tmp_path}/state.db"
    path = tmp_path / "fencepost.toml"
    path.write_text(CONFIG)
    found = wiring.open_runtime(url)
    apply_config(found.registry(), load(str(path)), tenant="default", actor="test")
    yield found
    found.close()


def enqueue(store: RuntimeStore, number: int) -> None:
    for _ in range(0, number, BATCH):
        wanted = [WantedRun({})] * min(BATCH, number)
        request_many(store, tenant="default", agent="one", wanted=wanted, new_run_ids=new_run_ids, by="test")


def seconds_to_lease(store: RuntimeStore) -> float:
    """Lease and settle some; return what the quicker ones took: the slower ones waited for the machine."""
    me, took = system_processes(SystemClock()).myself(), []

    def claim(run: RunRow) -> Claim:
        return claim_for(run, lease_id=os.urandom(16).hex(), supervisor=me, ttl_seconds=30)

    for _ in range(TAKEN):
        began = time.perf_counter()  # how long it takes is the question
        leased = store.lease_run(claim, recheck_for)
        took.append(time.perf_counter() - began)
        assert leased is not None
        store.start_run(leased)
        store.settle(leased.lease, SUCCEEDED, Report("succeeded", exit_code=0), clean=True)
    return sorted(took)[TAKEN // 5]


def test_the_time_to_lease_is_flat_however_many_wait(store: RuntimeStore) -> None:
    """F49."""
    enqueue(store, FEW)
    few = seconds_to_lease(store)
    enqueue(store, MANY)
    many = seconds_to_lease(store)

    print(f"{store.facts().kind}: {1000 * few:.2f} ms among {FEW:,}, {1000 * many:.2f} ms among {MANY:,}")
    assert many <= TIMES_MAX * few + NOISE_SECONDS
