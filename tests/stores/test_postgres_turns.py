"""Turns on PostgreSQL have the server keep their statements, and rest on nothing that it may forget."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from fencepost.flow.run_recheck import recheck_for
from fencepost.model.definition import AgentDefinition
from fencepost.model.lease import Claim
from fencepost.model.registry_plan import want
from fencepost.operations.bulk_requests import WantedRun as Wish
from fencepost.operations.bulk_requests import request_many
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun, Report
from fencepost.stores.postgres import dialect
from fencepost.stores.postgres.dialect import PostgresDialect
from fencepost.stores.postgres.server import Connection
from fencepost.stores.postgres.store import open_store
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import MYSELF, SUCCEEDED, new_ids

if TYPE_CHECKING:
    from tests.support.pgbouncer import PoolMode

AGENT = AgentDefinition("agent", engine="python", function="m:f", in_process=True)
KEPT = b"SELECT count(*) FROM pg_prepared_statements"


class Lane:
    """Takes turns on a store of its own."""

    def __init__(self, url: str) -> None:
        opened = open_store(url, new_id="turns", allow_lossy=True)
        assert isinstance(opened.dialect, PostgresDialect)
        self.dialect = opened.dialect
        self.store = RuntimeStore(opened)
        self.leased: Sequence[LeasedRun] = ()

    @property
    def connection(self) -> Connection:
        assert self.dialect._connection is not None
        return self.dialect._connection

    def fill(self, number: int) -> set[str]:
        self.store.registry().apply(want("default", "/a.toml", agents={"agent": AGENT}, schedules={}), actor="ada")
        made = request_many(
            self.store, tenant="default", agent="agent", wanted=[Wish()] * number, new_run_ids=new_ids, by="ada"
        )
        return {one.id for one in made}

    def turn(self, limit: int = 3) -> set[str]:
        """Settle what the last turn leased, lease the next, and return which were."""
        done = [Ended(one, SUCCEEDED, Report("succeeded")) for one in self.leased]
        claim = Claim(os.urandom(8).hex(), "", (), "lane", 30.0, MYSELF, label="lane")
        closing = [self.leased[0].lease] if self.leased else []
        turned = self.store.turn(done, closing, LaneRequest(claim, limit, limit, lambda _: (), recheck_for))
        assert turned.lost == ()
        self.leased = turned.leased
        return {one.run.id for one in turned.leased}

    def kept(self) -> int:
        """Count the statements that the server keeps for this connection."""
        ((number,),) = self.connection.execute(KEPT).fetchall()
        return int(number)


OpenLane = Callable[[str], Lane]


@pytest.fixture
def open_lane() -> Iterator[OpenLane]:
    lanes: list[Lane] = []

    def opened(url: str) -> Lane:
        lanes.append(Lane(url))
        return lanes[-1]

    yield opened
    for lane in lanes:
        lane.store.close()


def test_the_server_keeps_the_statements_of_what_is_done_often_and_of_nothing_else(
    open_lane: OpenLane, postgres_url: str
) -> None:
    lane = open_lane(postgres_url)
    lane.fill(6)
    filled = lane.kept()
    lane.turn()
    first = lane.kept()
    lane.turn()
    assert lane.kept() >= first > filled + 5
    kept = lane.kept()
    lane.store.runs(tenant="default")
    lane.store.cancel("nobody", tenant="default", by="ada")
    assert lane.kept() == kept
    assert lane.connection.prepare_threshold is None


def test_a_turn_goes_on_when_the_server_forgot_its_statements(open_lane: OpenLane, postgres_url: str) -> None:
    lane = open_lane(postgres_url)
    ids = lane.fill(9)
    seen = lane.turn()
    lane.connection.execute(b"DEALLOCATE ALL")
    seen |= lane.turn() | lane.turn()
    assert lane.turn() == set()
    assert seen == ids
    assert {run.state for run in lane.store.runs(tenant="default")} == {"succeeded"}


def test_a_turn_goes_on_when_somebody_took_the_name_of_its_statement(open_lane: OpenLane, postgres_url: str) -> None:
    lane = open_lane(postgres_url)
    ids = lane.fill(3)
    for number in range(lane.kept(), 40):
        lane.connection.execute(f"PREPARE _pg3_{number} AS SELECT 1".encode())
    assert lane.turn() == ids
    lane.turn()
    assert {run.state for run in lane.store.runs(tenant="default")} == {"succeeded"}


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_lanes_behind_a_pooler_take_turns_without_kept_statements(
    mode: "PoolMode", open_lane: OpenLane, pgbouncer_url: Callable[["PoolMode"], str]
) -> None:
    url = pgbouncer_url(mode)
    lanes = [open_lane(url) for _ in range(3)]
    ids = lanes[0].fill(27)
    seen: list[str] = []
    for _ in range(4):
        for lane in lanes:
            seen += lane.turn()
    assert sorted(seen) == sorted(ids)
    assert [lane.kept() for lane in lanes] == [0, 0, 0]
    assert {run.state for run in lanes[0].store.runs(tenant="default")} == {"succeeded"}


def test_a_turn_that_fails_half_way_leaves_nothing(open_lane: OpenLane, postgres_url: str) -> None:
    lane = open_lane(postgres_url)
    ids = lane.fill(3)
    lane.turn()
    before = lane.leased

    def fail(*_: object) -> None:
        raise RuntimeError("the recheck failed")

    claim = Claim("x", "", (), "lane", 30.0, MYSELF, label="lane")
    done = [Ended(one, SUCCEEDED, Report("succeeded")) for one in before]
    lane.fill(1)
    with pytest.raises(RuntimeError, match="the recheck failed"):
        lane.store.turn(done, [before[0].lease], LaneRequest(claim, 3, 3, lambda _: (), fail))
    states = {run.id: run.state for run in lane.store.runs(tenant="default")}
    assert {states[one] for one in ids} == {"running"}
    assert len(lane.turn()) == 1


def test_a_turn_that_another_process_answers_is_done_again_elsewhere(
    open_lane: OpenLane, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = open_lane(postgres_url)
    ids = lane.fill(9)
    first, second = lane.turn(), lane.turn()
    monkeypatch.setattr(dialect, "BEGUN", dialect.BEGUN.replace(b"pg_backend_pid()", b"pg_backend_pid() + 1"))
    before = lane.connection
    third = lane.turn()
    assert lane.connection is not before
    assert lane.turn() == set()
    assert (len(first), first | second | third) == (3, ids)


def test_a_turn_begins_with_its_first_statements_once_it_is_known_who_answers(
    open_lane: OpenLane, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = open_lane(postgres_url)
    lane.fill(9)
    begun: list[bytes] = []
    send = PostgresDialect._send

    def watched(self: PostgresDialect, first: bytes, limits: dialect.Limits) -> Connection:
        begun.append(first)
        return send(self, first, limits)

    monkeypatch.setattr(PostgresDialect, "_send", watched)
    lane.turn()
    apart = len(begun)
    assert [len(lane.turn()), len(lane.turn()), len(begun)] == [3, 3, apart]
