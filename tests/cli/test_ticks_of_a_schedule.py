"""`fencepost ticks NAME`: what a schedule of the registry will do, with all its triggers, its zone and its calendar."""

from fencepost.model.instants import parse_instant
from tests.support.desk import Desk


def test_the_ticks_of_a_schedule_come_from_its_own_definition(desk: Desk) -> None:
    desk.schedule("nightly", cron="30 2 * * *", timezone="Europe/Berlin")
    out = desk.text("ticks", "nightly", "--from", "2026-03-28", "-n", "3").splitlines()
    assert out[0] == "nightly, version 1: 30 2 * * *"
    assert out[1].startswith("Europe/Berlin, tzdata 20")
    assert out[1].endswith(", gap: skip")
    assert out[3:] == [
        "Sat 2026-03-28 02:30:00+01:00  2026-03-28T01:30:00Z",
        "Sun 2026-03-29 02:30:00  skipped, 02:30 does not exist",
        "Mon 2026-03-30 02:30:00+02:00  2026-03-30T00:30:00Z",
    ]


def test_without_a_start_the_preview_begins_now_by_the_store_s_clock(desk: Desk) -> None:
    desk.schedule("hourly", cron="0 * * * *", timezone="UTC")
    (first,) = desk.json("ticks", "hourly", "-n", "1")
    now_us = desk.clock.wall_us()
    assert 0 <= parse_instant(first["tick_at"]).timestamp() - now_us / 1e6 <= 3600


def test_several_triggers_are_one_list_and_each_instant_stands_there_once(desk: Desk) -> None:
    desk.schedule("both", cron=("0 9 * * *", "0 */9 * * *"), at="2026-12-01T10:00:00Z", timezone="UTC")
    found = desk.json("ticks", "both", "--from", "2026-12-01", "--until", "2026-12-02")
    assert [one["tick_at"][11:16] for one in found] == ["00:00", "09:00", "10:00", "18:00"]


def test_bounds_policies_and_the_calendar_count(desk: Desk) -> None:
    desk.schedule(
        "bound",
        cron="30 2 * * *",
        timezone="Europe/Berlin",
        dst_gap="shift",
        start="2026-03-28T12:00:00Z",
        end="2026-04-01T00:00:00Z",
        calendar=("2026-03-30",),
    )
    found = desk.json("ticks", "bound", "--from", "2026-03-01", "--until", "2026-05-01")
    assert [(one["tick_at"], one["disposition"]) for one in found] == [
        ("2026-03-29T01:00:00Z", "fired"),
        ("2026-03-30T00:30:00Z", "calendar"),
        ("2026-03-31T00:30:00Z", "fired"),
    ]
    assert found[0]["note"] == "shifted from 02:30"
    assert found[1]["note"] == "calendar, 2026-03-30"


def test_a_single_instant_that_is_over_leaves_a_schedule_that_is_done(desk: Desk) -> None:
    desk.schedule("single", at="2026-03-27T14:00:00Z")
    desk.schedule("bound", cron="0 * * * *", timezone="UTC", end="2026-03-27T14:30:00Z")
    desk.schedule("steady", every="1h")
    assert {one["state"] for one in desk.json("schedule", "list")} == {"active"}

    desk.tick("2026-03-27T15:00:01Z")

    found = {one["name"]: one["state"] for one in desk.json("schedule", "list")}
    assert found == {"single": "done", "bound": "done", "steady": "active"}


def test_a_single_instant_is_shown_until_it_is_over(desk: Desk) -> None:
    desk.schedule("once", at="2030-01-01T00:00:00Z")
    (found,) = desk.json("ticks", "once")
    told = ("once", 1, "2030-01-01T00:00:00Z", None)
    assert (found["schedule"], found["version"], found["tick_at"], found["run_id"]) == told
    assert "no ticks in this window" in desk.text("ticks", "once", "--from", "2031-01-01", "--until", "2032-01-01")


def test_of_every_only_the_next_is_known(desk: Desk) -> None:
    desk.schedule("often", every="15m", anchor="2030-01-01T00:00:00Z")
    (found,) = desk.json("ticks", "often")
    assert (found["tick_at"], found["occurrence"]) == ("2030-01-01T00:00:00Z", None)
    out = desk.text("ticks", "often")
    assert "2030-01-01T00:00:00Z  the next" in out
    assert out.endswith("Each later one is due 15m after the run before it has ended.\n")
    assert desk.json("ticks", "often", "--from", "2031-01-01") == []


def test_an_every_that_keeps_to_the_clock_is_known_as_far_as_runs_do_not_outlast_it(desk: Desk) -> None:
    desk.schedule("rhythm", every="45m", align="start", timezone="Europe/Berlin", end="2030-01-01T02:00:00Z")
    window = ("ticks", "rhythm", "--from", "2030-01-01T00:00:00Z")
    found = [one["tick_at"] for one in desk.json(*window)]
    assert found == ["2030-01-01T00:00:00Z", "2030-01-01T00:45:00Z", "2030-01-01T01:30:00Z"]
    assert [one["tick_at"] for one in desk.json(*window, "--until", "2030-01-01T00:50:00Z")] == found[:2]
    assert [one["tick_at"] for one in desk.json(*window, "--limit", "1")] == found[:1]
    assert desk.text(*window, "-n", "1").endswith(
        "\n2030-01-01 01:00:00+01:00  2030-01-01T00:00:00Z  unless a run outlasts it\n"
    )


def test_a_schedule_that_makes_no_runs_says_so(desk: Desk) -> None:
    desk.schedule("nightly", cron="30 2 * * *", timezone="UTC")
    assert "It is" not in desk.text("ticks", "nightly")
    desk.text("schedule", "pause", "nightly", "--note", "audit")
    assert "It is paused: these are its ticks, and no runs come of them while it is." in desk.text("ticks", "nightly")


def test_what_cannot_be_answered_says_why(desk: Desk) -> None:
    desk.schedule("nightly", cron="30 2 * * *", timezone="UTC")
    unknown = desk.cli("ticks", "nightli")
    assert (unknown.code, 'Did you mean "nightly"?' in unknown.err) == (2, True)
    mixed = desk.cli("ticks", "nightly", "--timezone", "UTC")
    assert (mixed.code, "has its own expression" in mixed.err) == (2, True)
    backwards = desk.cli("ticks", "nightly", "--from", "2026-02-01", "--until", "2026-01-01")
    assert (backwards.code, "swap them" in backwards.err) == (2, True)
    nothing = desk.cli("ticks")
    assert (nothing.code, "say which schedule" in nothing.err) == (2, True)
