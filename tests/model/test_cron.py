"""Cron expressions over naive local time: the grammar, the Vixie rule, and a search that ends."""

import time
from calendar import monthrange
from datetime import datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fencepost.model.cron import MACROS, Cron, parse_cron
from fencepost.model.errors import Invalid
from fencepost.model.instants import from_wall, to_wall

START = datetime(2026, 1, 1)


def ticks(expression: str, count: int, start: datetime = START) -> list[datetime]:
    cron, wall = parse_cron(expression), from_wall(start)
    found: list[datetime] = []
    while len(found) < count:
        slot = cron.next_slot(wall)
        assert slot is not None
        found.append(to_wall(slot))
        wall = slot + 1
    return found


def same(left: str, right: str) -> bool:
    return ticks(left, 500) == ticks(right, 500)


def days(expression: str, year: int, month: int) -> list[int]:
    start = datetime(year, month, 1)
    slots = parse_cron(expression).slots(
        from_wall(start), from_wall(start + timedelta(days=monthrange(year, month)[1]))
    )
    return sorted({to_wall(slot).day for slot in slots})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["2026-01-01 02:30:00", "2026-01-02 02:30:00"]),
        ("15 30 2 * * *", ["2026-01-01 02:30:15", "2026-01-02 02:30:15"]),
        ("0 9 * * MON-FRI", ["2026-01-01 09:00:00", "2026-01-02 09:00:00", "2026-01-05 09:00:00"]),
        ("*/20 * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:20:00", "2026-01-01 00:40:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 0 L * *", ["2026-01-31 00:00:00", "2026-02-28 00:00:00"]),
        ("0 0 * * 5#3", ["2026-01-16 00:00:00", "2026-02-20 00:00:00"]),
        ("* * * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]),
    ],
)
def test_an_expression_fires_when_it_says(expression: str, expected: list[str]) -> None:
    assert [str(tick) for tick in ticks(expression, len(expected))] == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("5/20 * * * *", "5-59/20 * * * *"),
        ("0 0 * * 5/2", "0 0 * * 5,7"),
        ("0 0 * * MON/2", "0 0 * * 1,3,5,7"),
        ("*/90 * * * *", "0 * * * *"),
        ("10/999999999999999999999999 * * * *", "10 * * * *"),
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * FRI-SUN", "0 0 * * 5,6,0"),
        ("0 0 * * SAT-SUN", "0 0 * * 6-7"),
        ("0 0 * * SUN-TUE", "0 0 * * 0-2"),
        ("0 0 * * SUN-SUN", "0 0 * * 0"),
        ("0 0 * * 5-SUN", "0 0 * * 5-7"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 1 jan,Jul *", "0 0 1 1,7 *"),
        ("0 0 * * mon", "0 0 * * 1"),
        ("0 0 * * fri#2", "0 0 * * 5#2"),
        ("0 0 l * *", "0 0 L * *"),
        ("00 007 * * *", "0 7 * * *"),
        ("  0 \t 7 * * * ", "0 7 * * *"),
        ("0 7 * * *\n", "0 7 * * *"),
        ("@Daily", "0 0 * * *"),
        ("@WEEKLY", "0 0 * * 0"),
        ("@annually", "@yearly"),
        ("@midnight", "@daily"),
        ("@hourly", "0 * * * *"),
        ("@monthly", "0 0 1 * *"),
        ("5-5/2 * * * *", "5 * * * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 * * 7L", "0 0 * * 0L"),
        ("0 0 * * 7#1", "0 0 * * 0#1"),
    ],
)
def test_two_spellings_mean_the_same(left: str, right: str) -> None:
    assert same(left, right)


@pytest.mark.parametrize(
    ("expression", "february_2026"),
    [
        ("0 0 1 * MON", [1, 2, 9, 16, 23]),  # neither is a star: either will do
        ("0 0 */2 * MON", [9, 23]),  # */2 starts with a star: both must match
        ("0 0 *,5 * MON", [2, 9, 16, 23]),
        ("0 0 5,* * MON", list(range(1, 29))),
        ("0 0 1-31 * MON", list(range(1, 29))),
        ("0 0 13 * */2", []),  # a Friday, which 0,2,4,6 is not
        ("0 0 14 * */2", [14]),
        ("0 0 31 2 MON", [2, 9, 16, 23]),  # no such day of month, but the weekday still fires
        ("0 0 L * MON#1", [2, 28]),
    ],
)
def test_day_of_month_and_day_of_week_follow_the_vixie_rule(expression: str, february_2026: list[int]) -> None:
    assert days(expression, 2026, 2) == february_2026


