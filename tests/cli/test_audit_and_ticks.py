"""`fencepost audit list` and `schedule ticks`: what was recorded."""

from fencepost.cli.render import table
from tests.support.desk import Desk
from tests.support.terminal import as_if_on_a_terminal

TICK_FIELDS = ("schedule", "version", "slot", "slot_until", "count", "tick_at", "disposition", "run_id")


def test_recorded_ticks_come_newest_first_and_a_range_is_one_line(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.tick("2026-03-27T20:30:00Z")

    missed, ran = desk.json("schedule-ticks", "nightly")

    assert set(TICK_FIELDS) <= set(missed)
    assert (missed["disposition"], missed["count"], missed["tick_at"]) == ("missed", 7, "2026-03-27T14:00:00Z")
    assert (ran["disposition"], ran["slot"]) == ("run", "2026-03-27T13:00:00")
    assert "2026-03-27 14:00 and 6 more" in desk.text("schedule-ticks", "nightly")


def test_ticks_can_be_narrowed(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.tick("2026-03-27T20:30:00Z")

    assert len(desk.json("schedule-ticks", "nightly", "--disposition", "missed")) == 1
    assert len(desk.json("schedule-ticks", "nightly", "--until", "2026-03-27T14:00:00Z")) == 1
    assert len(desk.json("schedule-ticks", "nightly", "--from", "2026-03-27T14:00:00Z")) == 1
    assert desk.cli("schedule-ticks", "nightly", "--disposition", "eaten").code == 2


def test_a_schedule_without_recorded_ticks_says_where_to_look(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")

    assert desk.text("schedule-ticks", "nightly") == "no recorded ticks; for those to come: fencepost ticks nightly\n"
    assert desk.cli("schedule-ticks", "nigthly").err.endswith("did you mean 'nightly'?\n")


def test_the_audit_says_who_did_what_newest_first(desk: Desk) -> None:
    assert desk.text("audit", "list") == "the audit is empty\n"
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.registry.pause("default", "nightly", until=None, note="\033[2J", actor="grace\a")

    newest, *_ = desk.json("audit", "list")

    assert (newest["verb"], newest["subject"]) == ("pause", "schedule:nightly")
    assert len(desk.json("audit", "list", "--verb", "apply")) == 1
    assert "grace�" in desk.text("audit", "list")


def test_a_table_fits_however_long_one_of_its_columns_is() -> None:
    rows = [("r01k9zq8", "ada", f"file:/{'deep/' * 30}", "done"), ("r01k9zq9", "root", "schedule:x", "d" * 90)]
    head = ("RUN", "WHO", "SUBJECT", "DETAIL")
    with as_if_on_a_terminal():
        lines = table(head, rows).split("\n")
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("r01k9zq8  ada ")

    piped = table(head, rows).split("\n")
    assert [line.split() for line in piped] == [list(row) for row in (head, *rows)], "what is piped is never cut"
