"""Triggers: what becomes of slots that do not exist or exist twice, and every, at, bounds, jitter."""

import time
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant, parse_instant
from fencepost.model.occurrence import Occurrence, every_key, idempotency_key
from fencepost.model.trigger import (
    Align,
    Bounds,
    CronTrigger,
    EndedRun,
    EveryTrigger,
    at_trigger,
    cron_trigger,
    jitter_offset,
)
from tests.model.brute_force import MINUTE, Walk, distinct_zones, jumps, offset_at, zoneinfo_of

GAPS = ("skip", "shift")
FOLDS = ("first", "last", "both")
DAY = timedelta(days=1)


def instant(text: str) -> datetime:
    return parse_instant(text)


def fired(trigger: CronTrigger, start: str, end: str) -> list[str]:
    return [format_instant(at) for at in trigger.instants(instant(start), instant(end))]


def skipped(trigger: CronTrigger, start: str, end: str) -> list[str]:
    return [each.slot.isoformat() for each in trigger.skipped(instant(start), instant(end))]


def berlin(expression: str, **policies: str) -> CronTrigger:
    return cron_trigger(expression, "Europe/Berlin", **policies)  # type: ignore[arg-type]


# The walk over every minute


def questions(walk: Walk, jump: datetime, zone: str) -> list[tuple[str, set[datetime]]]:
    """Expressions that look closely at one jump, and the slots they mean."""
    before = (jump - MINUTE).astimezone(zoneinfo_of(zone)).replace(tzinfo=None) + MINUTE
    after = jump.astimezone(zoneinfo_of(zone)).replace(tzinfo=None)
    middle = min(before, after) + abs(after - before) // 2
    asked = [
        ("* * * * *", walk.walls),
        ("*/7 */2 * * *", {wall for wall in walk.walls if wall.minute % 7 == 0 and wall.hour % 2 == 0}),
        ("0,59 0-12 * * *", {wall for wall in walk.walls if wall.minute in (0, 59) and wall.hour <= 12}),
    ]
    for wall in {before, after, middle, middle - MINUTE, max(before, after) - MINUTE}:
        daily = {each for each in walk.walls if (each.hour, each.minute) == (wall.hour, wall.minute)}
        dated = {each for each in daily if (each.day, each.month) == (wall.day, wall.month)}
        asked.append((f"{wall.minute} {wall.hour} * * *", daily))
        asked.append((f"{wall.minute} {wall.hour} {wall.day} {wall.month} *", dated))
    return asked


def check_jump(zone: str, jump: datetime, policies: list[tuple[str, str]]) -> None:
    walk = Walk.around(zoneinfo_of(zone), jump)
    for (expression, slots), (gap, fold) in product(questions(walk, jump, zone), policies):
        trigger = cron_trigger(expression, zone, dst_gap=gap, dst_fold=fold)
        expected = walk.fired(slots, gap, fold)
        where = (zone, jump, expression, gap, fold)
        assert expected == list(trigger.instants(walk.start, walk.end)), where
        assert walk.skipped(slots, gap) == [each.slot for each in trigger.skipped(walk.start, walk.end)], where
        assert len(expected) == trigger.count_between(walk.start, walk.end), where
        for cut in (jump - 20 * MINUTE, jump - MINUTE, jump, jump + 20 * MINUTE):
            check_from(trigger, cut, walk.end, [at for at in expected if at >= cut])
        last = trigger.last_before(walk.end)
        following = trigger.next_after(walk.start - MINUTE)
        assert not expected or (following and following.tick_at == expected[0]), where
        assert not expected or (last and last.tick_at == expected[-1]), where


def check_from(trigger: CronTrigger, cut: datetime, end: datetime, expected: list[datetime]) -> None:
    """Ask from the middle of a fold or a gap: the answer must not depend on what came before."""
    where = (trigger, cut)
    assert expected == list(trigger.instants(cut, end)), where
    following = trigger.next_after(cut - timedelta(seconds=1))
    assert not expected or (following and following.tick_at == expected[0]), where


