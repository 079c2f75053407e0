"""`fencepost schedule backfill`: runs for ticks that are over."""

from tests.support.desk import Desk


def test_a_range_makes_a_run_for_each_tick_and_prints_their_ids(desk: Desk) -> None:
    desk.schedule(cron="0 3 * * *", timezone="Europe/Berlin")
    desk.tick("2026-03-31T12:00:00Z")

    told = desk.cli("schedule-backfill", "nightly", "--from", "2026-03-28", "--until", "2026-03-31")

    assert told.code == 0, told
    ids = told.out.decode().split()
    runs = {run["id"]: run for run in desk.json("runs")}
    assert [runs[one]["tick"] for one in ids] == [
        "2026-03-28T02:00:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T01:00:00Z",
    ]
    assert {runs[one]["trigger"] for one in ids} == {"backfill"}
    assert "3 ticks; 3 new runs" in told.err


def test_a_range_before_the_schedule_was_there_names_the_way_to_run_it_all_the_same(desk: Desk) -> None:
    desk.schedule(cron="0 3 * * *", timezone="Europe/Berlin")
    desk.tick("2026-03-31T12:00:00Z")
    words = ("schedule-backfill", "nightly", "--from", "2020-01-01", "--until", "2020-01-03")

    told = desk.cli(*words)

    assert told.code == 0, told
    assert "no version of nightly that was in force then has a tick there" in told.err
    assert "2 ticks; 2 new runs" in desk.cli(*words, "--current").err


def test_asking_again_adds_nothing(desk: Desk) -> None:
    desk.schedule(cron="0 3 * * *", timezone="Europe/Berlin")
    desk.tick("2026-03-31T12:00:00Z")
    words = ("schedule-backfill", "nightly", "--from", "2026-03-28", "--until", "2026-03-31")
    desk.cli(*words)

    (again,) = desk.json(*words)

    assert (again["ticks"], again["known"], again["run_ids"]) == (3, 3, [])


def test_a_range_that_ends_before_it_begins_is_a_usage_error(desk: Desk) -> None:
    desk.schedule(cron="0 3 * * *", timezone="Europe/Berlin")

    assert desk.cli("schedule-backfill", "nightly", "--from", "2026-03-31", "--until", "2026-03-28").code == 2
