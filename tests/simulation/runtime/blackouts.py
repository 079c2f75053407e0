"""Blackouts by the wall, drawn and judged in plain Python: some minutes of every day."""

import random  # noqa: TID251  # only its type: the world's is seeded
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from fencepost.model.definition import ScheduleDefinition

DAYS = "SUN-SAT"
MINUTES = (1, 2, 5, 20)


def draw_blackout(rng: random.Random, zone: str, since_us: int, seconds: float) -> str:
    """Choose some minutes of the day, near the time that is played."""
    local = _instant(since_us + int(rng.random() * seconds * 1e6)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return f"{DAYS} {local:%H:%M}-{local + timedelta(minutes=rng.choice(MINUTES)):%H:%M}"


def is_blacked_out(schedule: ScheduleDefinition, at_us: int) -> bool:
    """Tell by the clock on the wall whether an instant is in one of the schedule's blackouts."""
    wall = _instant(at_us).astimezone(ZoneInfo(schedule.timezone or "UTC")).strftime("%H:%M")
    return any(_covers(entry.removeprefix(f"{DAYS} "), wall) for entry in schedule.calendar)


def _covers(times: str, wall: str) -> bool:
    start, _, end = times.partition("-")
    return start <= wall < end if start < end else wall >= start or wall < end


def _instant(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
