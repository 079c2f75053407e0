from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.model.budget import (
    FREE,
    BudgetDenied,
    BudgetPolicy,
    Counted,
    MicroUsd,
    Reservation,
    Spend,
    after,
    day_of,
    measured_usd,
    money,
    month_of,
    parse_usd,
    reserve,
    show_usd,
    spend_of,
    used_up,
)
from fencepost.model.decide import Decision, Facts, Policies, decide
from fencepost.model.disposition import DispositionKind
from fencepost.model.errors import Invalid
from fencepost.model.instants import to_us
from fencepost.model.missed import MissedPolicy, MissedRule
from fencepost.model.overlap import LiveStanding, OverlapPolicy, OverlapRule, UnendedRun
from fencepost.model.run import RunId, TriggerKind
from tests.model.tick_sources import HOUR, Regular, at

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "America/St_Johns",
    "Asia/Beirut",
    "Pacific/Apia",
    "America/Havana",
    "UTC",
]
UNSPENT = Spend()
cents = st.integers(0, 10**9).map(MicroUsd)
instants = st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))
around_transitions = st.sampled_from(
    [
        datetime(2010, 11, 7, 2, tzinfo=UTC),  # St John's goes back over midnight
        datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia leaves a whole day out
        datetime(2026, 3, 28, 22, tzinfo=UTC),  # Beirut has no midnight
        datetime(2025, 11, 2, 4, tzinfo=UTC),  # Havana has two
    ]
).flatmap(lambda near: st.integers(-7200, 7200).map(lambda n: near + timedelta(seconds=n)))


def usd(text: str) -> MicroUsd:
    return parse_usd(text)


def reserved(amount: str) -> Reservation:
    return Reservation(usd(amount), at(0))


@pytest.mark.parametrize(
    ("written", "micro"),
    [("2.50", 2_500_000), (2.5, 2_500_000), (0.1, 100_000), (3, 3_000_000), ("0.000001", 1), (0, 0), (1e-05, 10)],
)
def test_amounts_are_kept_exactly_as_they_were_written(written: str | float, micro: int) -> None:
    assert parse_usd(written) == micro


@pytest.mark.parametrize("wrong", ["", "two", "-1", -0.01, "nan", float("inf"), "0.0000001", 2e9, "$5", True])
def test_what_is_no_amount_is_refused_by_name(wrong: str | float) -> None:
    with pytest.raises(Invalid, match="budget_usd"):
        parse_usd(wrong)


@given(cents)
def test_an_amount_reads_back_as_it_is_shown(amount: MicroUsd) -> None:
    assert parse_usd(show_usd(amount)) == amount


def test_amounts_are_shown_with_cents() -> None:
    assert [show_usd(usd(text)) for text in ("2", "2.5", "0.000001", "0.105")] == ["2.00", "2.50", "0.000001", "0.105"]


def test_people_read_cents_and_more_only_where_there_is_less_than_one() -> None:
    said = {"1234.567": "$1,234.57", "8.943905": "$8.94", "0.01": "$0.01", "0.0027": "$0.0027", "0": "$0.00"}
    assert [money(usd(text)) for text in said] == list(said.values())


@pytest.mark.parametrize(
    ("cost", "micro"), [(0.0123456789, 12_346), (0.1, 100_000), (-1.0, 0), (Decimal("0.3"), 300_000)]
)
def test_a_measured_cost_is_rounded_up_and_never_negative(cost: float, micro: int) -> None:
    assert measured_usd(cost) == micro


def test_ten_times_ten_cents_are_one_dollar() -> None:
    policy = BudgetPolicy(per_run=usd("0.10"), per_day=usd("1"))
    spend, granted = Spend(), 0
    while isinstance(reservation := reserve(policy, spend, at=at(granted)), Reservation):
        spend, granted = after(spend, reservation), granted + 1

    assert (granted, spend.day) == (10, usd("1"))


@given(
    st.builds(
        BudgetPolicy,
        per_run=st.none() | cents,
        per_day=st.none() | cents,
        per_month=st.none() | cents,
        max_runs_per_hour=st.none() | st.integers(1, 5),
    ),
    st.lists(st.tuples(st.integers(0, 3600), st.none() | cents), max_size=20),
)
def test_reservations_never_exceed_a_limit_and_the_hour_is_never_overbooked(
    policy: BudgetPolicy, asking: list[tuple[int, MicroUsd | None]]
) -> None:
    spend, now, starts = Spend(), at(0), []
    for wait, _ in asking:
        now += timedelta(seconds=wait)
        reservation = reserve(policy, spend, at=now)
        if isinstance(reservation, Reservation):
            spend = after(spend, reservation)
            starts.append(now)
            assert policy.per_day is None or spend.day <= policy.per_day
            assert policy.per_month is None or spend.month <= policy.per_month
        recent = [one for one in starts if now - HOUR < one <= now]
        assert policy.max_runs_per_hour is None or len(recent) <= policy.max_runs_per_hour


