"""What a budget lets through while runs are counted and not played: the product's own rule, on sums instead of rows."""

from collections import deque
from datetime import datetime, tzinfo

from fencepost.model.budget import HOUR, BudgetPolicy, Counted, MicroUsd, Reservation, Spend, day_of, month_of, reserve
from fencepost.model.disposition import Window
from fencepost.model.instants import from_us, to_us


class SimulatedBudget:
    """The money of one schedule. Runs that were only counted are not in the store; runs that were played are."""

    def __init__(self, policy: BudgetPolicy, zone: tzinfo, *, charge: MicroUsd) -> None:
        self._policy = policy
        self._charge = charge
        self._counted, self._played = _Account(zone), _Account(zone)

    def allows(self, at_us: int) -> bool:
        """Tell whether the budget lets a tick run; no run of its schedule may be at work."""
        at = from_us(at_us)
        counted, played = self._counted.spend(at), self._played.spend(at)
        spend = Spend(
            MicroUsd(counted.day + played.day),
            MicroUsd(counted.month + played.month),
            (*counted.counted_at, *played.counted_at),
        )
        return isinstance(reserve(self._policy, spend, at=at), Reservation)

    def count(self, tick_us: int) -> None:
        """Spend what one counted run costs."""
        self._counted.add(Counted(tick_us, self._charge))

    def play(self, run: Counted) -> None:
        """Take note of a run that went through the store."""
        self._played.add(run)

    def beside(self, now_us: int) -> tuple[Counted, ...]:
        """Return what counted runs have spent, in as few rows as give the same sums."""
        return self._counted.rows(from_us(now_us))


class _Account:
    """What was spent of a day and of a month, and by which runs within the last hour."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._day = self._month = Window(from_us(0), from_us(0))
        self._of_day = self._of_month = 0
        self._recent: deque[Counted] = deque()

    def add(self, run: Counted) -> None:
        at = from_us(run.at_us)
        self._move(at)
        self._recent.append(run)
        if at >= self._day.start:
            self._of_day += run.micro
        if at >= self._month.start:
            self._of_month += run.micro

    def spend(self, at: datetime) -> Spend:
        self._move(at)
        counted_at = tuple(from_us(one.at_us) for one in self._recent)
        return Spend(MicroUsd(self._of_day), MicroUsd(self._of_month), counted_at)

    def rows(self, at: datetime) -> tuple[Counted, ...]:
        """Return the runs of the last hour one by one, and one row each for the rest of the day and of the month."""
        self._move(at)
        day_us, month_us = to_us(self._day.start), to_us(self._month.start)
        today = sum(one.micro for one in self._recent if one.at_us >= day_us)
        earlier = sum(one.micro for one in self._recent if month_us <= one.at_us < day_us)
        rest = (
            Counted(day_us, self._of_day - today),
            Counted(month_us, self._of_month - self._of_day - earlier),
        )
        return (*self._recent, *(one for one in rest if one.micro))

    def _move(self, at: datetime) -> None:
        """Begin a new day and a new month where they begin, and forget what is older than an hour."""
        if at >= self._day.end:
            self._day, self._of_day = day_of(at, self._zone), 0
        if at >= self._month.end:
            self._month, self._of_month = month_of(at, self._zone), 0
        while self._recent and from_us(self._recent[0].at_us) <= at - HOUR:
            self._recent.popleft()
