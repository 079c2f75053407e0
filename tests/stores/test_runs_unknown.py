"""A connection that is cut exactly at COMMIT: the outcome is found by reading, and nothing is made or ended twice."""

from collections.abc import Iterator

import pytest

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import StoreUnavailable
from fencepost.model.registry_plan import want
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import Report
from fencepost.stores.postgres.store import open_store
from fencepost.stores.runtime import RuntimeStore
from tests.support.proxy import CutAt, FaultyProxy, Moment
from tests.support.runtime import MYSELF, SUCCEEDED, new_id
from tests.support.scratch import wait_until


@pytest.fixture
def store(faulty_proxy: FaultyProxy) -> Iterator[RuntimeStore]:
    store = RuntimeStore(open_store(faulty_proxy.url, new_id="far", allow_lossy=True))
    agent = AgentDefinition("agent", command=("true",))
    schedule = ScheduleDefinition("s", "agent", at="2020-01-01T00:00:00Z", grace="3650d")
    wanted = want("default", "test.toml", agents={"agent": agent}, schedules={"s": schedule})
    store.registry().apply(wanted, actor="test")
    yield store
    store.close()


@pytest.fixture(params=Moment)
def cut(request: pytest.FixtureRequest, faulty_proxy: FaultyProxy, store: RuntimeStore) -> CutAt:
    """What the next COMMIT will meet; the store is ready by then."""
    assert store.facts().id == "far"
    assert faulty_proxy.bites == 0
    return CutAt(request.param)


def test_a_request_that_is_repeated_with_its_key_finds_its_run(
    store: RuntimeStore, faulty_proxy: FaultyProxy, cut: CutAt
) -> None:
    faulty_proxy.switch(cut)
    with pytest.raises(StoreUnavailable):
        request_run(store, tenant="default", target="agent", key="k", new_run_id=new_id, by="ada")
    assert faulty_proxy.bites == 1
    asked = request_run(store, tenant="default", target="agent", key="k", new_run_id=new_id, by="ada")
    assert asked.earlier is (cut.moment is Moment.AFTER)
    assert [run.id for run in store.runs(tenant="default")] == [asked.run.id]


def test_a_tick_whose_commit_nobody_heard_of_is_there_once(
    store: RuntimeStore, faulty_proxy: FaultyProxy, cut: CutAt
) -> None:
    ticker = Ticker(store, new_id)
    store.tick(10, lambda _due, _around: [], tzdata="0")
    faulty_proxy.switch(cut)
    with pytest.raises(StoreUnavailable):
        store.tick(10, ticker._decide, tzdata="0")
    assert faulty_proxy.bites == 1
    # The server may take a moment to find that its client is gone, and keeps the schedule locked until then.
    wait_until(lambda: bool(ticker.step() or store.runs(tenant="default")), what="the tick is decided", seconds=30)
    while ticker.step():
        pass
    assert len(store.runs(tenant="default")) == 1


def test_a_settlement_whose_commit_nobody_heard_of_can_be_repeated(
    store: RuntimeStore, faulty_proxy: FaultyProxy, cut: CutAt
) -> None:
    while Ticker(store, new_id).step():
        pass
    leased = store.lease_run(
        lambda run: claim_for(run, lease_id=new_id(), supervisor=MYSELF, ttl_seconds=60), recheck_for
    )
    assert leased is not None
    store.start_run(leased)
    faulty_proxy.switch(cut)
    with pytest.raises(StoreUnavailable):
        store.settle(leased.lease, SUCCEEDED, Report("succeeded", exit_code=0), clean=True)
    assert faulty_proxy.bites == 1
    store.settle(leased.lease, SUCCEEDED, Report("succeeded", exit_code=0), clean=True)
    assert [run.state for run in store.runs(tenant="default")] == ["succeeded"]
    assert store.leases() == []
