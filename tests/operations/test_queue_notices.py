"""Who wants to hear of it is told which runs wait, where and behind whom, at each change, and that they wait no more."""

import json
from typing import Any

import pytest

from fencepost.model.notice import Wish, envelope, title_of
from fencepost.operations.queue_notices import QueueTeller
from fencepost.operations.run_requests import cancel
from tests.support.runtime import TENANT, Runtime

OWNER = "/etc/fencepost.toml"


@pytest.fixture
def lined(runtime: Runtime) -> Runtime:
    """Give a queueing schedule of which one run runs and two wait."""
    runtime.go_to("2027-01-15T08:00")
    runtime.cron("s", overlap="queue", queue_max=3)
    runtime.store.notices().declare(TENANT, OWNER, {Wish("ops", "queued")})
    runtime.pass_time(60)
    runtime.tick()
    return runtime


def more(runtime: Runtime, minutes: int) -> None:
    for _ in range(minutes):
        runtime.pass_time(60)
        runtime.tick()
    runtime.pass_time(5)


def told(runtime: Runtime) -> list[dict[str, Any]]:
    """Return what is on its way, and let it arrive."""
    notices = runtime.store.notices()
    found = []
    while taken := notices.claim(TENANT, OWNER, ["ops"], limit=100, hold_seconds=60):
        found += [json.loads(one.body) for one in taken]
        assert all(notices.sent(one) for one in taken)
    return sorted(found, key=lambda body: body["run_id"])


def test_a_run_that_waits_is_told_with_its_position_and_behind_whom_and_once(lined: Runtime) -> None:
    holder = lined.leased(ttl=600, start=True).run
    more(lined, 2)
    teller = QueueTeller(TENANT)

    teller.step(lined.store)
    lined.pass_time(5)
    teller.step(lined.store)

    first, second = told(lined)
    assert (first["position"], first["behind"], first["schedule"]) == (1, holder.id, "s")
    assert (second["position"], second["behind_what"]) == (2, holder.agent)
    assert title_of("queued", first) == f"s waits in line: position 1, behind {holder.agent}"
    assert envelope("queued", "2027-01-15T08:00:00Z", first)["type"] == "run.queued"
    assert first["summary"].startswith(f"queued · position 1 · behind {holder.id} (")


def test_it_is_told_again_when_its_place_changes_and_when_it_starts_also_by_the_next_scheduler(lined: Runtime) -> None:
    holder = lined.leased(ttl=600, start=True)
    more(lined, 2)
    QueueTeller(TENANT).step(lined.store)
    first, second = told(lined)
    lined.settle(holder)
    following = lined.leased(ttl=600, start=True)
    assert following.run.id == first["run_id"]

    QueueTeller(TENANT).step(lined.store)

    started, moved = told(lined)
    assert (started["run_id"], started["position"], started["state"]) == (first["run_id"], 0, "running")
    assert title_of("queued", started) == "s waited in line, and has started"
    assert (moved["run_id"], moved["position"], moved["behind"]) == (second["run_id"], 1, first["run_id"])
    cancel(lined.store, second["run_id"], tenant=TENANT, by="me")
    QueueTeller(TENANT).step(lined.store)
    (cancelled,) = told(lined)
    assert title_of("queued", cancelled) == "s waited in line, and was cancelled"


def test_a_run_that_only_waits_for_a_worker_or_came_just_now_is_not_told(lined: Runtime) -> None:
    teller = QueueTeller(TENANT)
    lined.pass_time(30)
    teller.step(lined.store)
    assert told(lined) == []
    lined.leased(ttl=600, start=True)
    lined.pass_time(29)
    lined.pass_time(1.5)
    lined.tick()
    teller.step(lined.store)
    assert told(lined) == []
