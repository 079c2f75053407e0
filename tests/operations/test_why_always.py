"""`why` answers for any schedule and any instant, and agrees with what was recorded."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.model.instants import format_instant, from_us
from fencepost.model.run import Reason, RunState
from fencepost.operations.why import why
from tests.support.desk import Desk

SCHEDULES: list[dict[str, Any]] = [
    {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "shift", "missed": "coalesce"},
    {"cron": "*/20 * * * *", "timezone": "America/St_Johns", "overlap": "queue"},
    {"cron": "0 * * * *", "timezone": "UTC", "missed": "replay", "calendar": ("SAT-SUN",)},
    {"every": "45m"},
    {"at": "2026-03-28T00:00:00Z"},
    {"cron": "0 * * * *", "timezone": "UTC", "enabled": False},
]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 100_000)),
        st.sampled_from([("tick", 0), ("work", 0), ("fail", 0), ("pause", 0), ("resume", 0), ("halt", 0)]),
    ),
    min_size=3,
    max_size=14,
)


def live_through(desk: Desk, name: str, events: list[tuple[str, int]]) -> None:
    """Let things happen to a schedule, in this order."""
    registry = desk.registry
    for what, seconds in events:
        if what == "pass":
            desk.clock.pass_time(seconds)
        elif what == "tick":
            desk.tick()
        elif what == "work":
            work(desk)
        elif what == "fail":
            work(desk, RunState.DEAD, Reason.EXIT_CODE)
        elif what == "pause":
            registry.pause("default", name, until=None, note="", actor="ada")
        elif what == "halt":
            registry.halt("default", note="", actor="ada")
        else:
            registry.resume("default", name, actor="ada")
            registry.unhalt("default", actor="ada")


def work(desk: Desk, state: RunState = RunState.SUCCEEDED, reason: Reason | None = None) -> None:
    """Let a worker do what there is to do, if anything."""
    leased = desk.try_lease()
    if leased is not None:
        desk.settle(leased, state, reason, exit_code=1 if reason else 0)


@pytest.mark.parametrize("number", range(len(SCHEDULES)))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(events=EVENTS, offset=st.integers(-200_000, 900_000))
def test_any_instant_has_an_answer_and_every_record_is_told(
    desk: Desk, number: int, events: list[tuple[str, int]], offset: int
) -> None:
    name = f"s{desk.new_id()}"
    desk.schedule(name, agent="digest", **SCHEDULES[number])
    start_us = desk.clock.wall
    live_through(desk, name, events)

    asked_at = from_us(start_us) + timedelta(seconds=offset)
    for at in (None, format_instant(asked_at)):
        _, answers = why(desk.store, "default", name, at)
        assert answers
        assert all(answer.sentences and all(answer.sentences) for answer in answers)
    look = desk.store.reads("default")
    for tick in look.ticks(name, limit=100):
        _, answers = why(desk.store, "default", name, format_instant(from_us(tick.tick_us)))
        told = [answer for answer in answers if answer.tick == tick]
        assert len(told) == 1, (tick, answers)
        expected = tick.disposition if tick.run_id is None else told[0].run and told[0].run.run.state
        assert told[0].verdict == expected
    desk.registry.unhalt("default", actor="ada")
    desk.forget(name)
