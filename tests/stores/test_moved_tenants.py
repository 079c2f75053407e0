"""A tenant moves from one store to another: all of it goes along, nothing of it happens where it was, and fences go on."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random  # noqa: TID251  # seeded
from typing import NamedTuple

import pytest

from fencepost.flow.notary import Notary
from fencepost.model.audit_chain import key_id
from fencepost.model.errors import Busy, Invalid, Misconfigured, Unknown
from fencepost.operations import store_maintenance
from fencepost.operations.audit_verification import verify_audit
from fencepost.operations.bulk_requests import WantedRun, request_many
from fencepost.operations.prove import prove
from fencepost.operations.run_requests import request_run
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import Runtime, new_id, new_ids, open_runtime

KEY = b"the key that both machines have"
MOVER, NEIGHBOUR = "finance", "ops"
STEPS = 25


class Stores(NamedTuple):
    """Two stores whose clocks go together, each with a neighbour who stays."""

    here: Runtime
    there: Runtime
    file: str

    def move(self, source: Runtime, target: Runtime) -> store_maintenance.Restored:
        """Take the tenant from one to the other."""
        store_maintenance.send_away(source.rig.store, self.file, tenant=MOVER, by="ada")
        return store_maintenance.restore(target.rig.store, self.file, confirm=lambda _: target is self.here, by="ada")


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with ExitStack() as stack:
        (tmp_path / "there").mkdir()
        url: Callable[[], str] = lambda: str(request.getfixturevalue("conformance_url"))  # noqa: E731
        here = stack.enter_context(open_runtime(request.param, tmp_path, url))
        there = stack.enter_context(open_runtime("sqlite", tmp_path / "there"))
        for runtime in (here, there):
            runtime.go_to("2027-01-15T08:00:30")
            runtime.cron("s", "* * * * *", tenant=NEIGHBOUR)
        here.cron("s", "* * * * *", tenant=MOVER)
        yield Stores(here, there, str(tmp_path / "finance.backup"))


def work_off(runtime: Runtime) -> dict[str, int]:
    """Carry out all that can run; return the fence of each run."""
    fences = {}
    while leased := runtime.lease():
        runtime.store.start_run(leased)
        runtime.settle(leased)
        fences[leased.run.id] = leased.lease.fence
    return fences


def seal(store: RuntimeStore) -> None:
    one = Notary(store.audit_chain(), KEY, store.clock_us, lambda _: None, batch=3)
    while one.step():
        pass


def test_a_tenant_goes_on_where_it_has_moved_with_all_that_it_was(stores: Stores) -> None:
    here, there, _ = stores
    for runtime in (here, there):
        runtime.tick_at("2027-01-15T08:01:00")
    before = work_off(here)
    seal(here.another())
    neighbours = there.runs(tenant=NEIGHBOUR)

    restored = stores.move(here, there)

    assert [run.id for run in there.runs(tenant=MOVER)] == [run.id for run in here.runs(tenant=MOVER)]
    assert there.runs(tenant=NEIGHBOUR) == neighbours
    there.tick_at("2027-01-15T08:02:00")
    after = work_off(there)
    (new,) = [run for run in there.runs(tenant=MOVER) if run.id not in before]
    assert after[new.id] > restored.floor >= max(before.values())
    assert prove(there.store, tenant=MOVER).holds
    seal(there.another())
    report = verify_audit(there.store, MOVER, keys={key_id(KEY): KEY}, heads=[])
    assert (report.good, report.fault) == (True, None)


def test_nothing_of_a_tenant_happens_where_it_was(stores: Stores) -> None:
    here, there, _ = stores
    here.tick_at("2027-01-15T08:01:00")
    stores.move(here, there)

    with pytest.raises(Misconfigured, match="finance has left this store at 2027-01-15T08:01"):
        request_run(here.store, target="agent", tenant=MOVER, new_run_id=new_id, by="ada")
    with pytest.raises(Misconfigured, match="never spans two"):
        request_many(here.store, agent="agent", wanted=[WantedRun()], tenant=MOVER, new_run_ids=new_ids, by="ada")
    with pytest.raises(Misconfigured, match="stores = "):
        here.put(MOVER)
    with pytest.raises(Misconfigured):
        here.store.registry().unhalt(MOVER, actor="ada")
    here.tick_at("2027-01-15T08:02:00")
    assert {run.tenant for run in here.runs(tenant=MOVER) if run.state == "ready"} == {MOVER}
    assert all(leased not in [run.id for run in here.runs(tenant=MOVER)] for leased in work_off(here))
    assert request_run(here.store, target="agent", tenant=NEIGHBOUR, new_run_id=new_id, by="ada").run.id


def test_a_tenant_that_runs_something_stays(stores: Stores) -> None:
    here, _, file = stores
    here.tick_at("2027-01-15T08:01:00")
    held = [here.leased(start=True), here.leased(start=True)]
    (mine,) = [one for one in held if one.run.tenant == MOVER]

    with pytest.raises(Busy, match=f"cannot move while it holds run {mine.run.id}; halt it"):
        store_maintenance.send_away(here.rig.store, file, tenant=MOVER, by="ada")

    assert not Path(file).exists()
    here.settle(mine)
    store_maintenance.send_away(here.rig.store, file, tenant=MOVER, by="ada")
    store_maintenance.send_away(here.rig.store, file, tenant=MOVER, by="ada")  # as after a kill in between


def test_a_tenant_can_come_back(stores: Stores) -> None:
    here, there, _ = stores
    here.tick_at("2027-01-15T08:01:00")
    first = work_off(here)
    stores.move(here, there)
    there.tick_at("2027-01-15T08:02:00")
    second = work_off(there)
    here.go_to("2027-01-15T08:02:00")

    stores.move(there, here)

    here.tick_at("2027-01-15T08:03:00")
    third = work_off(here)
    mine = {run.id for run in here.runs(tenant=MOVER)}
    assert {*first, *second, *third} >= mine
    newest = max(fence for run, fence in third.items() if run in mine)
    assert newest > max(fence for run, fence in {**first, **second}.items() if run in mine)
    assert prove(here.store, tenant=MOVER).holds


def test_a_backup_of_one_tenant_replaces_nobody_elses(stores: Stores) -> None:
    here, there, file = stores
    here.tick_at("2027-01-15T08:01:00")
    store_maintenance.backup(here.rig.store, file, tenant=MOVER)
    work_off(here)
    asked = request_run(here.store, target="agent", tenant=MOVER, new_run_id=new_id, by="ada")
    assert here.run(asked.run.id, MOVER).state == "ready", "it has not left"

    with pytest.raises(Invalid, match="holds something of tenant finance"):
        store_maintenance.restore(here.rig.store, file, confirm=lambda _: False)
    with pytest.raises(Unknown, match='nothing of a tenant "nobody"'):
        store_maintenance.backup(there.rig.store, file, tenant="nobody")
    assert [run.state for run in here.runs(tenant=NEIGHBOUR)] == ["succeeded"]
    store_maintenance.restore(here.rig.store, file, confirm=lambda _: True)
    assert [run.state for run in here.runs(tenant=NEIGHBOUR)] == ["succeeded"]
    assert [run.state for run in here.runs(tenant=MOVER)] == ["ready"]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_around_its_moves_fences_rise_and_no_tick_runs_twice(stores: Stores, seed: int) -> None:
    """Both stores are at work; a tenant goes to and fro, holders are lost, and the old place is tried again and again."""
    dice, home, away = Random(seed), stores.here, stores.there
    fences: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    occurrences: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _ in range(STEPS):
        seconds = dice.choice((1, 20, 61))
        for runtime in (home, away):
            runtime.pass_time(seconds)
            runtime.tick()
            runtime.reap()
            while dice.random() < 0.8 and (leased := runtime.lease(ttl=10)):
                mine = leased.run.tenant == MOVER
                assert not mine or runtime is home, "leased where it no longer is"
                if mine:
                    fences[leased.run.tenant, leased.lease.resources].append(leased.lease.fence)
                runtime.store.start_run(leased)
                if dice.random() < 0.8:
                    runtime.settle(leased)  # the others are lost
            for run in runtime.runs(tenant=MOVER) if runtime is home else ():
                occurrences[run.schedule or "", run.occurrence or run.id].add(run.id)
        if dice.random() < 0.3:
            try:
                store_maintenance.send_away(home.rig.store, stores.file, tenant=MOVER, by="ada")
            except Busy:
                continue
            store_maintenance.restore(away.rig.store, stores.file, confirm=lambda _: True, by="ada")
            home, away = away, home
    assert fences
    for given in fences.values():
        assert given == sorted(set(given))
    assert all(len(runs) == 1 for runs in occurrences.values())
    assert prove(home.store, tenant=MOVER).holds
