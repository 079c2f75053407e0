"""What may be spent: reserve before a run starts, settle with the real cost when it has ended.

Money is counted in whole millionths of a dollar. A day and a month are those of the schedule's own zone (UTC
where there is none), because that is the day its owner means; a cost belongs to the day in which its run was
reserved. A run that reports no cost is charged what it had reserved, and counts by itself and by the time it took.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import NamedTuple, NewType
from zoneinfo import ZoneInfo

from fencepost.model.disposition import Window
from fencepost.model.duration import format_duration
from fencepost.model.errors import Invalid
from fencepost.model.instants import from_us, to_us

MicroUsd = NewType("MicroUsd", int)

FREE = MicroUsd(0)
MICRO = 1_000_000
USD_MAX = 1_000_000_000
HOUR = timedelta(hours=1)
NO_TIME = timedelta(0)


def parse_usd(amount: str | float | Decimal, *, name: str = "budget_usd") -> MicroUsd:
    """Read an amount of dollars as it was written; what cannot be kept exactly is refused."""
    try:
        micro = Decimal(str(amount)) * MICRO
    except InvalidOperation:
        raise Invalid(f"{name} = {amount!r} is no amount; write dollars, for example 2.50.") from None
    if not (micro.is_finite() and 0 <= micro <= USD_MAX * MICRO):
        raise Invalid(f"{name} = {amount!r} must be between 0 and {USD_MAX} dollars.")
    if micro != micro.to_integral_value():
        raise Invalid(f"{name} = {amount!r} is finer than a millionth of a dollar; round it.")
    return MicroUsd(int(micro))


def measured_usd(cost: float | Decimal) -> MicroUsd:
    """Take over a cost that an engine reported, rounded up to the next millionth; never less than nothing."""
    micro = Decimal(str(cost)) * MICRO
    if not micro.is_finite():
        raise Invalid(f"cost_usd = {cost!r} is no amount.")
    return MicroUsd(max(0, int(micro.to_integral_value(ROUND_CEILING))))


def show_usd(amount: MicroUsd) -> str:
    """Write an amount with at least two decimals and no needless zeros."""
    whole, fraction = divmod(amount, MICRO)
    return f"{whole}.{f'{fraction:06d}'.rstrip('0').ljust(2, '0')}"


def money(amount: int) -> str:
    """Write an amount for people: dollars and cents, and more decimals where there is less than a cent."""
    digits = 2 if amount == 0 or amount >= MICRO // 100 else 4
    return f"${amount / MICRO:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """Limits; None: no limit. A limit of 0 lets nothing run."""

    per_run: MicroUsd | None = None
    per_day: MicroUsd | None = None
    per_month: MicroUsd | None = None
    max_runs_per_hour: int | None = None
    max_time_per_day: timedelta | None = None

    def __post_init__(self) -> None:
        if self.max_runs_per_hour is not None and self.max_runs_per_hour < 1:
            raise Invalid(
                f"max_runs_per_hour is at least 1, not {self.max_runs_per_hour}; to stop, pause the schedule."
            )


@dataclass(frozen=True, slots=True)
class Spend:
    """What is spent or reserved so far in this day and month, and when the last runs were counted."""

    day: MicroUsd = FREE
    month: MicroUsd = FREE
    counted_at: tuple[datetime, ...] = ()
    took: timedelta = NO_TIME  # of all runs of the day, those that are under way until now


class Counted(NamedTuple):
    """A run that counts against a budget."""

    at_us: int
    micro: int
    took_us: int = 0  # so far, where a schedule limits the time of its runs


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for one run."""

    amount: MicroUsd
    counted_at: datetime


@dataclass(frozen=True, slots=True)
class BudgetDenied:
    """No: which limit, and why in a sentence."""

    limit: str
    message: str


