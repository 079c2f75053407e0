"""What engines leave in the store: sessions, costs, and the word of those who carry runs out elsewhere. Both stores."""

import pytest

from fencepost.model.errors import LeaseLost
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Report
from tests.stores.rig import Rig
from tests.support.runtime import SUCCEEDED, TENANT, Runtime

AGAIN = Settlement(RunState.READY, Reason.DRAINED, resume=True, uses_attempt=False)


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return Runtime(rig)


def ready(runtime: Runtime) -> None:
    runtime.cron()
    runtime.tick_at("2027-01-15T08:01:00")


def test_a_session_is_kept_with_the_start_and_handed_to_the_attempt_that_resumes(runtime: Runtime) -> None:
    ready(runtime)
    first = runtime.leased()
    runtime.store.start_run(first, session="S1")
    runtime.store.note_session(first.lease, "S2")
    runtime.store.settle(first.lease, AGAIN, Report("interrupted"), clean=True)

    second = runtime.leased()

    assert first.session is None
    assert second.session == "S2"
    assert [one.session for one in runtime.store.attempts(second.run.id)] == ["S2", None]


def test_an_attempt_that_begins_again_gets_no_session(runtime: Runtime) -> None:
    ready(runtime)
    first = runtime.leased()
    runtime.store.start_run(first, session="S1")
    runtime.store.settle(first.lease, Settlement(RunState.READY, Reason.RESTART), Report("lost"), clean=True)

    assert runtime.leased().session is None


def test_a_zombie_cannot_name_the_session(runtime: Runtime) -> None:
    ready(runtime)
    zombie = runtime.leased(start=True)
    runtime.store.settle(zombie.lease, AGAIN, Report("interrupted"), clean=True)
    fresh = runtime.leased(start=True)

    with pytest.raises(LeaseLost):
        runtime.store.note_session(zombie.lease, "stale")
    runtime.store.note_session(fresh.lease, "mine")


def test_a_run_has_cost_what_all_its_attempts_have_cost(runtime: Runtime) -> None:
    ready(runtime)
    first = runtime.leased(start=True)
    runtime.store.settle(first.lease, AGAIN, Report("interrupted", cost_micro=100, turns=2), clean=True)
    silent = runtime.leased(start=True)
    runtime.store.settle(silent.lease, AGAIN, Report("interrupted"), clean=True)
    last = runtime.leased(start=True)
    report = Report("succeeded", cost_micro=50, usage='{"input": 3}')
    runtime.store.settle(last.lease, SUCCEEDED, report, clean=True)
    runtime.store.settle(last.lease, SUCCEEDED, report, clean=True)  # asked again after an unknown answer

    run = runtime.store.run(last.run.id, tenant=TENANT)
    attempts = runtime.store.attempts(last.run.id)

    assert run is not None
    assert run.cost_micro == 150
    assert [(one.cost_micro, one.turns, one.usage) for one in attempts] == [
        (100, 2, None),
        (None, None, None),
        (50, None, '{"input": 3}'),
    ]


def test_only_the_fence_of_the_running_attempt_is_heard_from_outside(runtime: Runtime) -> None:
    ready(runtime)
    leased = runtime.leased(start=True)
    put = runtime.store.put_completion
    fence, run_id = leased.lease.fence, leased.run.id

    assert put(run_id, tenant=TENANT, fence=fence - 1, state="succeeded", content="{}") is None
    assert put(run_id, tenant="other", fence=fence, state="succeeded", content="{}") is None
    assert put(run_id, tenant=TENANT, fence=fence, state="running", content="{}") == "running"
    assert put(run_id, tenant=TENANT, fence=fence, state="running", content="{}") == "running"
    assert put(run_id, tenant=TENANT, fence=fence, state="succeeded", content='{"a": 1}') == "succeeded"
    assert put(run_id, tenant=TENANT, fence=fence, state="failed", content="{}") == "succeeded"
    assert runtime.store.completion(run_id) == (fence, "succeeded", '{"a": 1}', 4)


def test_an_end_that_was_reported_before_its_worker_was_lost_still_counts(runtime: Runtime) -> None:
    ready(runtime)
    first = runtime.leased(start=True)
    runtime.store.put_completion(first.run.id, tenant=TENANT, fence=first.lease.fence, state="failed", content="{}")
    runtime.store.settle(first.lease, AGAIN, Report("interrupted"), clean=True)
    second = runtime.leased(start=True)
    runtime.store.put_completion(first.run.id, tenant=TENANT, fence=second.lease.fence, state="running", content="{}")

    heard = runtime.store.completion(first.run.id)

    assert heard is not None
    assert (heard.fence, heard.state) == (first.lease.fence, "failed")
