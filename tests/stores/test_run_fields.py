"""A field of a run goes in and comes out under its name, however the run is made and taken."""

from typing import get_args

import pytest

from fencepost.model.new_run import NewRun
from fencepost.operations.records.run_record import RunDetailRecord
from fencepost.ports.alike_runs import KNOWN, SHARED, AlikeRuns
from fencepost.ports.requests import Ask, BatchPart, NewBatch
from fencepost.ports.runs import RunRow
from fencepost.stores.lane_facts import Hunch
from fencepost.stores.run_columns import NOT_OF_BATCH
from tests.stores.rig import Rig
from tests.stores.test_lane_turn import AGENT, lease
from tests.support.runtime import TENANT, Runtime, new_id

GIVEN_ONLY = {"queue_for_us", "in_process"}  # the first becomes give_up_us; the second says who looks for the run
TOLD_AS = {"version": "schedule_version", "resources": "resource", "cost_micro": "cost_usd", "lease_id": "lease"}
NOT_TOLD = {
    *("occurrence", "manifest"),  # the tick and the hash name them
    *("lease_max", "lines_up", "priority", "rank", "place_us", "waiting_us", "give_up_us", "resume"),  # how it waits
    *("reserved_micro", "counted_us"),  # what its budget counts until it has ended
    "requests",
}


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    found = Runtime(rig)
    found.apply(AGENT)
    return found


def distinct(runtime: Runtime, **given: object) -> NewRun:
    """Return a new run whose fields all have a value of their own."""
    (manifest, manifest_hash), *_ = runtime.sql("SELECT definition, hash FROM $agent WHERE tenant = ?", TENANT)
    run_id, now_us = new_id(), runtime.rig.now_us()
    values: dict[str, object] = {}
    for place, (name, kind) in enumerate(NewRun.__annotations__.items()):
        plain = (get_args(kind) or (kind,))[0]
        values[name] = {str: f"{name} {place}", int: place, bool: True}[plain]
    values |= {"id": run_id, "tenant": TENANT, "agent": "agent", "trigger": "manual", "schedule": None}
    values |= {"manifest": manifest, "manifest_hash": manifest_hash, "payload": '{"a": 1}', "ready_us": now_us}
    values |= {"resources": f'[["{TENANT}", "run:{run_id}"]]', "counted_us": now_us - 1}
    return NewRun(**{**values, **given})  # type: ignore[arg-type]


def test_every_field_of_a_new_run_comes_back(runtime: Runtime) -> None:
    new = distinct(runtime)
    kept = runtime.store.enqueue_run(new).run
    assert kept == runtime.run(new.id)
    assert {name: getattr(kept, name) for name in {*NewRun._fields} - GIVEN_ONLY} == {
        name: value for name, value in new._asdict().items() if name not in GIVEN_ONLY
    }


def test_a_run_of_a_batch_has_the_fields_of_one_that_is_asked_for_alone(runtime: Runtime) -> None:
    new = distinct(runtime)
    alone = runtime.store.enqueue_run(new).run
    like, part = new._replace(id="one"), BatchPart(["one", "two"], ["{}", "{}"], ["k1", "k2"], [None, "wanted"])
    ask = Ask(TENANT, "agent", "test")
    runtime.store.ask_batch(ask, lambda _: NewBatch(like, 0, 9), lambda: [part])
    runtime.store.ask_batch(ask, lambda _: NewBatch(like, 0, 9), lambda: [BatchPart(["three"], ["{}"])])
    own = {*NOT_OF_BATCH, "created_us", "waiting_us", "place_us", "give_up_us"}
    for run in map(runtime.run, ("one", "two", "three")):
        assert differing(alone, run) <= own


def test_a_run_that_a_lane_takes_is_the_one_that_the_store_has(runtime: Runtime) -> None:
    """Also where its fields are those of no usual run."""
    known = {name: KNOWN[name] for name in KNOWN.keys() & {*NewRun._fields}}
    new = runtime.store.enqueue_run(distinct(runtime, **known)).run
    runtime.store._hunch = Hunch(TENANT, ("agent",), plain=True)
    taken = lease(runtime)
    assert isinstance(taken, AlikeRuns)
    assert taken[0].run == runtime.run(new.id)._replace(started_us=None)  # which was not read back
    assert differing(new, taken[0].run) <= {*SHARED, "state", "attempt"}


def test_what_only_one_of_the_two_rows_has_is_meant_so() -> None:
    assert {*NewRun._fields} - {*RunRow._fields} == GIVEN_ONLY


def test_every_field_is_shown_or_kept_back_on_purpose() -> None:
    assert {name for name in RunRow._fields if not names_told(name) & {*RunDetailRecord._fields}} == NOT_TOLD


def names_told(name: str) -> set[str]:
    plain = name.removesuffix("_us")
    return {name, plain, f"{plain}_at", TOLD_AS.get(name, name)}


def differing(one: RunRow, other: RunRow) -> set[str]:
    return {name for name in RunRow._fields if getattr(one, name) != getattr(other, name)}
