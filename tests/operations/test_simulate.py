"""The what-if of a user's own schedules: the quick way agrees with the long one, and both with arithmetic."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencepost import wiring
from fencepost.model.budget import MicroUsd
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.operations.simulation import simulate as operation
from fencepost.operations.simulation.scenario import (
    Expected,
    Outage,
    Scenario,
    check_size,
    check_span,
    crashes,
    in_order,
    only,
)
from fencepost.operations.simulation.tally import ScheduleTally, SimulationReport, report_fields

MONDAY = datetime(2027, 3, 22, tzinfo=UTC)  # the clocks of Berlin go ahead on the Sunday after it
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
BERLIN = "Europe/Berlin"


def simulate(scenario: Scenario) -> SimulationReport:
    return operation.simulate(scenario, wiring.simulated_store)


def scenario(
    *schedules: ScheduleDefinition,
    span: timedelta = 7 * DAY,
    agent: Mapping[str, Any] | None = None,
    needs: timedelta = 5 * MINUTE,
    cost: int | None = None,
    **changes: Any,  # noqa: ANN401  # any field of a scenario
) -> Scenario:
    """Let one agent run some schedules for a while."""
    expected = Expected(needs, "said", None if cost is None else MicroUsd(cost), "said")
    return replace(
        Scenario(
            "default",
            {"a": AgentDefinition(name="a", command=("true",), **(agent or {}))},
            {one.name: one for one in schedules},
            MONDAY,
            MONDAY + span,
            expected={one.name: expected for one in schedules},
        ),
        **changes,
    )


def cron(name: str, expression: str, **rest: Any) -> ScheduleDefinition:  # noqa: ANN401  # any of its keys
    return ScheduleDefinition(name=name, agent="a", cron=expression, timezone=BERLIN, **rest)


def tally(given: Scenario) -> ScheduleTally:
    (found,) = simulate(given).tallies.values()
    return found


def test_a_person_hears_how_far_it_is_although_only_the_usual_happens() -> None:
    heard: list[datetime] = []
    given = scenario(cron("often", "* * * * *"), needs=timedelta(seconds=1))
    operation.simulate(given, wiring.simulated_store, progress=heard.append)

    shares = [(at - given.start) / (given.end - given.start) for at in heard]
    assert shares == sorted(shares)
    assert max(after - before for before, after in pairwise([0.0, *shares, 1.0])) < 0.2


def test_a_week_of_a_nightly_schedule_meets_the_clock_change() -> None:
    found = tally(scenario(cron("nightly", "30 2 * * *")))

    assert (found.owed, found.runs, found.skipped()) == (7, 6, {"dst_gap": 1})
    assert [(one.effect, one.ticks) for one in found.effects] == [("skipped", 1)]
    assert found.ends == {"succeeded": 6}


def test_a_tick_at_the_very_beginning_counts_and_one_at_the_very_end_does_not() -> None:
    found = tally(scenario(cron("midnight", "0 1 * * *"), span=DAY))  # midnight UTC

    assert found.runs == 1


def test_a_run_that_takes_longer_than_its_interval_prevents_every_other_one() -> None:
    found = tally(scenario(cron("often", "*/10 * * * *"), span=HOUR, needs=12 * MINUTE))

    assert (found.runs, found.skipped(), found.overlaps_prevented) == (3, {"overlap": 3}, 3)


def test_a_run_that_takes_exactly_its_interval_is_in_the_way_of_the_next() -> None:
    found = tally(scenario(cron("often", "*/10 * * * *"), span=HOUR, needs=10 * MINUTE))

    assert found.overlaps_prevented == 3


def test_two_schedules_of_one_moment_wait_for_the_only_worker() -> None:
    report = simulate(scenario(cron("a1", "0 3 * * *"), cron("a2", "0 3 * * *"), span=DAY, workers=1))

    waits = sorted(one.longest_wait_us for one in report.tallies.values())
    assert waits == [0, 5 * 60 * 1_000_000]
    assert report.total("waited") == 1


def test_a_shared_project_lets_one_in_after_the_other() -> None:
    given = scenario(cron("a1", "0 3 * * *"), cron("a2", "0 3 * * *"), span=DAY, workers=9, agent={"project": "repo"})

    assert simulate(given).total("waited") == 1
    apart = replace(given, projects={"repo": {"isolation": "worktree"}})
    assert simulate(apart).total("waited") == 0


@pytest.mark.parametrize(("missed", "runs", "catch_ups"), [("skip", 20, 0), ("coalesce", 21, 1), ("replay", 24, 4)])
def test_an_outage_is_answered_by_the_missed_policy(missed: str, runs: int, catch_ups: int) -> None:
    outage = Outage(MONDAY + 4.5 * HOUR, MONDAY + 8.5 * HOUR)
    found = tally(scenario(cron("hourly", "0 * * * *", missed=missed), span=DAY, outages=(outage,)))

    assert (found.owed, found.runs, found.catch_ups) == (24, runs, catch_ups)
    assert found.ticks.total() == 24


@pytest.mark.parametrize(
    ("on_lost", "ends", "attempts"), [("triage", {"dead": 1}, 1), ("restart", {"succeeded": 1}, 2)]
)
def test_what_is_at_work_when_the_machine_crashes_is_lost(on_lost: str, ends: dict[str, int], attempts: int) -> None:
    outage = Outage(MONDAY + 2 * HOUR, MONDAY + 3 * HOUR)
    given = scenario(
        cron("long", "30 2 * * *"), span=DAY, needs=50 * MINUTE, agent={"on_lost": on_lost}, outages=(outage,)
    )
    found = tally(given)  # it starts at 01:30 UTC

    assert (found.ends, found.attempts) == (ends, attempts)


def test_a_resumed_run_has_only_the_rest_to_do() -> None:
    outage = Outage(MONDAY + 2 * HOUR, MONDAY + 3 * HOUR)
    given = scenario(
        cron("long", "30 2 * * *"), span=DAY, needs=50 * MINUTE, agent={"on_lost": "resume"}, outages=(outage,)
    )

    assert tally(given).busy_us == 50 * 60 * 1_000_000


def test_a_budget_is_reached_and_said_when() -> None:
    daily = cron("spender", "0 * * * *", budget_usd_per_day="0.50")
    found = tally(scenario(daily, span=DAY, cost=100_000, agent={"budget_usd": "0.20"}))

    assert found.ticks["budget"] > 0
    assert found.spend == 100_000 * found.runs
    assert found.first_budget_at is not None
    assert found.spend <= 1_000_000, "two days of Berlin are touched, each with its own half dollar"


def test_a_run_that_costs_more_than_one_may_is_ended_and_charged_no_more() -> None:
    found = tally(scenario(cron("dear", "0 3 * * *"), span=DAY, cost=2_000_000, agent={"budget_usd": "0.50"}))

    assert (found.ends, found.reasons, found.spend) == ({"dead": 1}, {"budget": 1}, 500_000)


def test_a_run_that_takes_longer_than_its_timeout_is_ended() -> None:
    found = tally(scenario(cron("slow", "0 3 * * *"), span=DAY, needs=2 * HOUR, agent={"timeout": "1h"}))

    assert (found.ends, found.reasons) == ({"dead": 1}, {"timeout": 1})


def test_an_every_schedule_goes_on_from_end_to_end() -> None:
    every = ScheduleDefinition(name="sweep", agent="a", every="55m")
    found = tally(scenario(every, span=DAY))

    assert found.runs == 24


def test_a_newer_run_cancels_the_one_before_it() -> None:
    newest = cron("newest", "*/10 * * * *", overlap="cancel_previous")
    found = tally(scenario(newest, span=HOUR, needs=15 * MINUTE))

    assert (found.runs, found.ends["cancelled"], found.reasons) == (6, 5, {"overlap": 5})


def test_a_run_that_is_not_over_at_the_end_is_said_to_be_at_work() -> None:
    assert tally(scenario(cron("late", "59 0 * * *"), span=DAY)).ends == {"running": 1}


def test_two_months_of_a_schedule_of_every_minute_is_counted_and_not_played() -> None:
    given = scenario(cron("minute", "* * * * *"), span=60 * DAY, needs=timedelta(seconds=20))
    found = tally(given)

    assert found.runs + found.ticks["dst_gap"] == found.owed
    assert found.runs == 60 * 24 * 60
    assert found.one_by_one <= 2


@pytest.mark.parametrize(
    ("limits", "runs"),
    [
        ({"max_runs_per_hour": 40}, 14 * 24 * 40),
        ({"budget_usd_per_day": "2.00"}, 14 * 200),
        ({"calendar": ("SAT-SUN", "MON-FRI 22:00-06:00")}, (10 * 16 + 2 * 6) * 60),
    ],
)
def test_budgets_and_blackouts_of_a_schedule_of_every_minute_are_counted_and_not_played(
    limits: dict[str, Any], runs: int
) -> None:
    given = scenario(
        replace(cron("minutely", "* * * * *", **limits), timezone="UTC"),
        span=14 * DAY,
        needs=timedelta(seconds=20),
        cost=10_000,
    )

    found = tally(given)

    assert (found.owed, found.runs, found.ends["succeeded"]) == (14 * 24 * 60, runs, runs)
    assert found.spend == runs * 10_000
    assert found.one_by_one <= 1


def test_the_same_scenario_gives_the_same_report() -> None:
    outages = in_order(crashes(5, 3, MONDAY, MONDAY + 7 * DAY), MONDAY, MONDAY + 7 * DAY)
    given = scenario(cron("hourly", "0 * * * *", missed="replay"), outages=outages)

    assert list(report_fields(simulate(given))) == list(report_fields(simulate(given)))


EXPRESSIONS = ("0 * * * *", "*/20 * * * *", "*/7 1-4 * * *", "30 2 * * *", "0 3 * * 1-5", "*/5 2 28 3 *")
OVERLAPS = ("forbid", "queue", "allow_parallel", "cancel_previous")
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"max_runs_per_hour": 2},
    {"budget_usd_per_day": "0.05"},
    {"budget_usd_per_month": "0.09", "max_runs_per_hour": 1},
    {"max_time_per_day": "40m"},
    {"calendar": ("SAT 22:00-06:00", "SUN 01:00-04:00")},
    {"calendar": ("SUN 02:10..SUN 03:20",), "budget_usd_per_day": "0.12"},
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a few days around a clock change, with whatever policies."""
    names = draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=3, unique=True))
    schedules = []
    for name in names:
        rest = {
            "overlap": draw(st.sampled_from(OVERLAPS)),
            "missed": draw(st.sampled_from(("skip", "coalesce", "replay"))),
        }
        rest["jitter"] = draw(st.sampled_from(("", "", "3m")))
        rest.update(draw(st.sampled_from(LIMITS)))
        if draw(st.booleans()):
            schedules.append(cron(name, draw(st.sampled_from(EXPRESSIONS)), **rest))
        else:
            every = draw(st.sampled_from(("17m", "1h", "5h")))
            align = draw(st.sampled_from(("end", "start")))
            schedules.append(ScheduleDefinition(name=name, agent="a", every=every, align=align))
    start, end = MONDAY + 5 * DAY, MONDAY + 7 * DAY
    outages = in_order(crashes(draw(st.integers(0, 3)), draw(st.integers(0, 99)), start, end), start, end)
    return scenario(
        *schedules,
        start=start,
        end=end,
        outages=outages,
        needs=draw(st.sampled_from((20 * timedelta(seconds=1), 5 * MINUTE, 20 * MINUTE, 70 * MINUTE))),
        cost=draw(st.sampled_from((None, 10_000))),
        workers=draw(st.integers(1, 4)),
        agent={
            "on_lost": draw(st.sampled_from(("triage", "resume", "restart"))),
            "timeout": "2h",
            "budget_usd": draw(st.sampled_from(("", "0.02"))),
        },
    )


