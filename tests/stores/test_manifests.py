"""What the runs of an agent share is kept once, by its hash; whoever reads a run finds it, whoever made the run."""

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from fencepost.model.definition import AgentDefinition, hash_of
from fencepost.model.errors import StoreUnavailable
from fencepost.operations.bulk_requests import WantedRun as Wish
from fencepost.operations.bulk_requests import request_many
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import LeasedRun
from tests.flow.test_pruner import prune
from tests.stores.counted import counted_statements
from tests.stores.rig import Rig
from tests.stores.test_lane_turn import ids_of, lease, queue, wanted
from tests.support.runtime import SUCCEEDED, TENANT, Runtime, new_id, new_ids

DAY = timedelta(days=1)


def agent(**fields: object) -> AgentDefinition:
    return AgentDefinition("agent", engine="python", function="m:f", in_process=True, **fields)  # type: ignore[arg-type]


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    found = Runtime(rig)
    found.apply(agent())
    return found


def ask(runtime: Runtime, number: int = 1, tenant: str = TENANT) -> list[str]:
    made = request_many(
        runtime.store, tenant=tenant, agent="agent", wanted=[Wish()] * number, new_run_ids=new_ids, by="test"
    )
    return [one.id for one in made]


def in_rows(runtime: Runtime) -> set[str]:
    return {text for (text,) in runtime.sql("SELECT manifest FROM $run")}


def kept(runtime: Runtime) -> dict[str, str]:
    return dict(runtime.sql("SELECT hash, definition FROM $manifest ORDER BY hash"))


def carry_wide(runtime: Runtime) -> None:
    """Leave the store as an older program would: each run carries its definition, and none is shared."""
    for name, definition in kept(runtime).items():
        runtime.sql("UPDATE $run SET manifest = ? WHERE manifest_hash = ?", definition, name)
    runtime.sql("DELETE FROM $manifest")


def end(runtime: Runtime, leased: Sequence[LeasedRun]) -> None:
    for one in leased:
        runtime.settle(one, SUCCEEDED)


def test_many_runs_share_one_definition_however_they_are_asked_for(runtime: Runtime) -> None:
    runtime.cron()
    ids = [*ask(runtime, 3), *queue(runtime)]
    ids.append(request_run(runtime.store, tenant=TENANT, target="agent", new_run_id=new_id, by="test").run.id)
    runtime.tick_at("2027-01-15T08:01:00")
    ids += [run.id for run in runtime.runs("s")]

    assert len(ids) == 6
    assert in_rows(runtime) == {""}
    ((name, definition),) = kept(runtime).items()
    assert name == hash_of(definition)
    assert {runtime.run(run_id).manifest for run_id in ids} == {definition}
    assert json.loads(definition)["function"] == "m:f"


@pytest.mark.parametrize("wide", [False, True], ids=["shared", "carried by the run itself"])
def test_a_lane_gets_the_definition_of_a_run_whoever_made_it(runtime: Runtime, wide: bool) -> None:  # noqa: FBT001
    ids = ask(runtime, 2)
    definition = runtime.run(ids[0]).manifest
    if wide:
        carry_wide(runtime)
    leased = lease(runtime)
    assert [(one.run.id, one.run.manifest) for one in leased] == [(run_id, definition) for run_id in ids]


def test_a_run_keeps_the_definition_that_it_was_made_with(runtime: Runtime) -> None:
    (before,) = ask(runtime)
    runtime.apply(agent(timeout="9m"))
    (later,) = ask(runtime)
    assert [json.loads(one.run.manifest).get("timeout") for one in lease(runtime)] == [None, "9m"]
    assert runtime.run(before).manifest_hash != runtime.run(later).manifest_hash
    assert len(kept(runtime)) == 2


def test_a_lane_reads_a_definition_once(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(runtime, 6)
    with counted_statements(monkeypatch) as seen:
        turns = [runtime.store.turn((), (), wanted(2)) for _ in range(3)]
    assert [len(turned.leased) for turned in turns] == [2, 2, 2]
    assert seen.count("manifests_of") == 1


def test_tenants_have_definitions_of_their_own(runtime: Runtime) -> None:
    runtime.apply(agent(), tenant="other")
    ids = [*ask(runtime), *ask(runtime, tenant="other")]
    assert runtime.sql("SELECT tenant FROM $manifest ORDER BY tenant") == [(TENANT,), ("other",)]
    assert sorted(ids_of((*lease(runtime), *lease(runtime)))) == sorted(ids)


def test_a_definition_that_its_hash_does_not_name_stays_with_its_run(runtime: Runtime) -> None:
    runtime.sql("UPDATE $agent SET hash = 'of something else'")
    (run_id,) = ask(runtime)
    assert kept(runtime) == {}
    assert json.loads(runtime.run(run_id).manifest)["name"] == "agent"
    assert [one.run.manifest for one in lease(runtime)] == [runtime.run(run_id).manifest]


def test_a_definition_that_is_gone_is_said_to_be(runtime: Runtime) -> None:
    ask(runtime)
    runtime.sql("DELETE FROM $manifest")
    with pytest.raises(StoreUnavailable, match=r"has lost definition [0-9a-f]{64}; see: fencepost store restore"):
        lease(runtime)


def test_a_definition_goes_after_the_last_run_that_was_made_with_it(runtime: Runtime) -> None:
    end(runtime, _leased(runtime, ask(runtime)))
    runtime.apply(agent(timeout="9m"))
    end(runtime, _leased(runtime, ask(runtime)))
    runtime.go_to(runtime.now + 5 * DAY)
    runtime.apply(agent(timeout="10m"))
    waiting = ask(runtime)
    assert len(kept(runtime)) == 3

    prune(runtime, 30 * DAY)
    assert len(kept(runtime)) == 3, "their runs are on record"
    prune(runtime, 1 * DAY)
    assert [json.loads(definition)["timeout"] for definition in kept(runtime).values()] == ["10m"]
    assert _leased(runtime, waiting)[0].run.manifest in kept(runtime).values()


def test_a_definition_stays_while_runs_are_made_with_it_day_after_day(runtime: Runtime) -> None:
    for _ in range(4):
        end(runtime, _leased(runtime, ask(runtime)))
        runtime.go_to(runtime.now + 1.5 * DAY)
    (last,) = ask(runtime)
    prune(runtime, 1 * DAY)
    assert [run.id for run in runtime.runs()] == [last]
    assert list(kept(runtime)) == [runtime.run(last).manifest_hash]


def test_a_dry_run_of_pruning_lets_no_definition_go(runtime: Runtime) -> None:
    end(runtime, _leased(runtime, ask(runtime)))
    runtime.go_to(runtime.now + 5 * DAY)
    assert prune(runtime, 1 * DAY, dry=True)["runs"] == 1
    assert len(kept(runtime)) == 1


def test_a_definition_is_written_once_a_day_and_not_for_every_run(runtime: Runtime) -> None:
    ask(runtime)
    ((first_us,),) = runtime.sql("SELECT used_us FROM $manifest")
    runtime.go_to(runtime.now + 0.5 * DAY)
    ask(runtime)
    assert runtime.sql("SELECT used_us FROM $manifest") == [(first_us,)]
    runtime.go_to(runtime.now + 0.6 * DAY)
    ask(runtime)
    assert runtime.sql("SELECT used_us FROM $manifest")[0][0] > first_us


def _leased(runtime: Runtime, ids: list[str]) -> Sequence[LeasedRun]:
    leased = lease(runtime)
    assert ids_of(leased) == ids
    return leased
