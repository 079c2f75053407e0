"""Many runs of one batch: SQLite writes about those that lie side by side as one span, and about no other run."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.ports.alike_runs import AlikeEnds, AlikeRuns
from fencepost.ports.runs import Turned
from fencepost.stores.lane_facts import Hunch
from fencepost.stores.sqlite.spans import RUNS_MIN, SPANS
from tests.stores.rig import Rig
from tests.stores.test_alike_runs import QUIET, settle, taken
from tests.stores.test_lane_turn import AGENT, queue, wanted
from tests.support.runtime import SUCCEEDED, Runtime

MANY = RUNS_MIN + 8
WRITES = {SPANS[name] for name in ("lane_take", "settle_batch", "end_batch")}


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    """A store whose lane expects plain runs of its agent."""
    found = Runtime(rig)
    found.apply(AGENT)
    found.store._hunch = Hunch("default", ("agent",), plain=True)
    return found


@contextmanager
def spans(runtime: Runtime) -> Iterator[set[str]]:
    """Collect the spans that are written; on PostgreSQL there are none."""
    seen: set[str] = set()
    if runtime.rig.kind != "sqlite":
        yield WRITES
        return
    connection = runtime.store._dialect._connection  # type: ignore[attr-defined]  # SQLite's own

    def note(_: object, text: str, __: object) -> bool:
        seen.add(text)
        return True

    connection.set_exec_trace(note)
    yield seen
    connection.set_exec_trace(None)
    seen &= WRITES


def take_and_settle(runtime: Runtime, *, until: int | None = None) -> tuple[AlikeRuns, Turned]:
    runs = taken(runtime, MANY)
    return runs, settle(runtime, runs[:until], close=() if until else runs[:1])


def states(runtime: Runtime, ids: list[str]) -> set[str]:
    return {runtime.run(run_id).state for run_id in ids}


def test_those_that_lie_side_by_side_are_written_as_spans_and_their_neighbours_stay(runtime: Runtime) -> None:
    before, ids, after = queue(runtime, 2, lane=False), queue(runtime, MANY), queue(runtime, 2, lane=False)
    with spans(runtime) as written:
        runs, turned = take_and_settle(runtime)
    assert (written, runs.ids, turned.lost) == (WRITES, ids, ())
    assert states(runtime, ids) == {"succeeded"}
    assert states(runtime, before + after) == {"ready"}
    attempts = [runtime.store.attempts(run_id) for run_id in ids]
    assert {(one.outcome, one.number, len(all_of)) for all_of in attempts for one in all_of} == {("succeeded", 1, 1)}


def test_what_lies_between_them_is_left_alone(runtime: Runtime) -> None:
    ids = queue(runtime, MANY // 2)
    between = queue(runtime, 1, lane=False)
    ids += queue(runtime, MANY // 2)
    with spans(runtime) as written:
        runs, turned = take_and_settle(runtime)
    assert (runs.ids, turned.lost) == (ids, ())
    assert written == (set() if runtime.rig.kind == "sqlite" else WRITES)
    assert (states(runtime, ids), states(runtime, between)) == ({"succeeded"}, {"ready"})


def test_a_part_is_settled_and_the_others_still_run(runtime: Runtime) -> None:
    ids = queue(runtime, MANY)
    with spans(runtime) as written:
        _, turned = take_and_settle(runtime, until=RUNS_MIN)
    assert (written, turned.lost) == (WRITES, ())
    assert (states(runtime, ids[:RUNS_MIN]), states(runtime, ids[RUNS_MIN:])) == ({"succeeded"}, {"running"})


@pytest.mark.parametrize("which", [slice(None), slice(3, 4)], ids=["all", "one"])
def test_those_whose_fence_rose_are_named_and_only_the_others_are_settled(runtime: Runtime, which: slice) -> None:
    ids = queue(runtime, MANY)
    runs = taken(runtime, MANY)
    for run_id in ids[which]:
        runtime.sql("UPDATE $run SET fence = fence + 1 WHERE id = ?", run_id)
    assert settle(runtime, runs, close=runs[:1]).lost == tuple(ids[which])
    assert states(runtime, ids[which]) == {"running"}
    assert states(runtime, ids) == ({"running"} if which == slice(None) else {"running", "succeeded"})


def test_an_attempt_with_another_fence_keeps_its_end(runtime: Runtime) -> None:
    ids = queue(runtime, MANY)
    runs = taken(runtime, MANY)
    runtime.sql("UPDATE $attempt SET fence = fence + 1 WHERE run_id = ?", ids[0])
    settle(runtime, runs, close=runs[:1])
    assert [runtime.store.attempts(run_id)[0].outcome for run_id in ids] == [None, *["succeeded"] * (MANY - 1)]


def test_one_that_was_settled_before_does_not_keep_the_others_from_it(runtime: Runtime) -> None:
    ids = queue(runtime, MANY)
    runs = taken(runtime, MANY)
    settle(runtime, runs[5:6])
    assert runtime.store.turn(AlikeEnds(runs, SUCCEEDED, QUIET), [runs[0].lease], None).lost == ()
    assert states(runtime, ids) == {"succeeded"}
    assert {len(runtime.store.attempts(run_id)) for run_id in ids} == {1}


def test_of_a_batch_with_one_that_is_not_plain_none_is_taken_as_such(runtime: Runtime) -> None:
    ids = queue(runtime, MANY)
    runtime.sql("UPDATE $run SET attempt = 1 WHERE id = ?", ids[7])
    leased = runtime.store.turn((), (), wanted(MANY)).leased
    assert [(one.run.id, one.run.attempt) for one in leased] == [
        (run_id, 2 if run_id == ids[7] else 1) for run_id in ids
    ]
