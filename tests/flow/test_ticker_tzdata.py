"""A new tzdata moves instants, never identities: no slot runs twice, and what it jumped over is recorded."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from fencepost.flow import foresight, tick_rows, ticker
from fencepost.flow.pruner import Pruner
from fencepost.model import definition, trigger, version_handover, zone
from fencepost.model.definition import ScheduleDefinition
from fencepost.model.tzif import Footer, ZoneFile
from fencepost.model.zone import Zone
from fencepost.ports.pruning import PrunePlace
from fencepost.stores import tzdata as following
from fencepost.stores.runtime import RuntimeStore
from tests.support.runtime import Runtime, new_id, us

Release = Callable[[str, float], None]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    """Install a tzdata release in which Nowhere/Town has some offset in hours, from the beginning of time."""

    def install(version: str, hours: float) -> None:
        town = Zone("Nowhere/Town", ZoneFile(round(hours * 3600), (), Footer()))

        def find(name: str) -> Zone:
            return town if name == "Nowhere/Town" else zone.find_zone(name)

        monkeypatch.setattr(trigger, "find_zone", find)
        for module in (ticker, tick_rows):
            monkeypatch.setattr(module, "tzdata_version", lambda: version)
        clear()

    yield install
    clear()


def clear() -> None:
    definition._cron_trigger.cache_clear()
    tick_rows.meaning_of.cache_clear()
    foresight.seen_at.cache_clear()
    version_handover._look_after.cache_clear()


def hourly(runtime: Runtime, **fields: Any) -> None:  # noqa: ANN401  # of the definition
    runtime.cron(cron="0 * * * *", timezone="Nowhere/Town", overlap="allow_parallel", parallel_max=100, **fields)


def slots(runtime: Runtime) -> list[str]:
    """Return what was decided, in the order of the wall."""
    return [f"{slot[11:16]} {count} {kind}" for slot, count, kind in sorted(runtime.ticks())]


def test_slots_that_come_back_do_not_run_again(runtime: Runtime, release: Release) -> None:
    """The offset falls by two hours: ten and eleven come a second time."""
    release("2027a", 2)
    hourly(runtime)
    runtime.tick_at("2027-01-15T08:00:00", "2027-01-15T09:00:00")
    assert slots(runtime) == ["11:00 1 run"]
    release("2027b", 0)
    runtime.tick_at("2027-01-15T10:00:00", "2027-01-15T11:00:00")
    assert slots(runtime) == ["11:00 1 run"], "at these instants the wall shows ten and eleven once more"
    runtime.tick_at("2027-01-15T12:00:00")
    assert slots(runtime) == ["11:00 1 run", "12:00 1 run"]


def test_slots_that_come_back_after_a_range_are_not_counted_again(runtime: Runtime, release: Release) -> None:
    release("2027a", 3)
    hourly(runtime)
    runtime.tick()
    runtime.tick_at("2027-01-15T14:30:00")
    assert slots(runtime) == ["12:00 6 missed"]
    release("2027b", 0)
    for hour in range(15, 19):
        runtime.tick_at(f"2027-01-15T{hour}:00:00")
    assert slots(runtime) == ["12:00 6 missed", "18:00 1 run"]


def test_slots_that_were_jumped_over_are_recorded_as_missed(runtime: Runtime, release: Release) -> None:
    """The offset rises by three hours: what lies between is behind the cursor, and nobody looked at it."""
    release("2027a", 0)
    hourly(runtime)
    runtime.tick_at("2027-01-15T09:00:00")
    release("2027b", 3)
    runtime.tick_at("2027-01-15T09:10:00", "2027-01-15T10:00:00")
    assert slots(runtime) == ["09:00 1 run", "10:00 3 missed", "13:00 1 run"]


def test_the_look_back_is_bounded(runtime: Runtime, release: Release) -> None:
    release("2027a", 0)
    hourly(runtime)
    runtime.tick_at("2027-01-15T09:00:00")
    runtime.sql("UPDATE $schedule SET seen = ?", f"{us('2027-01-15T09:00:00')} 2026a 2020-01-01T00:00:00")
    release("2027b", 0)
    runtime.tick()
    assert sum(count for _, count, kind in runtime.ticks() if kind == "missed") <= 49


def test_a_tick_that_a_new_release_moved_nearer_is_not_slept_through(runtime: Runtime, release: Release) -> None:
    """The next look was due an hour later; the update has every schedule looked at again."""
    release("2027a", 0)
    runtime.cron(cron="0 12 * * *", timezone="Nowhere/Town")
    runtime.tick()
    assert runtime.schedule()["due_us"] == us("2027-01-15T12:00:00")
    release("2027b", 1)
    runtime.tick()
    assert runtime.schedule()["due_us"] == us("2027-01-15T11:00:00")
    runtime.tick_at("2027-01-15T11:00:00")
    assert runtime.kinds() == ["run"]


def test_an_older_release_on_another_machine_wakes_nobody(runtime: Runtime, release: Release) -> None:
    release("2027b", 0)
    runtime.cron(cron="0 12 * * *", timezone="Nowhere/Town")
    runtime.tick()
    release("2027a", 0)
    assert runtime.tick(runtime.another()) == 0


def test_the_same_release_looks_at_nothing_again(runtime: Runtime, release: Release) -> None:
    release("2027a", 0)
    runtime.cron(cron="0 12 * * *", timezone="Nowhere/Town")
    runtime.tick()
    assert [runtime.tick(runtime.another()) for _ in range(3)] == [0, 0, 0]


def test_the_first_schedules_of_all_are_not_looked_at_again(runtime: Runtime) -> None:
    """They were worked out a moment ago, by this very release."""
    for number in range(5):
        runtime.cron(f"s{number}", cron="0 12 * * *")
    assert runtime.tick() == 0


def test_an_update_looks_at_a_page_at_a_time_and_lets_what_is_due_go_first(
    runtime: Runtime, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE", 2)
    release("2027a", 0)
    for number in range(5):
        runtime.cron(f"s{number}", cron="0 12 * * *", timezone="Nowhere/Town")
    runtime.cron("t", cron="1 8 * * *")
    runtime.every("u")
    runtime.tick()
    release("2027b", 1)
    assert ticked(runtime) == 2, "the first page is woken"
    runtime.go_to("2027-01-15T08:01:00")
    assert ticked(runtime) == 3, "the page, and beside it what has come due"
    assert runtime.kinds("t") == ["run"]
    another = runtime.another()  # the first one dies here
    looks = [ticked(runtime, another) for _ in range(9)]
    assert looks[-1] == 0
    due = runtime.sql("SELECT name, due_us FROM $schedule WHERE name LIKE 's_' ORDER BY name")
    assert due == [(f"s{number}", us("2027-01-15T11:00:00")) for number in range(5)]
    assert sum(looks) == 3 + 3 + 2 + 1, "woken and decided, s2 to s4; looked at and left alone, t and u; t is decided"


def ticked(runtime: Runtime, store: RuntimeStore | None = None) -> int:
    return ticker.Ticker(store or runtime.store, new_id).step()


def test_an_edit_between_two_releases_confuses_nobody(runtime: Runtime, release: Release) -> None:
    release("2027a", 0)
    hourly(runtime)
    runtime.tick_at("2027-01-15T09:00:00")
    runtime.go_to("2027-01-15T09:30:00")
    hourly(runtime, priority=1)
    release("2027b", 1)
    runtime.tick_at("2027-01-15T10:00:00")
    assert [slot for slot in slots(runtime) if slot.endswith("run")] == ["09:00 1 run", "11:00 1 run"]


def test_a_one_shot_that_a_new_release_put_into_the_past_is_decided_all_the_same(
    runtime: Runtime, release: Release
) -> None:
    release("2027a", 0)
    runtime.apply(ScheduleDefinition("s", "agent", at="2027-01-15T08:30:00", timezone="Nowhere/Town"))
    release("2027b", 1)
    runtime.tick()
    assert runtime.ticks() == [("2027-01-15T08:30:00", 1, "missed")]
    runtime.tick_at("2027-01-15T08:30:00")
    assert len(runtime.ticks()) == 1


def test_each_decision_names_its_release(runtime: Runtime, release: Release) -> None:
    release("2027a", 0)
    hourly(runtime)
    runtime.tick_at("2027-01-15T09:00:00")
    release("2027b", 0)
    runtime.tick_at("2027-01-15T10:00:00")
    assert runtime.sql("SELECT tzdata FROM $tick ORDER BY tick_us") == [("2027a",), ("2027b",)]


@pytest.mark.parametrize("hours", [-14, -1, 1, 14])
def test_slots_whose_records_were_pruned_do_not_run_again(runtime: Runtime, release: Release, hours: int) -> None:
    """A yearly schedule stands still for longer than records are kept; then its zone moves, back or ahead."""
    release("2027a", 0)
    runtime.cron(cron="0 9 16 1 *", timezone="Nowhere/Town", missed="replay", catchup_window="3650d")
    runtime.tick_at("2027-01-16T09:00:00")
    runtime.work()
    runtime.go_to("2027-12-01T00:00:00")
    place: PrunePlace | None = PrunePlace()
    while place is not None:
        place = Pruner(runtime.store, "default", timedelta(days=90)).step(place).next
    assert runtime.runs() == []
    release("2027b", hours)
    runtime.tick()
    runtime.pass_time(86400)
    runtime.tick()
    assert runtime.runs() == []