def nearest_workday(year: int, month: int, day: int) -> list[int]:
    length = monthrange(year, month)[1]
    if day > length:
        return []
    for distance in (0, 1, 2):
        for near in (day - distance, day + distance):
            if 1 <= near <= length and datetime(year, month, near).weekday() < 5:
                return [near]
    raise AssertionError


def test_nearest_weekday_stays_in_its_month_and_needs_its_day() -> None:
    for year in range(2023, 2031):
        for month in range(1, 13):
            for day in (1, 2, 15, 28, 29, 30, 31):
                assert days(f"0 0 {day}W * *", year, month) == nearest_workday(year, month, day), (year, month, day)


def test_last_weekday_of_the_month_agrees_with_the_calendar() -> None:
    for year in range(2023, 2031):
        for month in range(1, 13):
            length = monthrange(year, month)[1]
            last = max(day for day in range(1, length + 1) if datetime(year, month, day).weekday() < 5)
            assert days("0 0 LW * *", year, month) == [last]


def test_letters_may_be_items_of_a_list() -> None:
    assert days("0 0 1,15W,L * *", 2026, 2) == [1, 16, 28]
    assert days("0 0 * * 1#1,5L,3", 2026, 2) == [2, 4, 11, 18, 25, 27]


def test_leap_days_are_found_across_a_century_without_one() -> None:
    assert ticks("0 0 29 2 *", 2, datetime(2096, 3, 1)) == [datetime(2104, 2, 29), datetime(2108, 2, 29)]


def test_a_fifth_weekday_in_february_is_found_decades_later() -> None:
    assert ticks("0 0 * 2 1#5", 3) == [datetime(2044, 2, 29), datetime(2072, 2, 29), datetime(2112, 2, 29)]


@pytest.mark.parametrize(
    "expression",
    ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31W 2 *", "0 0 */30 2 1#5", "0 0 30 2 */7", "0 0 0 30 2 *"],
)
def test_what_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(Invalid, match="never fires"):
        parse_cron(expression)


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("60 * * * *", ["'minute'", "'60'", "outside 0-59", "did you mean 0?"]),
        ("* 24 * * *", ["'hour'", "'24'", "outside 0-23", "did you mean 0?"]),
        ("* * 0 * *", ["'day of month'", "'0'", "outside 1-31", "did you mean 1?"]),
        ("* * 32 * *", ["'day of month'", "did you mean 31?"]),
        ("* * * 13 *", ["'month'", "JAN-DEC", "did you mean 12?"]),
        ("* * * * 8", ["'day of week'", "outside 0-7"]),
        ("61 * * * * *", ["'second'", "'61'"]),
        ("0 22-2 * * *", ["'hour'", "'22-2'", "backwards", "'22-23,0-2'"]),
        ("0 0 * NOV-FEB *", ["backwards", "'NOV-DEC,JAN-FEB'"]),
        ("0 0 * * FRI-MON", ["backwards", "'FRI-SAT,SUN-MON'"]),
        ("0 0 * * 5-0", ["backwards", "'5-7'"]),
        ("0 0 * * 7-1", ["backwards", "'0-1'"]),
        ("0 0 ? * 1", ["'?'", "write '*'"]),
        ("0 0 * * ?", ["'day of week'", "write '*'"]),
        ("TZ=UTC 0 0 * * *", ["TZ=", "set timezone"]),
        ("CRON_TZ=UTC 0 0 * * *", ["CRON_TZ=", "set timezone"]),
        ("0 0 L-3 * *", ["'L-3'", "write L"]),
        ("0 0 * * MONL", ["'MONL'", "did you mean 1L?"]),
        ("0 0 * * L", ["needs its day of week", "5L"]),
        ("0 0 WL * *", ["did you mean LW?"]),
        ("0 0 L/2 * *", ["'L/2'", "stand alone"]),
        ("0 0 1-15W * *", ["'1-15W'", "stand alone"]),
        ("0 0 * * 1-5L", ["stand alone"]),
        ("0 0 * * 1#2/2", ["1-5"]),
        ("0 0 * * 1#0", ["1-5", "1#2"]),
        ("0 0 * * 1#6", ["1-5"]),
        ("@reboot", ["'@reboot'", "no tick"]),
        ("@every 5m", ["every trigger", '"5m"']),
        ("@dayly", ["did you mean @daily?"]),
        ("@", ["@hourly"]),
        ("*/0 * * * *", ["'*/0'", "step of 0"]),
        ("*/x * * * *", ["no number"]),
        ("* * * * MONDAY", ["did you mean MON?"]),
        ("* * * MON *", ["MON is a day of week"]),
        ("1,,2 * * * *", ["'1,,2'", "comma"]),
        ("1, * * * *", ["comma"]),
        ("-1 * * * *", ["'-1'", "missing"]),
        ("+1 * * * *", ["'+1'"]),
        ("1_0 * * * *", ["'1_0'"]),
        ("*5 * * * *", ["stands alone"]),
        ("H * * * *", ["Jenkins", "jitter"]),
        ("* * * *", ["4 fields", "five"]),
        ("* * * * * * *", ["7 fields", "six"]),
        ("", ["0 fields"]),
        ("\u0663 * * * *", ["ASCII"]),
        ("\uff11 * * * *", ["ASCII"]),
        ("0\u00a00 * * *", ["ASCII"]),
        ("0 0\x0b* * *", ["ASCII"]),
        ("0 0 * *\n*", ["ASCII"]),
        ("0 0 * * *" + " " * 5000, ["characters"]),
    ],
)
def test_a_refusal_names_the_field_the_text_the_reason_and_a_remedy(expression: str, parts: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        parse_cron(expression)
    message = str(refused.value)
    assert all(part in message for part in parts), message
    assert refused.value.exit_code == 2
    assert len(message) < 300


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="0123456789*/-,LW#?@ \tJANMONSUN", max_size=40) | st.text(max_size=80))
@example("9" * 5000)
@example("*/" + "9" * 2000 + " * * * *")
def test_any_text_is_an_expression_or_a_refusal_and_quickly(text: str) -> None:
    began = time.process_time()
    try:
        cron = parse_cron(text)
        slot = cron.next_slot(from_wall(START))
        assert slot is not None
    except Invalid:
        pass
    assert time.process_time() - began < 0.5