def reserve(policy: BudgetPolicy, spend: Spend, *, at: datetime) -> Reservation | BudgetDenied:
    """Set the budget of one run aside, or say which limit is in the way.

    `at` is the tick, or for other runs the moment from which they may start: with the start itself an hourly tick
    that starts a blink earlier than the last would find the hour taken.
    """
    amount = policy.per_run or FREE
    if policy.per_run == FREE:
        return BudgetDenied("run", "the budget of one run is 0.")
    for name, limit, spent in (("day", policy.per_day, spend.day), ("month", policy.per_month, spend.month)):
        if limit is not None and (spent >= limit or spent + amount > limit):
            return BudgetDenied(name, _too_much(name, limit, spent, amount))
    recent = sum(at - HOUR < one for one in spend.counted_at)
    if policy.max_runs_per_hour is not None and recent >= policy.max_runs_per_hour:
        runs = "run" if recent == 1 else "runs"
        return BudgetDenied("hour", f"{recent} {runs} within an hour, of {policy.max_runs_per_hour} allowed.")
    if policy.max_time_per_day is not None and spend.took >= policy.max_time_per_day:
        allowed = format_duration(policy.max_time_per_day.total_seconds())
        message = f"runs took {format_duration(int(spend.took.total_seconds()))} of this day, of {allowed} allowed."
        return BudgetDenied("time", message)
    return Reservation(amount, at)


def spend_of(counted: Sequence[Counted], timezone: str | None, at: datetime, *, later: bool = True) -> Spend:
    """Sum up what is spent or set aside, by the day and the month of an instant.

    With `later` all that was counted since they began; without it only what was counted in them, and within the hour
    only what was there first: for a run that was reserved at that instant, and is looked at again. The zone is looked up
    only where something was counted: most schedules have no budget, and one whose zone is gone is told of elsewhere.
    """
    if not counted:
        return Spend()
    zone = ZoneInfo(timezone or "UTC")
    day, month, at_us = day_of(at, zone), month_of(at, zone), to_us(at)
    today = _within(counted, day, later=later)
    return Spend(
        day=MicroUsd(sum(one.micro for one in today)),
        month=MicroUsd(sum(one.micro for one in _within(counted, month, later=later))),
        counted_at=tuple(from_us(one.at_us) for one in counted if later or one.at_us <= at_us),
        took=timedelta(microseconds=sum(one.took_us for one in today)),
    )


def _within(counted: Sequence[Counted], window: Window, *, later: bool) -> list[Counted]:
    first, last = to_us(window.start), to_us(window.end)
    return [one for one in counted if first <= one.at_us and (later or one.at_us < last)]


def never_affordable(policy: BudgetPolicy) -> str:
    """Say why not even one run can ever be paid, or nothing if one can."""
    for name, limit in (("day", policy.per_day), ("month", policy.per_month)):
        if policy.per_run is not None and limit is not None and policy.per_run > limit:
            run, most = show_usd(policy.per_run), show_usd(limit)
            return f"one run sets {run} dollars aside (budget_usd of its agent), and a {name} has {most}: nothing can ever run."
    return ""


def _too_much(name: str, limit: MicroUsd, spent: MicroUsd, amount: MicroUsd) -> str:
    return f"{money(spent)} of this {name}'s {money(limit)} are spent, and a run reserves {money(amount)}."


def after(spend: Spend, *reservations: Reservation) -> Spend:
    """Return what is spent once these reservations stand."""
    reserved = sum(one.amount for one in reservations)
    return Spend(
        day=MicroUsd(spend.day + reserved),
        month=MicroUsd(spend.month + reserved),
        counted_at=(*spend.counted_at, *(one.counted_at for one in reservations)),
        took=spend.took,
    )


def used_up(policy: BudgetPolicy, cost_so_far: MicroUsd) -> bool:
    """Tell whether a running agent has reached the budget of one run."""
    return policy.per_run is not None and cost_so_far >= policy.per_run


def day_of(instant: datetime, zone: tzinfo = UTC) -> Window:
    """Return the day that an instant falls into, from the first local midnight to the next day's."""
    day = instant.astimezone(zone).date()
    if _midnight(day + timedelta(days=1), zone) <= instant:  # a fold went back over midnight: the new day has begun
        day += timedelta(days=1)
    return Window(_midnight(day, zone), _midnight(day + timedelta(days=1), zone))


def month_of(instant: datetime, zone: tzinfo = UTC) -> Window:
    """Return the month that an instant falls into, in the same way."""
    first = instant.astimezone(zone).date().replace(day=1)
    if _midnight(_next_month(first), zone) <= instant:
        first = _next_month(first)
    return Window(_midnight(first, zone), _midnight(_next_month(first), zone))


def _next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


def _midnight(day: date, zone: tzinfo) -> datetime:
    """Return when a local day begins: the first of two midnights, or the end of the gap that swallowed it."""
    return datetime.combine(day, time(0), zone).astimezone(UTC)
