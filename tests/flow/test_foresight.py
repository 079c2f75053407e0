"""What was worked out before a tick is due says what deciding it then would say, or says nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.flow.foresight import AGAIN_US, AT_ONCE, KEPT_MAX, Foresight
from fencepost.flow.ticker import Ticker, plan_of
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, hash_of, to_json
from fencepost.model.instants import to_us
from fencepost.model.overlap import LiveStanding, UnendedRun
from fencepost.model.run import RunId, TriggerKind
from fencepost.ports.ticks import Around, DueSchedule, PauseRow, TickPlan
from tests.support.runtime import Runtime, new_id

AGENT = to_json(AgentDefinition("agent", command=("true",)))
SECOND_US = 1_000_000
SUMMER = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # half an hour before Berlin's clocks jump

crons = st.sampled_from(
    ["* * * * *", "*/5 * * * *", "30 2 * * *", "0 3 * * *", "0 0 1 1 *", "* * * * * *", "15 2,3 * * *"]
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "dst_gap": st.sampled_from(["skip", "shift"]),
        "dst_fold": st.sampled_from(["auto", "first", "last", "both"]),
        "missed": st.sampled_from(["skip", "coalesce", "replay"]),
        "grace": st.sampled_from(["1s", "60s", "2h"]),
        "overlap": st.sampled_from(["forbid", "queue", "allow_parallel", "cancel_previous"]),
        "jitter": st.sampled_from(["10m"]),
        "max_runs_per_hour": st.just(2),
        "calendar": st.just(("2026-03-29",)),
        "end": st.just("2026-03-29T04:00:00Z"),
        "enabled": st.booleans(),
        "priority": st.integers(-5, 5),
        "payload": st.just({"a": 1}),
        "once": st.booleans(),
    },
)


def due_of(schedule: ScheduleDefinition, cursor: datetime, *, skip_next: str | None = None) -> DueSchedule:
    text, us = to_json(schedule), to_us(cursor)
    head = ("default", schedule.name, 3, "agent", text, AGENT, hash_of(text))
    return DueSchedule(*head, us, us, skip_next, 0, us - 7, None, None, None)


def foreseen(due: DueSchedule, around: Around) -> TickPlan | None:
    foresight = Foresight(plan_of)
    foresight.look(0, lambda _within, _limit: [due])
    return foresight.plan(due, around, lambda: "r1")


@settings(max_examples=300, deadline=None)
@given(
    crons,
    fields,
    st.sampled_from(["Europe/Berlin", "UTC", "America/St_Johns"]),
    st.integers(0, 8 * 3600),
    st.integers(0, 2 * 3600),
)
def test_what_was_foreseen_is_what_would_be_decided(
    cron: str, more: dict[str, object], zone: str, start: int, later: int
) -> None:
    due = due_of(
        ScheduleDefinition("s", "agent", cron=cron, timezone=zone, **more),  # type: ignore[arg-type]  # any of its fields
        SUMMER + timedelta(seconds=start),
    )
    around = Around(due.cursor_us + later * SECOND_US + 1, {}, {}, {})
    plan = foreseen(due, around)
    assert plan is None or plan == plan_of(due, around, lambda: "r1")


def test_a_tick_with_nothing_in_its_way_is_foreseen() -> None:
    """Or the test above would be about nothing."""
    for one in (
        ScheduleDefinition("s", "agent", cron="0 * * * *", timezone="Europe/Berlin"),
        ScheduleDefinition("s", "agent", at="2026-03-29T02:00:00Z"),
        ScheduleDefinition("s", "agent", cron="0 * * * *", timezone="UTC", overlap="allow_parallel"),
    ):
        due = due_of(one, SUMMER + timedelta(hours=1))
        around = Around(to_us(SUMMER + timedelta(hours=1, minutes=30, seconds=2)), {}, {}, {})
        plan = foreseen(due, around)
        assert plan == plan_of(due, around, lambda: "r1")
        assert plan.ticks[0].run_id == plan.runs[0].id == "r1"


def test_what_is_in_the_way_when_it_is_due_is_seen() -> None:
    due = due_of(ScheduleDefinition("s", "agent", cron="0 * * * *", timezone="UTC"), SUMMER)
    now_us = to_us(SUMMER + timedelta(minutes=30))
    live = UnendedRun(RunId("r0"), TriggerKind.CRON, LiveStanding.RUNNING)
    pause = PauseRow(now_us - 5, now_us + 5, "")
    assert foreseen(due, Around(now_us, {due.key: [live]}, {}, {})) is None
    assert foreseen(due, Around(now_us, {}, {due.key: [pause]}, {})) is None
    assert foreseen(due, Around(now_us, {}, {(due.tenant, ""): [pause]}, {})) is None
    assert foreseen(due, Around(now_us - 1, {}, {}, {})) is None, "it is not due yet"
    assert foreseen(due_of(ScheduleDefinition("s", "agent", at="x"), SUMMER), Around(now_us, {}, {}, {})) is None
    assert foreseen(due, Around(now_us, {}, {}, {})) is not None


@pytest.mark.parametrize(
    "limit",
    [
        {"budget_usd_per_day": "1"},
        {"budget_usd_per_month": "1"},
        {"max_runs_per_hour": 1},
        {"max_time_per_day": "1h"},
        {"calendar": ("MON",)},
    ],
)
def test_what_hangs_on_a_budget_or_the_calendar_is_not_foreseen(limit: dict[str, Any]) -> None:
    due = due_of(ScheduleDefinition("s", "agent", cron="0 * * * *", timezone="UTC", **limit), SUMMER)

    assert foreseen(due, Around(to_us(SUMMER + timedelta(minutes=30)), {}, {}, {})) is None


def test_a_schedule_that_has_changed_meanwhile_is_decided_anew() -> None:
    due = due_of(ScheduleDefinition("s", "agent", cron="0 * * * *", timezone="UTC"), SUMMER)
    foresight = Foresight(plan_of)
    foresight.look(0, lambda _within, _limit: [due])
    around = Around(to_us(SUMMER + timedelta(minutes=30)), {}, {}, {})
    for other in (due._replace(version=4), due._replace(cursor_us=due.cursor_us + 1), due._replace(manifest="{}")):
        assert foresight.plan(other, around, lambda: "r1") is None


def test_it_looks_a_little_at_a_time_and_keeps_a_bounded_number() -> None:
    many = [due_of(ScheduleDefinition(f"s{n}", "agent", at="2026-03-29T02:00:00Z"), SUMMER) for n in range(AT_ONCE + 1)]
    asked: list[int] = []

    def coming(_within_us: int, limit: int) -> list[DueSchedule]:
        asked.append(limit)
        return many

    foresight = Foresight(plan_of)
    assert not foresight.wants(0, None)
    assert not foresight.wants(0, 3600 * SECOND_US)
    assert foresight.wants(0, SECOND_US)
    foresight.look(0, coming)
    assert foresight.wants(0, None), "one is left"
    foresight.look(0, coming)
    assert not foresight.wants(AGAIN_US - 1, AGAIN_US)
    assert foresight.wants(AGAIN_US, AGAIN_US + 1)
    assert asked == [KEPT_MAX]


def test_schedules_that_were_prepared_make_their_runs_when_they_are_due(runtime: Runtime) -> None:
    for number in range(5):
        runtime.cron(f"s{number}", payload={"number": number})
    runtime.cron("busy")
    runtime.tick()
    runtime.go_to("2027-01-15T08:01:00")
    runtime.tick()
    runtime.sql("DELETE FROM $run WHERE schedule <> 'busy'")
    runtime.go_to("2027-01-15T08:01:58")
    foresight = Foresight(plan_of)
    ticker = Ticker(runtime.store, new_id, foresight=foresight)
    assert ticker.prepare(now_us=to_us(runtime.now), next_due_us=runtime.store.next_due_us())
    assert len(foresight._foreseen) == 6
    runtime.go_to("2027-01-15T08:02:00")
    assert ticker.step() == 6
    assert foresight._foreseen == {}
    made = runtime.sql(
        "SELECT schedule, occurrence FROM $run WHERE occurrence = 'UTC|2027-01-15T08:02:00|0' ORDER BY schedule"
    )
    assert [(name, key) for name, key in made] == [(f"s{n}", "UTC|2027-01-15T08:02:00|0") for n in range(5)]
    assert runtime.sql(
        "SELECT disposition FROM $tick WHERE occurrence = 'UTC|2027-01-15T08:02:00|0' AND schedule = 'busy'"
    ) == [("overlap",)]
