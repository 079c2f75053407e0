"""Days on which the clock changes, lived through minute by minute, compared with a wall that is walked by zoneinfo."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.model.brute_force import zoneinfo_of
from tests.support.runtime import Runtime, at

SPRING = {
    "Europe/Berlin": ("2027-03-28T00:30", "2027-03-28T02:30"),
    "America/New_York": ("2027-03-14T06:30", "2027-03-14T08:30"),
    "Australia/Lord_Howe": ("2026-10-03T14:45", "2026-10-03T17:00"),
    "America/St_Johns": ("2027-03-14T05:00", "2027-03-14T07:00"),
}
AUTUMN = {
    "Europe/Berlin": ("2026-10-25T00:00", "2026-10-25T02:30"),
    "America/New_York": ("2026-11-01T05:00", "2026-11-01T07:30"),
    "Australia/Lord_Howe": ("2027-04-03T14:00", "2027-04-03T16:30"),
    "America/St_Johns": ("2026-11-01T03:30", "2026-11-01T06:00"),
}


def walk(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Return every quarter of an hour as an instant, with what the wall shows."""
    info = zoneinfo_of(zone)
    steps = int((end - start) / timedelta(minutes=15))
    instants = [start + timedelta(minutes=15 * step) for step in range(1, steps + 1)]
    return [(one, one.astimezone(info).replace(tzinfo=None)) for one in instants]


def live_through(
    runtime: Runtime, zone: str, start: datetime, end: datetime, cron: str, **fields: str
) -> list[datetime]:
    """Tick every quarter of an hour, and return the ticks of the runs that came of it."""
    runtime.go_to(start)
    runtime.cron(cron=cron, timezone=zone, overlap="allow_parallel", parallel_max=100, **fields)
    runtime.tick()
    for instant, _ in walk(zone, start, end):
        runtime.go_to(instant)
        runtime.tick()
    return [datetime.fromtimestamp((run.tick_us or 0) / 1e6, UTC) for run in runtime.runs()]


@pytest.mark.parametrize("zone", SPRING)
def test_slots_that_do_not_exist_are_recorded_and_the_others_run(runtime: Runtime, zone: str) -> None:
    start, end = (at(f"{text}:00") for text in SPRING[zone])
    ticks = live_through(runtime, zone, start, end, "*/15 * * * *")
    shown = walk(zone, start, end)
    assert ticks == [instant for instant, wall in shown]
    jumps = [(one, two) for (_, one), (_, two) in pairwise(shown) if two - one > timedelta(minutes=15)]
    ((before, after),) = jumps
    missing = int((after - before) / timedelta(minutes=15)) - 1
    gaps = [(slot, count) for slot, count, kind in runtime.ticks() if kind == "dst_gap"]
    assert gaps == [((before + timedelta(minutes=15)).isoformat(), missing)]


@pytest.mark.parametrize("zone", SPRING)
def test_a_slot_in_the_gap_is_shifted_to_its_end_if_asked(runtime: Runtime, zone: str) -> None:
    start, end = (at(f"{text}:00") for text in SPRING[zone])
    shown = walk(zone, start, end)
    (first,) = [(one, two) for (_, one), (two, _), gap in _pairs(shown) if gap > timedelta(minutes=15)]
    slot = first[0] + timedelta(minutes=15)
    ticks = live_through(runtime, zone, start, end, f"{slot.minute} {slot.hour} * * *", dst_gap="shift")
    assert ticks == [first[1]]
    assert runtime.kinds() == ["run"]


def _pairs(
    shown: list[tuple[datetime, datetime]],
) -> list[tuple[tuple[datetime, datetime], tuple[datetime, datetime], timedelta]]:
    return [(one, two, two[1] - one[1]) for one, two in pairwise(shown)]


@pytest.mark.parametrize("zone", AUTUMN)
@pytest.mark.parametrize("fold", ["first", "last", "both", "auto"])
def test_slots_that_come_twice_run_as_often_as_asked(runtime: Runtime, zone: str, fold: str) -> None:
    start, end = (at(f"{text}:00") for text in AUTUMN[zone])
    shown = walk(zone, start, end)
    by_wall: dict[datetime, list[datetime]] = {}
    for instant, wall in shown:
        by_wall.setdefault(wall, []).append(instant)
    slot, instants = next((wall, found) for wall, found in by_wall.items() if len(found) == 2)
    ticks = live_through(runtime, zone, start, end, f"{slot.minute} {slot.hour} * * *", dst_fold=fold)
    wanted = {"first": instants[:1], "auto": instants[:1], "last": instants[1:], "both": instants}[fold]
    assert ticks == wanted
    assert len({run.occurrence for run in runtime.runs()}) == len(wanted)


@pytest.mark.parametrize("zone", AUTUMN)
def test_an_hourly_schedule_runs_every_real_hour(runtime: Runtime, zone: str) -> None:
    start, end = (at(f"{text}:00") for text in AUTUMN[zone])
    ticks = live_through(runtime, zone, start, end, "*/15 * * * *")
    assert ticks == [instant for instant, _ in walk(zone, start, end)]
    assert len({run.occurrence for run in runtime.runs()}) == len(ticks)
    assert len({run.idempotency_key for run in runtime.runs()}) == len(ticks)


@pytest.mark.parametrize("then", ["edit", "retire"])
def test_slots_in_a_gap_are_recorded_although_the_schedule_is_edited_before_its_next_tick(
    runtime: Runtime, then: str
) -> None:
    runtime.go_to("2027-03-28T00:30")
    runtime.cron(cron="*/20 */2 * * *", timezone="Europe/Berlin")
    runtime.tick_at("2027-03-28T01:00")  # 03:00 on the wall; nothing is due before 04:00
    runtime.go_to("2027-03-28T01:30")
    if then == "edit":
        runtime.cron(cron="*/20 */2 * * *", timezone="Europe/Berlin", overlap="queue")
    else:
        del runtime.definitions["default"]["s"]
        runtime.put()
    assert runtime.ticks() == [("2027-03-28T02:00:00", 3, "dst_gap")]
