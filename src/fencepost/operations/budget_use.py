"""How much of its budget a schedule has used: the same sums by which its next run is let through or skipped."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from fencepost.model.budget import HOUR, MICRO, MicroUsd, day_of, money, month_of
from fencepost.model.definition import agent_from_json, policies_of
from fencepost.model.duration import format_duration
from fencepost.model.instants import to_us
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import Listed


@dataclass(frozen=True, slots=True)
class Use:
    """One limit, by its name in the file: what is used of it, and when it begins anew."""

    limit: str
    used: float  # dollars, runs, or seconds
    allowed: float
    words: str
    anew_at: datetime | None = None  # None: the oldest run leaves the hour first

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.allowed


def budget_use(store: Store, tenant: str, listed: Listed) -> list[Use]:
    """Return what is used of each limit that the schedule has; what runs or waits counts with what was set aside for it."""
    schedule = listed.definition
    budget = policies_of(schedule, agent_from_json(listed.row.manifest)).budget
    limits = (budget.per_day, budget.per_month, budget.max_runs_per_hour, budget.max_time_per_day)
    if all(one is None for one in limits):
        return []
    timed = budget.max_time_per_day is not None
    zone = ZoneInfo(schedule.timezone or "UTC")
    day, month = day_of(listed.now, zone), month_of(listed.now, zone)
    tomorrow = day.end
    spent = store.reads(tenant).spent(
        schedule.name,
        day_us=to_us(day.start),
        month_us=to_us(month.start),
        hour_us=to_us(listed.now - HOUR),
        timed=timed,
    )
    found: list[Use] = []
    if budget.per_day is not None:
        found.append(_dollars("budget_usd_per_day", MicroUsd(spent.day_micro), budget.per_day, tomorrow))
    if budget.per_month is not None:
        found.append(_dollars("budget_usd_per_month", MicroUsd(spent.month_micro), budget.per_month, month.end))
    if budget.max_runs_per_hour is not None:
        words = f"{spent.recent} of {budget.max_runs_per_hour} runs within the last hour"
        found.append(Use("max_runs_per_hour", spent.recent, budget.max_runs_per_hour, words))
    if budget.max_time_per_day is not None:
        found.append(_time(timedelta(microseconds=spent.took_us), budget.max_time_per_day, tomorrow))
    return found


def _dollars(limit: str, used: MicroUsd, allowed: MicroUsd, anew_at: datetime) -> Use:
    period = limit.rpartition("_")[2]
    words = f"{money(used)} of {money(allowed)} of this {period}"
    return Use(limit, used / MICRO, allowed / MICRO, words, anew_at)


def _time(took: timedelta, allowed: timedelta, anew_at: datetime) -> Use:
    used, most = int(took.total_seconds()), allowed.total_seconds()
    words = f"{format_duration(used)} of {format_duration(most)} of this day"
    return Use("max_time_per_day", used, most, words, anew_at)
