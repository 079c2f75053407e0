"""Runs that a lane took in one go, and settles by one word: what is not as expected is found run by run."""

from collections.abc import Sequence

import pytest

from fencepost.ports.alike_runs import AlikeEnds, AlikeRuns, joined
from fencepost.ports.runs import LeasedRun, Report, Turned
from fencepost.stores.lane_facts import Hunch
from tests.stores.rig import Rig
from tests.stores.test_lane_turn import AGENT, ids_of, lease, leases, queue, wanted
from tests.support.runtime import SUCCEEDED, Runtime

QUIET = Report("succeeded", exit_code=0)


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    """A store whose lane expects plain runs of its agent."""
    found = Runtime(rig)
    found.apply(AGENT)
    found.store._hunch = Hunch("default", ("agent",), plain=True)
    return found


def taken(runtime: Runtime, limit: int = 100) -> AlikeRuns:
    leased = lease(runtime, limit)
    assert isinstance(leased, AlikeRuns)
    return leased


def settle(runtime: Runtime, runs: AlikeRuns, *, close: Sequence[LeasedRun] = ()) -> Turned:
    return runtime.store.turn(AlikeEnds(runs, SUCCEEDED, QUIET), [one.lease for one in close], None)


def test_each_is_spelled_out_as_the_store_has_it(runtime: Runtime) -> None:
    ids = queue(runtime, 3)
    runs = taken(runtime)
    assert (runs.ids, ids_of(runs), len(runs)) == (ids, ids, 3)
    for one in runs:
        assert one.run == runtime.run(one.run.id)._replace(started_us=None)  # which was not read back
        assert (one.lease.id, one.lease.run_id, one.lease.fence) == (runs.lease.id, one.run.id, runs.lease.fence)


def test_all_are_settled_by_one_word_each_with_its_attempt(runtime: Runtime) -> None:
    ids = queue(runtime, 4)
    runs = taken(runtime)
    assert settle(runtime, runs, close=runs[:1]).lost == ()
    assert runtime.states() == ["succeeded"] * 4
    assert [runtime.store.attempts(run_id)[0].outcome for run_id in ids] == ["succeeded"] * 4
    assert leases(runtime) == []


def test_a_part_is_settled_and_the_lease_stays_for_the_others(runtime: Runtime) -> None:
    queue(runtime, 3)
    runs = taken(runtime)
    settle(runtime, runs[:2])
    assert (runtime.states(), leases(runtime)) == (["succeeded", "succeeded", "running"], [runs.lease.id])
    settle(runtime, runs[2:], close=runs[2:])
    assert (runtime.states(), leases(runtime)) == (["succeeded"] * 3, [])


def test_the_next_are_taken_in_the_same_turn(runtime: Runtime) -> None:
    ids = queue(runtime, 5)
    runs = taken(runtime, 2)
    turned = runtime.store.turn(AlikeEnds(runs, SUCCEEDED, QUIET), [runs[0].lease], wanted(2))
    assert (ids_of(turned.leased), turned.lost) == (ids[2:4], ())


def test_of_a_broken_lease_none_is_settled_and_all_are_named(runtime: Runtime) -> None:
    ids = queue(runtime, 3)
    runs = taken(runtime)
    (held,) = runtime.store.leases()
    assert runtime.store.break_lease(held, why="by hand")
    assert settle(runtime, runs, close=runs[:1]).lost == tuple(sorted(ids))
    assert runtime.states() == ["running"] * 3


def test_one_that_was_settled_before_does_not_keep_the_others_from_it(runtime: Runtime) -> None:
    queue(runtime, 3)
    runs = taken(runtime)
    settle(runtime, runs[1:2])
    assert settle(runtime, runs, close=runs[:1]).lost == ()
    assert runtime.states() == ["succeeded"] * 3
    assert [len(runtime.store.attempts(run_id)) for run_id in runs.ids] == [1, 1, 1]


def test_ends_of_one_lease_stay_together_and_others_become_a_list(runtime: Runtime) -> None:
    queue(runtime, 5)
    first, second = taken(runtime, 3), taken(runtime, 2)
    ends = [AlikeEnds(runs, SUCCEEDED, QUIET) for runs in (first[:1], first[1:], second)]
    both = joined(joined((), ends[0]), ends[1])
    assert isinstance(both, AlikeEnds)
    assert both.runs.ids == first.ids
    mixed = joined(both, ends[2])
    assert isinstance(mixed, list)
    assert [one.run.id for one in mixed] == first.ids + second.ids
    assert runtime.store.turn(mixed, [first[0].lease, second[0].lease], None).lost == ()
    assert runtime.states() == ["succeeded"] * 5
