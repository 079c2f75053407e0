"""Two derivations of the same ticks: the auditor's count and list, and the ticker's."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fencepost.model.independent_ticks import CronRule, OwedTicks, instants_of, jumps
from fencepost.model.trigger import cron_trigger

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Africa/Casablanca",
    "Europe/Dublin",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "Asia/Gaza",
]
EXPRESSIONS = [
    "* * * * *",
    "30 2 * * *",
    "0 */2 * * *",
    "*/7 * * * *",
    "1 0 * * *",
    "15 1,2,3 * * SUN",
    "0 0 L * *",
    "0 9 15W * *",
    "0 9 * * 5L",
    "0 12 1-7 * 1",
    "59 23 LW * 1#2",
    "*/20 * * * * *",
    "@hourly",
    "5 4 29 2 *",
]
DAY = 86_400
start_of = st.integers(
    int(datetime(1985, 1, 1, tzinfo=UTC).timestamp()), int(datetime(2035, 1, 1, tzinfo=UTC).timestamp())
)


@settings(max_examples=150, deadline=None)
@given(
    rule=st.builds(
        CronRule,
        cron=st.sampled_from(EXPRESSIONS),
        zone=st.sampled_from(ZONES),
        gap=st.sampled_from(["skip", "shift"]),
        fold=st.sampled_from(["auto", "first", "last", "both"]),
    ),
    start=start_of,
    days=st.sampled_from([0.04, 1, 3, 40, 400]),
)
@example(rule=CronRule("0,30 0-3 * * *", "America/St_Johns", "shift", "both"), start=1_143_900_000, days=400)
def test_both_derivations_agree(rule: CronRule, start: int, days: float) -> None:
    end = start + round(days * DAY)
    trigger = cron_trigger(rule.cron, rule.zone, dst_gap=rule.gap, dst_fold=rule.fold)
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end))
    owed = OwedTicks(rule)
    assert owed.count(start, end) == trigger.count_between(first, last)
    assert sum(gap.slots for gap in owed.gaps(start, end)) == trigger.count_skipped(first, last)
    listed = [int(at.timestamp()) for at, _ in zip(trigger.instants(first, last), range(20), strict=False)]
    assert owed.first(start, end) == listed
    assert all(owed.has(at) for at in listed)


def test_stretches_can_be_asked_for_in_any_order() -> None:
    owed = OwedTicks(CronRule("0 * * * *", "Europe/Berlin", "skip", "auto"))
    assert [owed.count(at * DAY, (at + 1) * DAY) for at in (20_000, 19_000, 20_500, 18_000)] == [24] * 4
    assert owed.count(5, 5) == owed.count(6, 5) == 0


def test_a_year_of_seconds_is_counted_and_not_listed() -> None:
    owed = OwedTicks(CronRule("* * * * * *", "UTC", "skip", "auto"))
    assert owed.count(0, 365 * DAY) == 365 * DAY


@pytest.mark.parametrize(("zone", "width"), [("Europe/Berlin", 3600), ("Australia/Lord_Howe", 1800)])
def test_jumps_are_found_to_the_second(zone: str, width: int) -> None:
    year = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2026, 2027)]
    found = list(jumps(zone, *year))
    assert [abs(jump.after - jump.before) for jump in found] == [width, width]
    for jump in found:
        gap = jump.at + min(jump.before, jump.after)
        assert len(instants_of(zone, gap)) == (0 if jump.after > jump.before else 2)
        assert len(instants_of(zone, gap - 1)) == 1