def item(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    pair = st.tuples(value, value).filter(lambda both: both[0] < both[1]).map(lambda both: f"{both[0]}-{both[1]}")
    step = st.integers(1, high + 3).map(lambda step: f"/{step}")
    choices = [st.just("*"), value.map(str), pair, st.builds(str.__add__, pair | st.just("*") | value.map(str), step)]
    return st.one_of(*choices, st.sampled_from(names)) if names else st.one_of(*choices)


def field(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    return st.lists(item(low, high, names), min_size=1, max_size=3).map(",".join)


month_days = field(1, 31, ("L", "LW", "L"))
weekdays = field(0, 7, ("MON", "FRI", "MON-FRI", "1#1", "5#5", "0#2", "5L", "0L"))
five_fields = st.tuples(field(0, 59), field(0, 23), month_days, field(1, 12, ("JAN", "FEB-APR")), weekdays).map(
    " ".join
)
expressions = five_fields | st.builds("{} {}".format, field(0, 59), five_fields)


def cronsim_ticks(expression: str, start: datetime, count: int) -> list[datetime] | None:
    try:
        return list(islice(CronSim(expression, start), count))
    except CronSimError:
        return None


@settings(max_examples=300, deadline=None)
@given(expressions, st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)))
def test_naive_ticks_agree_with_cronsim(expression: str, start: datetime) -> None:
    """cronsim knows no nW and no range that ends in SUN, and reads 5-5/2 as 5/2; those have tests of their own."""
    start = start.replace(microsecond=0)
    theirs = cronsim_ticks(expression, start, 5)
    assume(theirs)
    assert theirs == ticks(expression, len(theirs or []), start + timedelta(seconds=1))


@settings(max_examples=200, deadline=None)
@given(expressions, st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)), st.integers(0, 400_000))
def test_counting_looking_back_and_listing_agree(expression: str, start: datetime, width: int) -> None:
    cron = parsed(expression)
    low = from_wall(start)
    high = low + width
    listed = list(cron.slots(low, high))
    assert listed == sorted(set(listed))
    assert all(low <= slot < high for slot in listed)
    assert cron.count(low, high) == len(listed)
    first, last = cron.next_slot(low), cron.last_slot(high)
    assert first is not None
    assert last is not None
    if listed:
        assert (first, last) == (listed[0], listed[-1])
    else:
        assert first >= high
        assert last < low


def parsed(expression: str) -> Cron:
    try:
        return parse_cron(expression)
    except Invalid as refused:
        assert "never fires" in str(refused)  # noqa: PT017  # the only reason these may be refused
        assume(False)
        raise


def test_the_search_ends_at_the_edges_of_the_calendar() -> None:
    cron = parse_cron("0 0 29 2 *")
    assert cron.next_slot(from_wall(datetime(9996, 3, 1))) is None
    assert cron.last_slot(from_wall(datetime(4, 2, 29))) is None
    assert list(cron.slots(-(1 << 40), from_wall(datetime(9, 1, 1)))) == [
        from_wall(datetime(4, 2, 29)),
        from_wall(datetime(8, 2, 29)),
    ]
    assert parse_cron("* * * * *").next_slot(1 << 40) is None


def test_every_macro_is_an_expression() -> None:
    for macro, meaning in MACROS.items():
        assert same(macro, meaning)