# Both are due at 13:00, after hours in which nothing had to be played: who waits in line since when?
WEEKEND = scenario(
    cron("p", "0 * * * *"),
    ScheduleDefinition(name="q", agent="a", every="17m"),
    start=MONDAY + 5 * DAY,
    needs=timedelta(seconds=20),
    workers=1,
)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
@example(WEEKEND)
@example(replace(WEEKEND, schedules={**WEEKEND.schedules, "q": replace(WEEKEND.schedules["q"], align="start")}))
def test_counting_quiet_times_comes_to_the_same_as_playing_them(given: Scenario) -> None:
    assert _shown(simulate(given)) == _shown(simulate(replace(given, thorough=True)))


def _shown(report: SimulationReport) -> list[dict[str, object]]:
    return [{key: value for key, value in one.items() if key != "one_by_one"} for one in report_fields(report)]


def test_ticks_of_one_instant_that_do_not_all_find_room_are_counted_once() -> None:
    given = scenario(
        cron("p", "0 * * * *"),
        cron("q", "0 * * * *"),
        cron("r", "*/30 * * * *"),
        span=DAY,
        needs=35 * MINUTE,
        workers=2,
    )

    report = simulate(given)

    assert [one.owed for one in report.tallies.values()] == [24, 24, 48]
    assert _shown(report) == _shown(simulate(replace(given, thorough=True)))


