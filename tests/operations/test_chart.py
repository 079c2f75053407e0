"""What is drawn is what both stores have on record, of one tenant, one by one or counted."""

from collections import Counter

import pytest

from fencepost.drawing.timeline import By
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Invalid
from fencepost.model.instants import to_us
from fencepost.model.lease import Claim
from fencepost.model.project import Workplace
from fencepost.operations import chart as charts
from fencepost.operations.chart import View, chart
from fencepost.operations.schedule_plots import now_plots, schedule_plots, tick_plots
from fencepost.ports.runs import RunRow
from tests.support.runtime import DEAD, MYSELF, SUCCEEDED, TENANT, Runtime, at

HOURS = range(1, 9)
UNTIL = to_us(at("2027-03-10T09:00"))
PLACES = (Workplace(TENANT, "handbook", "project:handbook", "/srv/handbook", 1, isolated=False),)


def _claim(run: RunRow) -> Claim:
    return claim_for(run, lease_id=f"l-{run.id}-{run.attempt}", supervisor=MYSELF, ttl_seconds=7200)


@pytest.fixture
def lived(runtime: Runtime) -> Runtime:
    """Eight hours: runs that end well and badly, one that is taken over, ticks that meet another, one that runs."""
    runtime.go_to("2027-03-10T00:30")
    runtime.apply(AgentDefinition("digest", command=("true",), project="handbook", on_lost="resume"))
    runtime.apply(ScheduleDefinition("hourly", "digest", cron="0 * * * *", timezone="UTC"))
    runtime.store.keep_workplaces("tower", MYSELF, PLACES, ttl_seconds=86_400)
    runtime.apply(ScheduleDefinition("theirs", "agent", cron="0 * * * *", timezone="UTC"), tenant="others")
    for hour in HOURS:
        runtime.tick_at(f"2027-03-10T{hour:02}:00")
        while leased := runtime.store.lease_run(_claim, recheck_for, places=PLACES):
            runtime.store.start_run(leased)
            if leased.run.tenant == TENANT and hour in (3, 8):
                continue  # still at work: the next tick meets it
            runtime.pass_time(600)
            runtime.settle(leased, DEAD if hour == 5 else SUCCEEDED, cost_micro=100_000)
        if hour == 4:
            runtime.reap()
    return runtime


def test_every_run_and_every_skip_is_drawn_by_whatever_a_row_is(lived: Runtime) -> None:
    states = Counter(run.state for run in lived.runs())
    for by in By:
        picture = chart(lived.store, TENANT, View("12h", UNTIL, by)).picture
        kinds = sum((row.runs for row in picture.rows), Counter[str]())
        assert kinds.total() == sum(states.values())
        assert kinds["dead"] == states["dead"]
        assert "theirs" not in {row.key for row in picture.rows}
    skipped = Counter(kind for _, _, kind in lived.ticks("hourly") if kind != "run")
    picture = chart(lived.store, TENANT, View("12h", UNTIL)).picture
    assert sum((row.skips for row in picture.rows), Counter[str]()) == skipped


def test_a_project_and_a_schedule_have_their_own_picture(lived: Runtime) -> None:
    assert not chart(lived.store, TENANT, View("12h", UNTIL, schedule="nothing")).picture.rows
    assert not chart(lived.store, TENANT, View("12h", UNTIL, project="nothing")).picture.rows
    (row,) = chart(lived.store, TENANT, View("12h", UNTIL, By.PROJECT, schedule="hourly")).picture.rows
    assert row.key == "handbook"
    assert chart(lived.store, TENANT, View("12h", UNTIL, project="handbook")).picture.rows


def test_what_is_counted_by_the_store_comes_to_the_same(lived: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = chart(lived.store, TENANT, View("12h", UNTIL))
    monkeypatch.setattr(charts, "ONE_BY_ONE", 2)
    counted = chart(lived.store, TENANT, View("12h", UNTIL))
    assert (one_by_one.counted, counted.counted) == (False, True)
    for first, second in zip(one_by_one.picture.rows, counted.picture.rows, strict=True):
        assert (first.key, first.runs, first.cost_micro) == (second.key, second.runs, second.cost_micro)


@pytest.mark.parametrize("by", By)
@pytest.mark.parametrize("limit", [{}, {"schedule": "hourly"}, {"project": "handbook"}, {"schedule": "nothing"}])
def test_what_is_counted_is_what_is_asked_for(
    lived: Runtime, monkeypatch: pytest.MonkeyPatch, by: By, limit: dict[str, str]
) -> None:
    view = View("12h", UNTIL, by, **limit)
    one_by_one = {row.key: row.runs for row in chart(lived.store, TENANT, view).picture.rows}
    monkeypatch.setattr(charts, "ONE_BY_ONE", -1)
    counted = chart(lived.store, TENANT, view)
    assert counted.counted
    assert {row.key: row.runs for row in counted.picture.rows} == one_by_one


def test_a_run_that_lives_for_days_is_drawn_while_it_lives(runtime: Runtime) -> None:
    runtime.go_to("2027-03-10T00:30")
    runtime.cron("long", "0 1 10 3 *", missed="coalesce")
    runtime.tick_at("2027-03-10T01:00")
    runtime.leased(start=True, ttl=90 * 86_400)
    runtime.go_to("2027-03-15T12:00")
    (row,) = chart(runtime.store, TENANT, View("1h")).picture.rows
    assert row.runs == Counter(running=1)


def test_a_takeover_is_found_in_the_records(runtime: Runtime) -> None:
    runtime.go_to("2027-03-10T00:30")
    runtime.apply(AgentDefinition("agent", command=("true",), on_lost="resume", max_attempts=3))
    runtime.cron("hourly", "0 * * * *")
    runtime.tick_at("2027-03-10T01:00")
    old = runtime.leased(start=True, ttl=30)
    runtime.pass_time(120)
    assert runtime.reap() == 1
    new = runtime.leased(start=True)
    found = chart(runtime.store, TENANT, View("1h"))
    (takeover,) = found.picture.takeovers
    assert (takeover.old.fence, takeover.new.fence) == (old.lease.fence, new.lease.fence)
    assert len(found.picture.resumed) == 1


def test_an_unknown_span_is_refused_with_what_there_is() -> None:
    with pytest.raises(Invalid, match="none of 1h, 3h"):
        View("2h")


def test_the_plots_come_to_what_is_on_record(lived: Runtime) -> None:
    duration, cost, ended = schedule_plots(lived.store, TENANT, "hourly", "UTC")
    runs = lived.runs()
    assert cost.total == f"${sum(run.cost_micro or 0 for run in runs) / 1e6:,.2f} in all"
    assert "p50 10 min" in duration.columns[-1].told
    assert sum(part.value for part in ended.columns[-1].parts) == sum(run.ended_us is not None for run in runs)
    every, without = tick_plots(lived.store, TENANT)
    assert sum(part.value for part in every.columns[-1].parts) == len(HOURS)
    assert sum(part.value for part in without.columns[-1].parts) == sum(kind != "run" for kind in lived.kinds("hourly"))
    waiting, began = now_plots(lived.store, TENANT)
    assert sum(part.value for column in began.columns for part in column.parts) == sum(
        run.started_us is not None for run in runs
    )
    assert len(waiting.columns) == 24
