"""What is looked at is told the same way through every door: words for spans, ends and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.run import Reason, RunState
from fencepost.operations.phrases import ago, counted, fate, last_line, plain, rfc3339, span, why_so
from fencepost.operations.run_queries import Filter, exit_code_of, find_run, list_runs, moment
from fencepost.ports.runs import RunRow
from tests.support.desk import Desk

SECOND = 1_000_000
EMPTY = RunRow(*[None] * len(RunRow._fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.85, "850ms"), (12, "12s"), (192.9, "3m12s"), (3600, "1h"), (14_760, "4h6m"), (273_599, "3d3h"), (86_400, "1d")],
)
def test_a_span_is_as_fine_as_it_matters(seconds: float, words: str) -> None:
    assert span(round(seconds * SECOND)) == words


def test_an_instant_is_told_by_its_distance() -> None:
    assert ago(10 * SECOND, 22 * SECOND) == "12s ago"
    assert ago(22 * SECOND, 10 * SECOND) == "in 12s"
    assert ago(10 * SECOND, 10 * SECOND + 1) == "just now"


def test_what_never_comes_has_no_instant() -> None:
    assert rfc3339(None) is None
    assert rfc3339(2**63 - 1) is None
    assert rfc3339(1_500_000) == "1970-01-01T00:00:01Z"


@given(st.text())
def test_shown_text_has_nothing_that_steers_a_terminal(text: str) -> None:
    assert plain(text).isprintable()
    assert last_line(text).isprintable()


def test_colours_are_left_out_and_the_last_line_that_says_anything_is_found() -> None:
    assert last_line("first\n\033[31mboom\033[0m\n\n  \n") == "boom"
    assert last_line(None) == ""


def test_every_reason_has_words() -> None:
    for reason in Reason:
        assert why_so(reason.value) not in ("", reason.value)
        assert "`" not in why_so(reason.value)
    assert why_so("a word of a later version") == "a word of a later version"
    assert fate("exit_code", 3) == "the agent exited with code 3"


def test_a_failure_never_exits_0() -> None:
    for reason in Reason:
        run = EMPTY._replace(state=RunState.DEAD.value, reason=reason.value, exit_code=0)
        assert exit_code_of(run) != 0


def test_one_is_not_many() -> None:
    assert (counted(1, "run"), counted(2, "run")) == ("1 run", "2 runs")


def test_another_tenants_run_is_not_found(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    run = desk.store.runs(tenant="default")[0]

    assert find_run(desk.store, "default", run.id[:-2]).id == run.id
    for text in (run.id, run.id[:-2]):
        with pytest.raises(Invalid):
            find_run(desk.store, "other", text)
    assert list_runs(desk.store, "other", Filter(), limit=10).runs == []


def test_a_prefix_is_taken_as_it_is_and_never_as_a_pattern(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")

    for text in ("%", "_", "r%", "*", "'", "\U0010ffff"):
        with pytest.raises(Invalid, match="there is no run"):
            find_run(desk.store, "default", text)


def test_a_wall_time_is_read_in_the_schedules_zone(desk: Desk) -> None:
    desk.schedule(cron="30 2 * * *", timezone="Europe/Berlin")

    assert moment(desk.store, "default", "nightly", "2026-03-28T02:30").isoformat() == "2026-03-28T01:30:00+00:00"
    with pytest.raises(Invalid):
        moment(desk.store, "default", "digest", "2026-03-28T02:30")