def kinds_of_jump(zone: str) -> list[datetime]:
    """The first jump of each kind since 1990: its two offsets and the time on the wall."""
    info = zoneinfo_of(zone)
    kinds = {(offset_at(info, at - MINUTE), at.astimezone(info).timetz()): at for at in jumps(info, 1990, 2037)}
    return sorted(kinds.values())


EVERY_POLICY = list(product(GAPS, FOLDS))


@pytest.mark.parametrize("part", range(4))
def test_every_kind_of_jump_in_every_zone_agrees_with_a_walk_over_every_minute(part: int) -> None:
    for zone in distinct_zones()[part::4]:
        for jump in kinds_of_jump(zone):
            check_jump(zone, jump, EVERY_POLICY)


def test_a_sample_of_all_jumps_agrees_with_the_walk_too() -> None:
    all_jumps = [(zone, jump) for zone in distinct_zones() for jump in jumps(zoneinfo_of(zone), 1990, 2037)]
    for number, (zone, jump) in enumerate(all_jumps[::40]):
        check_jump(zone, jump, [EVERY_POLICY[number % len(EVERY_POLICY)]])


@pytest.mark.parametrize(
    "zone",
    [
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Antarctica/Troll",
        "Africa/Casablanca",
        "Europe/Dublin",
        "America/St_Johns",
        "America/Sao_Paulo",
        "America/Havana",
        "Asia/Beirut",
        "Asia/Gaza",
        "America/Nuuk",
        "Pacific/Chatham",
    ],
)
def test_the_odd_zones_agree_with_the_walk_under_every_policy(zone: str) -> None:
    for jump in kinds_of_jump(zone):
        check_jump(zone, jump, EVERY_POLICY)


# Gaps


def test_a_missing_slot_is_skipped_and_reported_where_its_gap_ends() -> None:
    trigger = cron_trigger("30 2 * * *", "America/New_York")
    assert fired(trigger, "2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z") == [
        "2026-03-07T07:30:00Z",
        "2026-03-09T06:30:00Z",
    ]
    assert skipped(trigger, "2026-03-08T07:00:00Z", "2026-03-08T07:00:01Z") == ["2026-03-08T02:30:00"]
    assert skipped(trigger, "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z") == []
    assert skipped(trigger, "2026-03-08T07:00:01Z", "2026-03-08T09:00:00Z") == []


def test_under_skip_every_missing_wall_time_is_listed_and_under_shift_none() -> None:
    window = ("2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z")
    listed = [f"2026-03-29T02:{minute:02}:00" for minute in (0, 15, 30, 45)]
    assert skipped(berlin("*/15 * * * *"), *window) == listed
    assert skipped(berlin("*/15 * * * *", dst_gap="shift"), *window) == []


def test_shift_fires_once_at_the_end_of_the_gap_and_not_its_width_later() -> None:
    trigger = berlin("0,30 2 * * *", dst_gap="shift")
    assert fired(trigger, "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z") == ["2026-03-29T01:00:00Z"]


def test_a_shifted_slot_joins_a_regular_tick_at_the_same_instant() -> None:
    trigger = berlin("30 2,3 * * *", dst_gap="shift")
    assert fired(trigger, "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z") == [
        "2026-03-29T01:00:00Z",
        "2026-03-29T01:30:00Z",
    ]
    joined = list(
        berlin("*/30 2,3 * * *", dst_gap="shift").occurrences(
            instant("2026-03-29T00:00:00Z"), instant("2026-03-29T12:00:00Z")
        )
    )
    assert [each.key for each in joined] == [
        "Europe/Berlin|2026-03-29T03:00:00|0",
        "Europe/Berlin|2026-03-29T03:30:00|0",
    ]


