"""What a worker is told before it asks for a run: it does not come in vain."""

from datetime import timedelta

import pytest

from fencepost.operations.backfill import backfill
from tests.stores.rig import Rig
from tests.support.runtime import Runtime, at, new_id


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def test_a_halt_makes_nothing_ready_and_its_end_makes_it_ready_again(runtime: Runtime) -> None:
    runtime.cron()
    runtime.cron(tenant="other")
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.store.registry().halt("default", note="", actor="ada")
    assert runtime.store.agenda(10).ready == 1, "another tenant's halt is nobody else's"
    runtime.store.registry().unhalt("default", actor="ada")
    assert runtime.store.agenda(10).ready == 2


def test_a_schedule_without_room_makes_nothing_ready_until_one_has_ended(runtime: Runtime) -> None:
    runtime.cron(overlap="allow_parallel", parallel_max=2)
    runtime.tick_at("2027-01-15T08:10:30")
    start, until = at("2027-01-15T08:01:00"), at("2027-01-15T08:05:00")
    backfill(
        runtime.store, tenant="default", schedule="s", from_=start, until=until, stagger=timedelta(0),
        new_run_id=new_id, by="ada",
    )  # fmt: skip
    runtime.pass_time(60)
    first = runtime.leased(start=True, ttl=10_000)
    assert runtime.store.agenda(10).ready >= 3
    runtime.leased(start=True, ttl=10_000)
    assert runtime.store.agenda(10).ready == 0
    assert runtime.lease() is None, "and in vain it would have been"
    runtime.settle(first)
    assert runtime.store.agenda(10).ready >= 2


def test_a_lease_whose_time_is_up_takes_no_room(runtime: Runtime) -> None:
    runtime.cron(overlap="queue")
    runtime.tick_at("2027-01-15T08:01:00")
    runtime.leased(start=True, ttl=5)
    runtime.tick_at("2027-01-15T08:02:00")
    assert runtime.store.agenda(10).ready == 1
