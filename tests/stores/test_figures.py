"""Figures: true at any time, whatever was counted into the meters, pruned, or is still going on."""

from datetime import timedelta
from random import Random  # noqa: TID251  # seeded, so that a run can be repeated
from typing import TYPE_CHECKING

import pytest

from fencepost.flow.pruner import Pruner
from fencepost.model import retention
from fencepost.model.definition import AgentDefinition
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.operations.run_requests import discard, request_run
from fencepost.ports.metering import Figures
from fencepost.ports.pruning import PastPlace, PrunePlace
from fencepost.stores import metering
from fencepost.stores.runtime import RuntimeStore
from tests.stores.rig import Rig
from tests.support.runtime import DEAD, SUCCEEDED, TENANT, Runtime, new_id, together

if TYPE_CHECKING:
    from fencepost.ports.runs import LeasedRun

ENDS = (SUCCEEDED, DEAD, Settlement(RunState.DEAD, Reason.FENCE_REFUSED))
KEPT = timedelta(hours=3)


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


class Life:
    """A store to which things happen in any order, and whose figures are counted by hand as they do."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self.runtime = runtime
        self.dice = Random(seed)
        self.begun: list[LeasedRun] = []
        self.ended = self.cost_micro = self.asked_again = self.lost = self.pruned = self.moved = 0
        runtime.apply(
            AgentDefinition("agent", command=("true",), max_attempts=99, on_lost="restart", queue_timeout="9999d")
        )
        runtime.cron("s", "*/7 * * * *", overlap="queue", queue_max=9)

    def live(self) -> None:
        """Let one thing happen."""
        self.runtime.pass_time(self.dice.choice((1, 5, 20, 600, 2_000, 20 * 86_400)))
        self.dice.choice(
            (self.tick, self.begin, self.end, self.end, self.ask, self.lose, self.fold, self.prune, self.move)
        )()

    def tick(self) -> None:
        self.runtime.tick()

    def ask(self) -> None:
        """Ask for a run with a key, or once more with the same one, or without one."""
        key = self.dice.choice((None, f"k{self.dice.randrange(6)}"))
        asked = request_run(self.runtime.store, tenant=TENANT, target="agent", key=key, new_run_id=new_id, by="ada")
        self.asked_again += asked.earlier

    def begin(self) -> None:
        if (leased := self.runtime.lease(ttl=1e9)) is not None:
            self.runtime.store.start_run(leased)
            self.begun.append(leased)

    def end(self) -> None:
        if not self.begun:
            return
        leased = self.begun.pop(self.dice.randrange(len(self.begun)))
        cost = self.dice.choice((0, self.dice.randrange(1_000)))
        self.runtime.settle(
            leased, self.dice.choice((*ENDS, SUCCEEDED, SUCCEEDED)), cost_micro=cost, usage='{"input": 3}'
        )
        self.ended += 1
        self.cost_micro += cost

    def lose(self) -> None:
        if (leased := self.runtime.lease(ttl=10)) is not None:
            self.runtime.store.start_run(leased)
            self.runtime.pass_time(60)
            self.lost += 1
            assert self.runtime.reap() == 1

    def fold(self) -> None:
        before = self.figures()
        self.runtime.store.metering().fold(TENANT)
        assert self.figures() == before

    def prune(self) -> None:
        for run in self.runtime.runs():
            if run.state == "dead" and self.dice.random() < 0.5:
                discard(self.runtime.store, run.id, tenant=TENANT, by="ada")
        before = self.figures()
        place: PrunePlace | None = PrunePlace()
        while place is not None:
            page = Pruner(self.runtime.store, TENANT, KEPT, batch_max=3).step(place)
            self.pruned, place = self.pruned + page.gone, page.next
        assert self.figures() == before

    def move(self) -> None:
        """Give past runs their narrow form."""
        while self.runtime.store.metering().fold(TENANT):
            pass
        before = self.figures(), self.runtime.runs()
        place: PastPlace | None = PastPlace()
        while place is not None:
            page = self.runtime.store.past_runs().move(place, 3)
            self.moved, place = self.moved + page.moved, page.next
        assert (self.figures(), self.runtime.runs()) == before

    def figures(self) -> Figures:
        return self.runtime.store.metering().figures(TENANT)._replace(now_us=0)


@pytest.mark.parametrize("seed", range(5))
def test_no_figure_changes_when_records_are_counted_or_pruned(
    runtime: Runtime, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metering, "PAGE", 2)
    monkeypatch.setattr(retention, "MOVED_AFTER", timedelta(0))
    life = Life(runtime, seed)
    for _ in range(300):
        life.live()
    while runtime.store.metering().fold(TENANT):
        pass
    found = life.figures()
    assert life.pruned > life.ended / 3
    assert life.moved > 0
    carried_out = [one.number for one in found.runs if one.name != "cancelled"]  # by a newer one in the line
    assert sum(carried_out) == sum(one.number for one in found.ended) == life.ended
    assert sum(one.cost_micro for one in found.ended) == life.cost_micro
    assert (found.sums.asked_again, found.sums.leases_lost) == (life.asked_again, life.lost)
    assert sum(one.number for one in found.tokens) == 3 * life.ended


def test_a_look_does_not_read_what_is_in_the_meters(runtime: Runtime) -> None:
    runtime.cron("s", "* * * * *", overlap="queue")
    for _ in range(3):
        runtime.pass_time(60)
        runtime.tick()
        runtime.work()
    runtime.pass_time(3_600)
    runtime.store.metering().fold(TENANT)
    before = runtime.store.metering().figures(TENANT)
    runtime.sql("UPDATE $run SET cost_micro = 77, state = 'dead'")
    runtime.sql("UPDATE $tick SET disposition = 'missed'")

    found = runtime.store.metering().figures(TENANT)
    assert found._replace(now_us=0) == before._replace(now_us=0)
    assert [(one.name, one.number) for one in found.runs] == [("succeeded", 3)]
    assert [(one.name, one.number) for one in found.ticks] == [("run", 3)]


def test_whoever_counts_and_whoever_prunes_do_not_get_into_each_others_way(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metering, "PAGE", 2)
    runtime.cron("s", "0 * * * *", missed="replay", catchup_max=30, catchup_window="9d", overlap="queue", queue_max=40)
    runtime.pass_time(24 * 3_600)
    runtime.tick()
    for _ in range(20):
        runtime.pass_time(60)
        runtime.work()
    runtime.pass_time(90 * 86_400)
    before = runtime.store.metering().figures(TENANT)
    assert sum(one.number for one in before.runs) == 20

    def work(store: RuntimeStore) -> None:
        place: PrunePlace | None = PrunePlace()
        while place is not None:
            store.metering().fold(TENANT)
            place = Pruner(store, TENANT, KEPT, batch_max=2).step(place).next

    together(work, [runtime.another() for _ in range(3)])
    found = runtime.store.metering().figures(TENANT)
    assert found._replace(now_us=0) == before._replace(now_us=0)
    assert not any(run.state == "succeeded" for run in runtime.runs())


def test_counting_where_there_is_nothing_new_writes_nothing(runtime: Runtime) -> None:
    runtime.cron("s", "0 * * * *")
    runtime.pass_time(3_600)
    runtime.tick()
    runtime.work()
    runtime.pass_time(3_600)
    runtime.store.metering().fold(TENANT)
    marks = runtime.sql("SELECT what, until_us FROM $folded ORDER BY what")
    runtime.pass_time(3_600)
    runtime.store.metering().fold(TENANT)
    assert runtime.sql("SELECT what, until_us FROM $folded ORDER BY what") == marks