def test_a_shifted_tick_keeps_the_missing_slot_as_its_identity() -> None:
    (tick,) = berlin("30 2 * * *", dst_gap="shift").occurrences(
        instant("2026-03-29T00:00:00Z"), instant("2026-03-30T00:00:00Z")
    )
    assert tick.key == "Europe/Berlin|2026-03-29T02:30:00|0"
    assert format_instant(tick.tick_at) == "2026-03-29T01:00:00Z"


def test_a_whole_missing_day_is_skipped_in_apia() -> None:
    trigger = cron_trigger("0 */6 * * *", "Pacific/Apia")
    assert skipped(trigger, "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z") == [
        f"2011-12-30T{hour:02}:00:00" for hour in (0, 6, 12, 18)
    ]


def test_a_tick_after_a_gap_at_midnight_is_not_lost() -> None:
    trigger = cron_trigger("30 0,1 * * *", "America/Sao_Paulo")
    assert fired(trigger, "2018-11-04T00:00:00Z", "2018-11-04T12:00:00Z") == ["2018-11-04T03:30:00Z"]
    assert skipped(trigger, "2018-11-04T00:00:00Z", "2018-11-04T12:00:00Z") == ["2018-11-04T00:30:00"]


def test_a_slot_that_is_always_missing_never_fires_and_the_search_ends() -> None:
    trigger = berlin("30 2 * 3 0L")
    began = time.process_time()
    assert trigger.next_after(instant("2026-01-01T00:00:00Z")) is None
    assert time.process_time() - began < 1
    assert trigger.next_after(instant("1900-01-01T00:00:00Z")) is not None


# Folds


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("auto", ["2026-10-25T00:30:00Z"]),
        ("first", ["2026-10-25T00:30:00Z"]),
        ("last", ["2026-10-25T01:30:00Z"]),
        ("both", ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
    ],
)
def test_a_repeated_slot_counts_as_the_policy_says(fold: str, expected: list[str]) -> None:
    assert fired(berlin("30 2 * * *", dst_fold=fold), "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z") == expected


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("0 * * * *", 25),
        ("0 */2 * * *", 13),
        ("0 *,5 * * *", 25),
        ("0 0-23 * * *", 24),
        ("0 5,* * * *", 24),
        ("@hourly", 25),
    ],
)
def test_auto_counts_both_only_if_the_hour_field_starts_with_a_star(expression: str, count: int) -> None:
    day = instant("2026-10-24T22:00:00Z"), instant("2026-10-25T23:00:00Z")
    assert berlin(expression).count_between(*day) == count


def test_first_is_stateless_and_does_not_yield_the_second_when_asked_in_between() -> None:
    between = instant("2026-10-25T01:10:00Z")
    following = berlin("30 2 * * *").next_after(between)
    assert following is not None
    assert format_instant(following.tick_at) == "2026-10-26T01:30:00Z"


def test_the_second_of_two_is_found_when_asked_after_the_first() -> None:
    for fold in ("last", "both"):
        following = berlin("30 2 * * *", dst_fold=fold).next_after(instant("2026-10-25T00:40:00Z"))
        assert following is not None
        assert format_instant(following.tick_at) == "2026-10-25T01:30:00Z"


def test_a_fold_may_re_enter_the_previous_date() -> None:
    """Havana goes from 01:00 back to 00:00; Sao Paulo went from midnight back to 23:00 of the day before."""
    trigger = cron_trigger("30 23 * * *", "America/Sao_Paulo", dst_fold="both")
    assert fired(trigger, "2018-02-17T12:00:00Z", "2018-02-18T12:00:00Z") == [
        "2018-02-18T01:30:00Z",
        "2018-02-18T02:30:00Z",
    ]


def test_the_two_ticks_of_a_fold_are_two_occurrences() -> None:
    pair = list(berlin("30 * * * *").occurrences(instant("2026-10-25T00:00:00Z"), instant("2026-10-25T02:00:00Z")))
    assert [each.key for each in pair] == ["Europe/Berlin|2026-10-25T02:30:00|0", "Europe/Berlin|2026-10-25T02:30:00|1"]
    assert [each.twice for each in pair] == [True, True]
    assert pair[0] != pair[1]


