"""The timeline tells each attempt, each tick without a run and each takeover, whatever a row is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.drawing.scale import TimeScale
from fencepost.drawing.timeline import By, Picture, draw, kind_of
from fencepost.ports.charts import AttemptFact, RunBin, RunlessTick

HOUR = 3_600_000_000
DAY = TimeScale(0, 24 * HOUR)
NOW = 23 * HOUR


def fact(
    run: str = "r1",
    *,
    state: str = "succeeded",
    number: int | None = 1,
    created: float = 1.0,
    started: float | None = 2.0,
    ended: float | None = 3.0,
    worker: str = "tower:4711",
    outcome: str | None = "succeeded",
    fence: int = 7,
    resume: bool = False,
    schedule: str | None = "nightly",
) -> AttemptFact:
    over = state in ("succeeded", "dead", "cancelled")
    return AttemptFact(
        *(run, schedule, "digest", "handbook", state, None, round(created * HOUR)),
        *(round((ended or 0) * HOUR) if over and ended else None, resume, 1000, number),
        *(fence, worker, None if started is None else round(started * HOUR)),
        *(None if ended is None else round(ended * HOUR), outcome, None),
    )


def drawn(*facts: AttemptFact, by: By = By.SCHEDULE, ticks: tuple[RunlessTick, ...] = ()) -> Picture:
    return draw(DAY, by, facts, ticks, now_us=NOW)


def test_a_run_is_a_bar_with_a_thin_line_for_its_wait() -> None:
    (row,) = drawn(fact()).rows
    (bar,) = row.laid.bars
    assert (bar.lead, bar.x, bar.x + bar.w) == pytest.approx((1 / 24, 2 / 24, 3 / 24))
    assert (row.key, row.runs, row.cost_micro) == ("nightly", Counter(succeeded=1), 1000)


@pytest.mark.parametrize(
    ("one", "last", "kind"),
    [
        (fact(state="dead", outcome="failed"), True, "dead"),
        (fact(state="succeeded", outcome="failed"), False, "failed"),
        (fact(state="running", ended=None, outcome=None), True, "running"),
        (fact(state="running", outcome="lost"), False, "lost"),
        (fact(state="ready", number=None), True, "waiting"),
        (fact(state="cancelled", number=None), True, "cancelled"),
        (fact(state="ready", outcome="failed"), True, "failed"),
    ],
)
def test_an_attempt_is_told_by_how_it_ended_and_the_last_by_how_its_run_did(
    one: AttemptFact,
    last: bool,  # noqa: FBT001
    kind: str,
) -> None:
    assert kind_of(one, last=last) == kind


@pytest.mark.parametrize(("by", "rows"), [(By.SCHEDULE, (0, 0)), (By.PROJECT, (0, 0)), (By.WORKER, (1, 0))])
def test_a_takeover_leads_from_the_old_holder_to_the_new(by: By, rows: tuple[int, int]) -> None:
    old = fact(state="succeeded", outcome="lost", worker="tower:1", fence=7, ended=2.5)
    new = fact(state="succeeded", number=2, worker="mini:2", fence=9, started=2.6, ended=4.0, resume=True)
    picture = drawn(new, old, by=by)
    (takeover,) = picture.takeovers
    assert (takeover.old.fence, takeover.new.fence) == (7, 9)
    assert (takeover.old_at[0], takeover.new_at[0]) == rows
    assert takeover.old_at[2] <= takeover.new_at[2]
    assert [picture.facts[place].number for place in picture.resumed] == [2]


def test_ticks_that_lie_together_are_one_mark_and_none_is_forgotten() -> None:
    ticks = tuple(
        RunlessTick("nightly", None, at * 60_000_000, at * 60_000_000, 1, "overlap" if at % 3 else "missed")
        for at in range(0, 600, 5)
    )
    (row,) = drawn(ticks=ticks).rows
    assert len(row.marks) < len(ticks)
    assert row.skips == Counter(overlap=80, missed=40)
    assert row.marks[0].kind == "overlap"


def test_what_lies_before_or_after_is_not_drawn_and_not_counted() -> None:
    early, late = fact("r1", created=-9, started=-8, ended=-7), fact("r2", created=25, started=26, ended=27)
    assert [row.laid.bars for row in drawn(early, late).rows] in ([], [[]])


FACTS = st.lists(
    st.builds(
        lambda run, start, length, wait, kind, worker: fact(
            f"r{run}",
            state=kind,
            created=start - wait,
            started=start,
            ended=None if kind == "running" else min(start + length, 23.0),
            outcome=None if kind == "running" else kind,
            worker=worker,
            schedule=f"s{run % 3}",
        ),
        st.integers(0, 10_000),
        st.floats(0, 22.9),
        st.floats(0, 6),
        st.floats(0, 1),
        st.sampled_from(("succeeded", "dead", "cancelled", "running")),
        st.sampled_from(("tower:1", "mini:2")),
    ),
    max_size=80,
    unique_by=lambda one: one.run_id,
)


@given(FACTS, st.sampled_from(list(By)))
def test_every_run_is_counted_in_one_row(facts: list[AttemptFact], by: By) -> None:
    picture = draw(DAY, by, facts, (), now_us=NOW)
    assert sum((row.runs for row in picture.rows), Counter()) == Counter(one.state for one in facts)
    assert sum(row.cost_micro for row in picture.rows) == 1000 * len(facts)


@given(
    st.lists(st.tuples(st.integers(0, 249), st.integers(1, 500), st.sampled_from(("succeeded", "dead"))), max_size=60)
)
def test_what_the_store_has_counted_is_drawn_in_blocks(counts: list[tuple[int, int, str]]) -> None:
    width = 24 * HOUR // 250
    bins = [
        RunBin(place, "nightly", "digest", None, "tower:1", kind, number, place * width, place * width + width // 2, 5)
        for place, number, kind in counts
    ]
    picture = draw(DAY, By.SCHEDULE, (), (), bins, now_us=NOW)
    assert sum(row.runs.total() for row in picture.rows) == sum(number for _, number, _ in counts)
