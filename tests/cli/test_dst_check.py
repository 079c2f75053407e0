"""`fencepost dst-check`: what the coming clock changes will do to each schedule."""

from tests.support.desk import Desk

BERLIN = {"timezone": "Europe/Berlin"}


def effects(desk: Desk, *words: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in desk.json("dst-check", *words):
        found.setdefault(row["schedule"], []).append(row["effect"])
    return found


def test_each_policy_is_shown_at_both_changes(desk: Desk) -> None:
    desk.schedule("skips", cron="30 2 * * *", **BERLIN)
    desk.schedule("shifts", cron="30 2 * * *", dst_gap="shift", dst_fold="last", **BERLIN)
    desk.schedule("hourly", cron="0 * * * *", **BERLIN)
    desk.schedule("noon", cron="0 12 * * *", **BERLIN)
    desk.schedule("utc", cron="30 2 * * *", timezone="UTC")

    assert effects(desk) == {
        "skips": ["skipped", "first"],
        "shifts": ["shifted", "last"],
        "hourly": ["skipped", "both"],
    }


def test_the_page_names_each_change_once_and_says_what_happens_to_whom(desk: Desk) -> None:
    desk.schedule("hourly", cron="*/15 * * * *", **BERLIN)
    desk.schedule("nightly", cron="30 2 * * *", **BERLIN)

    lines = desk.text("dst-check").splitlines()

    assert lines[0].startswith("2 of 2 schedules are touched by clock changes until 2027-03-27")
    assert lines[2:5] == [
        "Sun 2026-03-29 03:00 Europe/Berlin: clocks go ahead by 1h (2026-03-29T01:00:00Z)",
        "  hourly: 4 slots from 02:00 do not exist: skipped",
        "  nightly: 02:30 does not exist: skipped",
    ]
    assert "  nightly: 02:30 comes twice: runs the first time" in lines


def test_a_shifted_slot_that_meets_a_regular_tick_joins_it(desk: Desk) -> None:
    desk.schedule("joins", cron="0,30 2,3 * * *", dst_gap="shift", **BERLIN)
    desk.schedule("alone", cron="30 2 * * *", dst_gap="shift", **BERLIN)

    text = desk.text("dst-check")

    assert "joins: 2 slots from 02:00 do not exist: joins the tick at 03:00" in text
    assert "alone: 02:30 does not exist: runs once at 03:00" in text


def test_half_an_hour_is_a_clock_change_too(desk: Desk) -> None:
    desk.schedule("howe", cron="15,45 1,2 * * *", timezone="Australia/Lord_Howe")

    assert {row["shift_minutes"] for row in desk.json("dst-check")} == {-30, 30}


def test_an_every_second_schedule_costs_no_time(desk: Desk) -> None:
    desk.schedule("busy", cron="* * * * * *", **BERLIN)

    rows = desk.json("dst-check", "--years", "20")

    assert len(rows) == 41
    assert rows[0]["ticks"] == 3600


def test_nothing_to_tell_is_said(desk: Desk) -> None:
    desk.schedule("utc", cron="30 2 * * *", timezone="UTC")

    assert desk.text("dst-check").startswith("no clock change until 2027-03-27 touches any of 1 schedules")


def test_a_limit_is_kept_and_said(desk: Desk) -> None:
    desk.schedule("nightly", cron="30 2 * * *", **BERLIN)

    assert desk.text("dst-check", "--years", "3", "--limit", "2").splitlines()[-1].startswith("... and 5 more")
    assert desk.cli("dst-check", "--years", "51").code == 2