def test_the_fold_one_minute_after_midnight_in_st_johns_neither_loops_nor_loses() -> None:
    trigger = cron_trigger("*/30 * * * *", "America/St_Johns")
    assert trigger.count_between(instant("2006-10-28T02:30:00Z"), instant("2006-10-30T03:30:00Z")) == 2 * 49


# Asking


zones = st.sampled_from(
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "UTC"]
)
asked_expressions = st.sampled_from(
    [
        "* * * * *",
        "*/15 * * * *",
        "30 2 * * *",
        "0 0 * * *",
        "0 0 1 * *",
        "0 2 29 2 *",
        "15 1-3 * * SUN",
        "7 30 2 * * *",
        "0 0 L * *",
    ]
)
triggers = st.builds(
    lambda expression, zone, gap, fold: cron_trigger(expression, zone, dst_gap=gap, dst_fold=fold),
    asked_expressions,
    zones,
    st.sampled_from(GAPS),
    st.sampled_from(["auto", *FOLDS]),
)
instants = st.datetimes(datetime(1995, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
widths = st.timedeltas(timedelta(0), timedelta(days=400))
march_and_october = st.builds(
    lambda year, month, hours: datetime(year, month, 20, tzinfo=UTC) + timedelta(hours=hours),
    st.integers(1995, 2060),
    st.sampled_from([3, 9, 10]),
    st.integers(0, 400),
)
near_jumps = march_and_october | instants
short_widths = st.timedeltas(timedelta(0), timedelta(days=12))


@settings(deadline=None)
@given(triggers, instants)
def test_the_next_tick_is_always_later_and_the_last_always_earlier(trigger: CronTrigger, at: datetime) -> None:
    following, last = trigger.next_after(at), trigger.last_before(at)
    assert following is not None
    assert last is not None
    assert last.tick_at < at < following.tick_at
    again = trigger.next_after(last.tick_at)
    assert again is not None
    assert again.tick_at in (at, following.tick_at)
    assert trigger.count_between(last.tick_at, following.tick_at) == 1 + (again.tick_at == at)


@settings(max_examples=150, deadline=None)
@given(triggers, near_jumps, short_widths)
def test_counting_agrees_with_listing_whatever_the_policies(
    trigger: CronTrigger, start: datetime, width: timedelta
) -> None:
    end = start + width
    listed = list(trigger.instants(start, end))
    assert listed == sorted(set(listed))
    assert len(listed) == trigger.count_between(start, end)
    occurrences = list(trigger.occurrences(start, end))
    assert [each.tick_at for each in occurrences if not each.missing] == listed
    assert [each for each in occurrences if each.missing] == list(trigger.skipped(start, end))
    assert len(occurrences) - len(listed) == trigger.count_skipped(start, end)
    assert len({each.key for each in occurrences}) == len(occurrences)


@settings(max_examples=60, deadline=None)
@given(triggers, instants, widths, widths)
def test_neighbouring_windows_neither_miss_nor_repeat(
    trigger: CronTrigger, start: datetime, first: timedelta, second: timedelta
) -> None:
    middle, end = start + first, start + first + second
    assert trigger.count_between(start, end) == trigger.count_between(start, middle) + trigger.count_between(
        middle, end
    )
    assert trigger.count_skipped(start, end) == trigger.count_skipped(start, middle) + trigger.count_skipped(
        middle, end
    )


def test_a_year_of_every_second_is_counted_in_milliseconds() -> None:
    trigger = berlin("* * * * * *")
    start, end = instant("2026-01-01T00:00:00Z"), instant("2027-01-01T00:00:00Z")
    began = time.process_time()
    assert trigger.count_between(start, end) == 365 * 86_400
    last = trigger.last_before(end)
    assert time.process_time() - began < 0.05
    assert last is not None
    assert end - last.tick_at == timedelta(seconds=1)


def test_a_tick_covers_the_time_since_the_scheduled_instant_before_it() -> None:
    trigger = cron_trigger("0 2 1 * *", "America/New_York", bounds=Bounds(start_at=instant("2026-03-01T00:00:00Z")))
    assert trigger.period(instant("2026-03-01T07:00:00Z")) == (
        instant("2026-02-01T07:00:00Z"),
        instant("2026-03-01T07:00:00Z"),
    )


def test_fractions_of_a_second_round_to_the_next_tick_never_to_the_last() -> None:
    trigger = berlin("* * * * * *")
    half_past = instant("2026-01-01T00:00:00.5Z")
    following, last = trigger.next_after(half_past), trigger.last_before(half_past)
    assert following is not None
    assert last is not None
    assert (following.tick_at.second, last.tick_at.second) == (1, 0)
    assert fired(trigger, "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:02.5Z") == [
        "2026-01-01T00:00:01Z",
        "2026-01-01T00:00:02Z",
    ]


def test_bounds_are_half_open() -> None:
    bounds = Bounds(instant("2026-01-02T00:00:00Z"), instant("2026-01-04T00:00:00Z"))
    trigger = cron_trigger("@daily", "UTC", bounds=bounds)
    wide = instant("2025-01-01T00:00:00Z"), instant("2027-01-01T00:00:00Z")
    assert [at.day for at in trigger.instants(*wide)] == [2, 3]
    assert trigger.count_between(*wide) == 2
    following, last = trigger.next_after(wide[0]), trigger.last_before(wide[1])
    assert following is not None
    assert last is not None
    assert (following.tick_at.day, last.tick_at.day) == (2, 3)
    assert trigger.next_after(last.tick_at) is None
    assert trigger.last_before(following.tick_at) is None


def test_bounds_that_end_before_they_start_are_refused() -> None:
    with pytest.raises(Invalid, match="swap them"):
        Bounds(instant("2026-01-02T00:00:00Z"), instant("2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("gap", "fold", "hint"), [("skipp", "auto", "Did you mean skip?"), ("skip", "frist", "Did you mean first?")]
)
def test_an_unknown_policy_is_refused_with_a_suggestion(gap: str, fold: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        berlin("@daily", dst_gap=gap, dst_fold=fold)
    assert hint in str(refused.value)


# every, at, jitter, identity


def test_every_is_due_after_the_end_of_its_predecessor_however_that_went() -> None:
    trigger = EveryTrigger(timedelta(minutes=15))
    applied_at = instant("2026-01-01T00:00:00Z")
    assert trigger.due(None, applied_at=applied_at) == ("every:anchor", applied_at)
    ended = EndedRun("r7", instant("2026-01-01T03:00:00Z"))
    assert trigger.due(ended, applied_at=applied_at) == ("every:r7", instant("2026-01-01T03:15:00Z"))


def test_every_starts_at_its_anchor_and_stops_at_its_end() -> None:
    anchor, end = instant("2026-02-01T00:00:00Z"), instant("2026-02-01T01:00:00Z")
    trigger = EveryTrigger(timedelta(hours=1), anchor, Bounds(end_at=end))
    assert trigger.due(None, applied_at=anchor - DAY) == (every_key(None), anchor)
    assert trigger.due(EndedRun("r1", anchor), applied_at=anchor) is None


def test_every_zero_is_refused_because_it_would_spin() -> None:
    with pytest.raises(Invalid, match="above zero"):
        EveryTrigger(timedelta(0))


def test_at_takes_an_instant_once() -> None:
    trigger = at_trigger("2026-12-01T09:00:00+01:00")
    (only,) = trigger.occurrences(instant("2026-01-01T00:00:00Z"), instant("2027-01-01T00:00:00Z"))
    assert only.key == "UTC|2026-12-01T08:00:00|0"
    assert trigger.next_after(only.tick_at) is None
    assert trigger.last_before(only.tick_at) is None
    assert trigger.count_between(only.tick_at, only.tick_at + DAY) == 1


def test_at_takes_a_wall_time_with_its_zone() -> None:
    assert format_instant(at_trigger("2026-12-01T09:00", "Europe/Berlin").occurrence.tick_at) == "2026-12-01T08:00:00Z"


def test_at_in_a_gap_is_refused_unless_it_may_shift() -> None:
    with pytest.raises(Invalid, match="does not exist in Europe/Berlin: clocks jump to 2026-03-29T03:00:00"):
        at_trigger("2026-03-29T02:30", "Europe/Berlin")
    shifted = at_trigger("2026-03-29T02:30", "Europe/Berlin", dst_gap="shift").occurrence
    assert format_instant(shifted.tick_at) == "2026-03-29T01:00:00Z"


def test_at_in_a_fold_is_the_first_unless_the_last_is_asked_for() -> None:
    found = [at_trigger("2026-10-25T02:30", "Europe/Berlin", dst_fold=fold).occurrence for fold in ("auto", "last")]
    assert [(each.fold, each.tick_at.hour) for each in found] == [(0, 0), (1, 1)]


def test_at_without_an_offset_or_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="no offset"):
        at_trigger("2026-12-01T09:00:00")


def test_jitter_is_stable_per_schedule_and_below_its_bound() -> None:
    offsets = [jitter_offset(timedelta(minutes=5), tenant="t", schedule=f"s{number}") for number in range(200)]
    assert offsets == [jitter_offset(timedelta(minutes=5), tenant="t", schedule=f"s{number}") for number in range(200)]
    assert all(timedelta(0) <= offset < timedelta(minutes=5) for offset in offsets)
    assert len(set(offsets)) > 190
    assert max(offsets) - min(offsets) > timedelta(minutes=4)
    assert jitter_offset(timedelta(0), tenant="t", schedule="s") == timedelta(0)


def test_an_occurrence_stays_itself_when_tzdata_moves_its_instant() -> None:
    slot = datetime(2026, 10, 25, 2, 30)
    before = Occurrence("Europe/Berlin", slot, 0, instant("2026-10-25T00:30:00Z"))
    after = Occurrence("Europe/Berlin", slot, 0, instant("2026-10-25T01:30:00Z"))
    assert before == after
    assert hash(before) == hash(after)
    assert before.key == after.key == "Europe/Berlin|2026-10-25T02:30:00|0"


def test_the_idempotency_key_is_stable_for_ever() -> None:
    key = idempotency_key("default", "harbor-close-monthly", 3, instant("2026-03-01T07:00:00Z"))
    assert key == "0edfc9b7aec1bf8d66b0e5dfe54a18197dff54c603be34778ecfdd4d5bc07301"
    assert key == idempotency_key("default", "harbor-close-monthly", 3, instant("2026-03-01T02:00:00-05:00"))


def test_no_two_ticks_share_an_idempotency_key() -> None:
    at = instant("2026-03-01T07:00:00Z")
    keys = {
        idempotency_key(tenant, schedule, version, tick_at)
        for tenant, schedule in (("a", "bc"), ("ab", "c"), ('a","b', "c"), ("a", 'b","c'))
        for version in (1, 11)
        for tick_at in (at, at + DAY, at + timedelta(microseconds=1))
    }
    assert len(keys) == 24


@given(
    every=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=400)),
    ended=st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)),
    anchor=st.none() | st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)),
)
def test_an_aligned_every_comes_later_than_the_end_by_at_most_one_step_and_on_its_grid(
    every: timedelta, ended: datetime, anchor: datetime | None
) -> None:
    ended_at = ended.replace(tzinfo=UTC)
    anchor_at = anchor.replace(tzinfo=UTC) if anchor else None
    trigger = EveryTrigger(every, anchor_at, align=Align.START)
    tick = trigger.due(EndedRun("r1", ended_at), applied_at=ended_at)
    assert tick is not None
    assert ended_at < tick.tick_at <= max(ended_at + every, anchor_at or ended_at)
    assert (tick.tick_at - (anchor_at or datetime(1970, 1, 1, tzinfo=UTC))) % every == timedelta(0)