def test_a_span_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="swap them"):
        check_span(MONDAY, MONDAY)
    with pytest.raises(Invalid, match="shorter span"):
        check_span(MONDAY, MONDAY + 4000 * DAY)


def test_more_ticks_than_anybody_would_wait_for_are_refused() -> None:
    with pytest.raises(Invalid, match="--for 7d"):
        check_size(scenario(cron("second", "* * * * * *"), span=365 * DAY))


def test_an_agent_of_another_file_is_asked_for() -> None:
    with pytest.raises(Invalid, match="--applied"):
        simulate(scenario(replace(cron("x", "0 0 * * *"), agent="elsewhere")))


def test_a_schedule_that_is_not_there_is_not_simulated() -> None:
    with pytest.raises(Invalid, match="Did you mean 'nightly'"):
        only(scenario(cron("nightly", "0 0 * * *")), ["nigthly"])


def test_outages_that_touch_are_one() -> None:
    one, two = Outage(MONDAY, MONDAY + HOUR), Outage(MONDAY + HOUR, MONDAY + 2 * HOUR)

    assert in_order([two, one], MONDAY, MONDAY + DAY) == (Outage(MONDAY, MONDAY + 2 * HOUR),)
    assert in_order([one], MONDAY + HOUR, MONDAY + DAY) == ()
