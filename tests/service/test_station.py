"""The loop of `up` on a real store, one step at a time."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.host.clock import SystemClock
from fencepost.host.processes import system_processes
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import want
from fencepost.model.secret_rights import NO_LISTS
from fencepost.service.command_order import Tools
from fencepost.service.station import POLL_SECONDS, Station, StationPlan
from fencepost.stores.runtime import RuntimeStore
from fencepost.wiring import open_runtime
from fencepost.wiring.tenant_secrets import gate_opener
from tests.support.scratch import wait_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/state.db"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Give pytest its signals back."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in kept.items():
        signal.signal(number, handler)


def scheduler(url: str) -> Station:
    clock = SystemClock()
    tools = Tools(clock, system_processes(clock), lambda: open_runtime(url), gate_opener(NO_LISTS), lambda _: None)
    plan = StationPlan("default", ticks=True, slots=0, ttl_seconds=30.0, drain_seconds=1.0)
    return Station(plan, tools, lambda: open_runtime(url), None, ())


def test_a_lead_that_was_given_up_is_not_kept_alive_by_a_renewal_that_came_through_late(url: str) -> None:
    station = scheduler(url)
    station._step()
    lead = station._lead
    assert lead is not None
    lead._grip._term.deadline_ns = 0  # as it looks while the answer to a renewal is late
    station._probe_ns = 0
    station._step()
    assert station._lead is not None, "its own old lease stands in the way"
    assert not station._lead.lost
    assert station._lead.fence > lead.fence
    station._drain()


def is_due(store: RuntimeStore) -> bool:
    agenda = store.agenda(1)
    return agenda.next_due_us is not None and agenda.next_due_us <= agenda.now_us


def test_a_passive_scheduler_does_not_spin_over_what_another_has_to_decide(url: str) -> None:
    leader, passive = scheduler(url), scheduler(url)
    leader._step()
    store = open_runtime(url)
    schedule = ScheduleDefinition("s", "agent", cron="* * * * * *", timezone="UTC")
    agents = {"agent": AgentDefinition("agent", command=("true",))}
    store.registry().apply(want("default", "test.toml", agents=agents, schedules={"s": schedule}), actor="test")
    wait_until(lambda: is_due(store), what="no tick came due")  # and the leader is busy elsewhere
    assert passive._step() == POLL_SECONDS
    leader._drain()
    passive._drain()
    store.close()