@pytest.mark.parametrize(
    ("policy", "spend", "limit"),
    [
        (BudgetPolicy(per_run=usd("1"), per_day=usd("10")), Spend(day=usd("9.01")), "day"),
        (BudgetPolicy(per_run=usd("1"), per_month=usd("10")), Spend(month=usd("9.01")), "month"),
        (BudgetPolicy(per_day=usd("10")), Spend(day=usd("10")), "day"),
        (BudgetPolicy(per_day=FREE), Spend(), "day"),
        (BudgetPolicy(per_run=FREE), Spend(), "run"),
        (BudgetPolicy(max_runs_per_hour=2), Spend(counted_at=(at(-60), at(-30))), "hour"),
    ],
    ids=str,
)
def test_a_refusal_names_its_limit(policy: BudgetPolicy, spend: Spend, limit: str) -> None:
    refusal = reserve(policy, spend, at=at(0))

    assert isinstance(refusal, BudgetDenied)
    assert refusal.limit == limit


def test_a_run_that_fits_exactly_is_let_through() -> None:
    policy = BudgetPolicy(per_run=usd("1"), per_day=usd("10"))

    assert reserve(policy, Spend(day=usd("9")), at=at(0)) == reserved("1")


def test_an_hourly_run_fits_one_run_per_hour() -> None:
    policy = BudgetPolicy(max_runs_per_hour=1)

    assert isinstance(reserve(policy, Spend(counted_at=(at(0),)), at=at(3600)), Reservation)
    assert isinstance(reserve(policy, Spend(counted_at=(at(0),)), at=at(3599)), BudgetDenied)


def test_a_running_agent_is_over_budget_when_it_has_reached_it() -> None:
    policy = BudgetPolicy(per_run=usd("1"))

    assert not used_up(policy, usd("0.999999"))
    assert used_up(policy, usd("1"))
    assert not used_up(BudgetPolicy(), usd("1000"))


@given(instants | around_transitions, st.sampled_from(ZONES).map(ZoneInfo))
def test_every_instant_lies_in_its_day_and_its_month_and_days_follow_each_other(at_: datetime, zone: ZoneInfo) -> None:
    for part in (day_of, month_of):
        window = part(at_, zone)
        assert window.start <= at_ < window.end
        assert part(window.start, zone) == part(window.end - timedelta.resolution, zone) == window
        assert part(window.end, zone).start == window.end


def test_a_day_is_the_owners_day() -> None:
    window = day_of(datetime(2026, 3, 29, 12, tzinfo=UTC), ZoneInfo("Europe/Berlin"))

    assert window.end - window.start == timedelta(hours=23)
    assert month_of(datetime(2026, 2, 28, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin")).start == datetime(
        2026, 2, 28, 23, tzinfo=UTC
    )


def decided(
    budget: BudgetPolicy, spend: Spend = UNSPENT, *, rule: MissedRule, live: tuple[UnendedRun, ...] = ()
) -> Decision:
    facts = Facts("digest", TriggerKind.CRON, at(0), live=live, spend=spend)
    policies = Policies(MissedPolicy(rule), OverlapPolicy(OverlapRule.CANCEL_PREVIOUS), budget)
    return decide(Regular(HOUR), facts, policies, now=at(5 * 3600 + 600))


def kinds(decision: Decision) -> list[tuple[DispositionKind, int]]:
    return [(one.kind, one.count) for one in decision.dispositions]


def test_catching_up_stops_at_the_budget_and_says_so() -> None:
    policy = BudgetPolicy(per_run=usd("1"), per_day=usd("10"))

    assert kinds(decided(policy, Spend(day=usd("7.5")), rule=MissedRule.REPLAY)) == [
        (DispositionKind.RUN, 1),
        (DispositionKind.RUN, 1),
        (DispositionKind.BUDGET, 3),
    ]


def test_coalesced_ticks_are_recorded_as_over_budget_with_their_run() -> None:
    assert kinds(decided(BudgetPolicy(per_day=FREE), rule=MissedRule.COALESCE)) == [(DispositionKind.BUDGET, 5)]


def test_catching_up_counts_for_the_hour_in_which_it_starts() -> None:
    assert kinds(decided(BudgetPolicy(max_runs_per_hour=2), rule=MissedRule.REPLAY)) == [
        (DispositionKind.RUN, 1),
        (DispositionKind.RUN, 1),
        (DispositionKind.BUDGET, 3),
    ]


def test_a_tick_without_money_does_not_stop_the_run_before_it() -> None:
    running = UnendedRun(RunId("r1"), TriggerKind.CRON, LiveStanding.RUNNING)
    decision = decided(BudgetPolicy(per_day=FREE), rule=MissedRule.COALESCE, live=(running,))

    assert (decision.stops, decision.displaces) == ((), ())


def test_no_runs_in_an_hour_is_a_pause_and_refused_as_a_limit() -> None:
    with pytest.raises(Invalid, match="pause"):
        BudgetPolicy(max_runs_per_hour=0)


def test_what_is_set_aside_for_a_later_day_counts_now_but_not_for_a_run_that_was_reserved_before() -> None:
    noon = datetime(2026, 3, 10, 12, tzinfo=UTC)
    today, tomorrow = (Counted(to_us(noon + timedelta(hours=hours)), 5, 7) for hours in (-3, 20))
    counted = [today, tomorrow]

    all_of_it = spend_of(counted, "UTC", noon)
    of_its_day = spend_of(counted, "UTC", noon, later=False)

    assert (all_of_it.day, all_of_it.month, len(all_of_it.counted_at)) == (10, 10, 2)
    assert (of_its_day.day, of_its_day.month, of_its_day.counted_at) == (5, 10, (noon - timedelta(hours=3),))
    assert (all_of_it.took, of_its_day.took) == (timedelta(microseconds=14), timedelta(microseconds=7))
    assert spend_of([], "No/Where", noon) == Spend()
