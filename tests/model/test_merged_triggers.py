"""Several triggers of one schedule: one sequence of ticks, each instant once, whatever the clocks do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model.definition import ScheduleDefinition, schedule_from_json, to_json, trigger_of
from fencepost.model.errors import Invalid
from fencepost.model.instants import from_us, to_us
from fencepost.model.merged_triggers import MergedTrigger
from fencepost.model.proof import reign_of
from fencepost.model.trigger import AtTrigger, CronTrigger

if TYPE_CHECKING:
    from fencepost.model.occurrence import Occurrence

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Africa/Casablanca", "Australia/Lord_Howe", "America/Santiago")
CRONS = ("*/15 * * * *", "30 2 * * *", "0 2 * * *", "15,45 2-3 * * *", "0 * * * *", "0 3 * * SUN", "30 1 L * *",
         "*/20 30 2 * * *", "0 0 1 * *", "59 23 * * *")  # fmt: skip
INSTANT = timedelta.resolution

crons = st.lists(st.sampled_from(CRONS), min_size=0, max_size=4, unique=True)
starts = st.one_of(
    st.sampled_from([datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 10, 24, 20, tzinfo=UTC),
                     datetime(2026, 3, 7, 20, tzinfo=UTC), datetime(2026, 11, 1, 0, tzinfo=UTC),
                     datetime(2026, 4, 4, 10, tzinfo=UTC)]),
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)),
)  # fmt: skip
quarters = st.lists(st.integers(0, 400), max_size=4, unique=True)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[ScheduleDefinition, datetime]:
    """Two triggers or more, and a moment near which they have ticks."""
    start, chosen = draw(starts), draw(crons)
    ats = tuple((start + number * timedelta(minutes=15)).isoformat() for number in draw(quarters))
    if len(chosen) + len(ats) < 2:
        chosen = ["0 2 * * *", "*/15 * * * *"]
    return ScheduleDefinition(
        "s",
        "a",
        cron=tuple(chosen),
        at=ats,
        timezone=draw(st.sampled_from(ZONES)),
        dst_gap=draw(st.sampled_from(["skip", "shift"])),
        dst_fold=draw(st.sampled_from(["auto", "first", "last", "both"])),
    ), start


def merged(schedule: ScheduleDefinition) -> MergedTrigger:
    trigger = trigger_of(schedule)
    assert isinstance(trigger, MergedTrigger)
    return trigger


def alone(schedule: ScheduleDefinition) -> list[CronTrigger | AtTrigger]:
    """Build each trigger as if it were the only one."""
    trigger = merged(schedule)
    return [*trigger.crons, *trigger.ats]


@settings(deadline=None, max_examples=120)
@given(schedules(), st.integers(1, 96))
def test_the_ticks_are_those_of_all_triggers_each_instant_once_and_in_order(
    given_: tuple[ScheduleDefinition, datetime], hours: int
) -> None:
    schedule, start = given_
    end = start + timedelta(hours=hours)
    trigger = merged(schedule)
    every = [one for each in alone(schedule) for one in each.occurrences(start, end)]
    fires = sorted({one.tick_at for one in every if not one.missing})
    found = list(trigger.occurrences(start, end))
    assert [one.tick_at for one in found if not one.missing] == fires
    assert trigger.count_between(start, end) == len(fires)
    assert {one.key for one in found} <= {one.key for one in every}
    assert len({one.key for one in found}) == len(found)
    skipped = [one.slot for one in found if one.missing]
    assert skipped == [one.slot for one in trigger.skipped(start, end)]
    assert set(skipped) == {one.slot for one in every if one.missing}
    assert all(earlier < later for earlier, later in pairwise(fires))


@settings(deadline=None, max_examples=120)
@given(schedules())
def test_next_and_last_walk_the_same_sequence(given_: tuple[ScheduleDefinition, datetime]) -> None:
    schedule, start = given_
    end = start + timedelta(days=3)
    trigger = merged(schedule)
    fires = [one for one in trigger.occurrences(start, end) if not one.missing]
    walked: list[Occurrence] = []
    tick = trigger.next_after(start - INSTANT)
    while tick and tick.tick_at < end:
        assert not walked or tick.tick_at > walked[-1].tick_at
        walked.append(tick)
        tick = trigger.next_after(tick.tick_at)
    assert walked == fires
    back, tick = [], trigger.last_before(end)
    while tick and tick.tick_at >= start:
        back.append(tick)
        tick = trigger.last_before(tick.tick_at)
    assert back[::-1] == fires
    for earlier, later in pairwise(fires):
        assert trigger.period(later.tick_at) == (earlier.tick_at, later.tick_at)


@settings(deadline=None, max_examples=80)
@given(schedules(), st.integers(1, 24 * 40))
def test_the_proof_counts_the_same_by_another_way(given_: tuple[ScheduleDefinition, datetime], hours: int) -> None:
    schedule, start = given_
    end = start + timedelta(hours=hours)
    trigger = merged(schedule)
    reign = reign_of(schedule, after_us=0, until_us=to_us(end))
    assert reign is not None
    assert reign.count(to_us(start), to_us(end)) == trigger.count_between(start, end)
    ours = [one.tick_at for one in trigger.occurrences(start, end) if not one.missing][:20]
    assert [from_us(at) for at in reign.first(to_us(start), to_us(end), 20)] == ours
    gaps = {at: slots for at, (slots, _, _) in reign.gaps(to_us(start), to_us(end)).items()}
    assert sum(gaps.values()) == trigger.count_skipped(start, end)


def test_a_tick_that_two_triggers_ask_for_has_the_slot_of_the_expression() -> None:
    schedule = ScheduleDefinition("s", "a", cron="0 9 * * *", at="2026-06-01T07:00:00Z", timezone="Europe/Berlin")
    trigger = merged(schedule)
    found = trigger.next_after(datetime(2026, 6, 1, 6, tzinfo=UTC))
    assert found is not None
    assert found.key == "Europe/Berlin|2026-06-01T09:00:00|0"
    assert not trigger.is_instant(found)


def test_slots_that_a_gap_has_shifted_to_one_instant_are_one_tick_named_after_the_first() -> None:
    schedule = ScheduleDefinition(
        "s", "a", cron=("45 2 * * *", "15 2 * * *"), timezone="Europe/Berlin", dst_gap="shift"
    )
    found = merged(schedule).next_after(datetime(2026, 3, 28, 20, tzinfo=UTC))
    assert found is not None
    assert found.key == "Europe/Berlin|2026-03-29T02:15:00|0"
    regular = ScheduleDefinition("s", "a", cron=("0 3 * * *", "15 2 * * *"), timezone="Europe/Berlin", dst_gap="shift")
    found = merged(regular).next_after(datetime(2026, 3, 28, 20, tzinfo=UTC))
    assert found is not None
    assert found.key == "Europe/Berlin|2026-03-29T03:00:00|0"


def test_a_year_of_every_second_is_counted_at_once() -> None:
    schedule = ScheduleDefinition("s", "a", cron=("* * * * * *", "0 * * * *"), timezone="Europe/Berlin")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert merged(schedule).count_between(start, datetime(2027, 1, 1, tzinfo=UTC)) == 365 * 86_400


def bounded(**triggers: str | tuple[str, ...]) -> ScheduleDefinition:
    schedule = ScheduleDefinition("s", "a", timezone="UTC", start="2026-01-10T00:00:00Z", end="2026-01-12T00:00:00Z")
    return replace(schedule, **triggers)  # type: ignore[arg-type]


def test_bounds_hold_for_the_expressions_and_an_instant_outside_is_refused() -> None:
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert merged(bounded(cron=("0 1 * * *", "0 2 * * *"))).count_between(*year) == 4
    with pytest.raises(Invalid, match="outside start and end"):
        trigger_of(bounded(cron="0 1 * * *", at="2026-01-13T00:00:00Z"))


def test_every_has_no_company() -> None:
    with pytest.raises(Invalid, match="second schedule with the same agent"):
        trigger_of(ScheduleDefinition("s", "a", cron="0 1 * * *", every="1h", timezone="UTC"))


@given(schedules())
def test_a_definition_with_several_triggers_is_read_back_as_it_was(given_: tuple[ScheduleDefinition, datetime]) -> None:
    schedule = ScheduleDefinition("s", "a", cron=given_[0].cron or "0 1 * * *", at=given_[0].at or "", timezone="UTC")
    assert schedule_from_json(to_json(schedule)) == schedule
