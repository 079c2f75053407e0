"""`fencepost why`: the answer to every way in which a tick can pass, from what was recorded."""

import pytest

from fencepost.model.run import Reason, RunState
from tests.support.desk import Desk

BERLIN = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}


def verdict(desk: Desk, *words: str) -> str:
    answers = desk.json("why", *words)
    return str(answers[-1]["verdict"])


def test_a_tick_that_ran_names_its_run_and_how_it_ended(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    desk.clock.pass_time(62)
    desk.settle(leased)

    text = desk.flat("why", "nightly")

    assert text.startswith("The last tick was 2026-03-27T13:00:00Z, 1m3s ago.")
    assert f"Run {leased.run.id} ran for it and succeeded after 1m2s, started at 2026-03-27T13:00:01Z." in text
    assert text.endswith("The next tick is 2026-03-27T14:00:00Z, in 58m57s.")
    (answer,) = desk.json("why", "nightly")
    assert (answer["verdict"], answer["run"]["id"]) == ("succeeded", leased.run.id)
    assert (answer["tick"]["disposition"], answer["next_tick"]) == ("run", "2026-03-27T14:00:00Z")


def test_a_failed_run_shows_its_exit_code_and_its_last_line(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    dead = desk.dead(exit_code=3, last_log="started\nKeyError: 'month'\033[2J\n")

    text = desk.flat("why", "nightly", "--at", "2026-03-27T13:00:00Z")

    assert f"Run {dead} ran for it and failed: the agent exited with code 3" in text
    assert "Its last line: KeyError: 'month'�[2J" in text
    assert f"fencepost dead replay {dead}" in text


def test_a_run_that_waits_says_behind_what(desk: Desk) -> None:
    desk.schedule(**HOURLY, overlap="queue")
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    running = leased.run.id
    desk.tick("2026-03-27T14:00:01Z")
    desk.store.renew(leased.lease)

    text = desk.flat("why", "nightly")

    assert f"behind {running} (digest," in text
    assert verdict(desk, "nightly") == "ready"


def test_a_running_run_says_since_when_and_where(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()

    assert f"Run {leased.run.id} is running for it since 2026-03-27T13:00:01Z, attempt 1 on" in desk.flat(
        "why", "nightly"
    )


def test_a_run_that_a_person_cancelled_names_the_person(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    (run,) = desk.json("runs")
    desk.store.cancel(run["id"], tenant="default", by="grace")

    assert f"Run {run['id']} was made for it and was cancelled by grace: a person cancelled it." in desk.flat(
        "why", "nightly"
    )


def test_a_missed_tick_says_how_late_the_scheduler_was(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:10:00Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-27T13:00:00Z")

    assert "It was missed: the scheduler looked at 2026-03-27T13:10:00Z, 10m after the tick (grace is 60s)." in text
    assert verdict(desk, "nightly") == "missed"


def test_one_tick_of_a_long_downtime_is_found_in_its_range(desk: Desk) -> None:
    desk.schedule(cron="* * * * *", timezone="UTC")
    desk.tick("2026-04-27T13:10:00Z")

    text = desk.flat("why", "nightly", "--at", "2026-04-02T10:17:00Z")

    assert "ticks from 2026-03-27T12:01:00Z to 2026-04-27T13:0" in text
    assert verdict(desk, "nightly", "--at", "2026-04-02T10:17:00Z") == "missed"
    assert verdict(desk, "nightly", "--at", "2026-04-02T10:17:30Z") == "no_tick"


def test_an_overlap_names_the_run_that_was_in_the_way(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    first = desk.lease()
    desk.tick("2026-03-27T14:00:01Z")
    desk.settle(first)

    text = desk.flat("why", "nightly", "--at", "2026-03-27T14:00:00Z")

    assert f"skipped because of overlap: run {first.run.id} (running for 1h then) had not ended." in text
    assert 'overlap = "forbid"' in text


def test_a_coalesced_tick_names_the_run_that_covers_it(desk: Desk) -> None:
    desk.schedule(**HOURLY, missed="coalesce")
    desk.tick("2026-03-27T16:30:00Z")
    (run,) = desk.json("runs")

    text = desk.flat("why", "nightly", "--at", "2026-03-27T14:00:00Z")

    assert f"the catch-up run for the tick of {run['tick']}, run {run['id']}, covers it." in text


def test_a_pause_names_who_paused_it_and_the_note(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.registry.pause("default", "nightly", until=None, note="migrating the ledger\a", actor="grace")
    desk.tick("2026-03-27T13:00:01Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-27T13:00:00Z")

    assert (
        'It was skipped: the schedule was paused by grace from 2026-03-27T12:00:00Z ("migrating the ledger�").' in text
    )
    assert "Now: the schedule was paused by grace" in text
    assert verdict(desk, "nightly") == "paused"


def test_a_halt_is_told_apart_from_a_pause(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.registry.halt("default", note="", actor="grace")
    desk.tick("2026-03-27T13:00:01Z")

    assert "It was skipped: everything was halted by grace" in desk.flat("why", "nightly")


def test_skip_next_is_told_apart_from_a_pause(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.registry.skip_next("default", "nightly", 1, actor="grace")
    assert "It is to be skipped (skip-next, 1 left)." in desk.flat("why", "nightly")
    desk.tick("2026-03-27T13:00:01Z")

    assert "by skip-next, asked for by grace at 2026-03-27T12:00:00Z." in desk.flat("why", "nightly")


def test_a_blackout_names_the_entry_of_the_calendar(desk: Desk) -> None:
    desk.schedule(**HOURLY, calendar=("2026-12-25", "FRI"))
    desk.tick("2026-03-27T13:00:01Z")

    assert 'It fell into a blackout of the schedule\'s calendar: "FRI".' in desk.flat("why", "nightly")


def test_a_budget_names_the_limit(desk: Desk) -> None:
    desk.schedule(cron="*/10 * * * *", timezone="UTC", max_runs_per_hour=1)
    desk.tick("2026-03-27T12:10:01Z")
    desk.settle(desk.lease())
    desk.tick("2026-03-27T12:20:01Z")

    said = desk.flat("why", "nightly")
    assert "because of the budget: 1 run within an hour, of 1 allowed." in said
    assert verdict(desk, "nightly") == "budget"


def test_a_budget_of_time_is_named_too(desk: Desk) -> None:
    desk.schedule(cron="*/10 * * * *", timezone="UTC", max_time_per_day="5m", budget_usd_per_day="100")
    desk.tick("2026-03-27T12:10:01Z")
    leased = desk.lease()
    desk.clock.pass_time(400)
    desk.settle(leased)
    desk.tick("2026-03-27T12:20:01Z")

    said = desk.flat("why", "nightly")
    assert "because of the budget: runs took 6m40s of this day, of 5m allowed." in said
    assert "dollars" not in said, "there was money enough"


def test_a_budget_that_was_recorded_without_its_limit_names_all_limits(desk: Desk) -> None:
    desk.schedule(cron="*/10 * * * *", timezone="UTC", max_runs_per_hour=1)
    desk.tick("2026-03-27T12:10:01Z")
    desk.settle(desk.lease())
    desk.tick("2026-03-27T12:20:01Z")
    connection = desk.store.dialect._connection  # type: ignore[attr-defined]  # as an older program wrote it
    connection.execute("UPDATE audit SET detail = json_remove(detail, '$.denied')")

    assert "(max_runs_per_hour = 1)" in desk.flat("why", "nightly")


def test_a_wall_time_that_did_not_exist_says_so(desk: Desk) -> None:
    desk.schedule(**BERLIN)
    desk.tick("2026-03-28T01:30:01Z")
    desk.settle(desk.lease())
    desk.tick("2026-03-30T00:30:01Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-29T02:30")

    assert "02:30 did not exist on Sun 2026-03-29 in Europe/Berlin: clocks jumped ahead" in text
    assert verdict(desk, "nightly", "--at", "2026-03-29T02:30") == "dst_gap"


def test_a_gap_is_recorded_when_it_ends_and_until_then_nobody_has_looked(desk: Desk) -> None:
    desk.schedule(**BERLIN)
    desk.tick("2026-03-28T01:30:01Z")
    desk.clock.go_to("2026-03-29T09:00:00Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-29T02:30")
    assert "(skipped, 02:30 does not exist) is due and not decided yet." in text
    assert "has not looked" in text

    desk.tick()
    text = desk.flat("why", "nightly", "--at", "2026-03-29T02:30")
    assert "02:30 did not exist on Sun 2026-03-29 in Europe/Berlin" in text
    assert "has not looked" not in text


def test_an_instant_between_ticks_names_its_neighbours(desk: Desk) -> None:
    desk.schedule(**BERLIN)
    desk.tick("2026-03-28T01:30:01Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-28T02:30:30")

    assert "There was no tick at Sat 2026-03-28 02:30:30 Europe/Berlin" not in text  # it has not come yet
    desk.clock.pass_time(60)
    text = desk.flat("why", "nightly", "--at", "2026-03-28T02:30:30")
    assert "There was no tick at Sat 2026-03-28 02:30:30 Europe/Berlin (2026-03-28T01:30:30Z)." in text
    assert "The tick before it was Sat 2026-03-28 02:30 Europe/Berlin" in text
    assert "The next tick is Mon 2026-03-30 02:30 Europe/Berlin" in text


def test_the_future_is_told_with_its_clock_changes(desk: Desk) -> None:
    desk.schedule(**BERLIN)

    assert "a tick is due then" in desk.flat("why", "nightly", "--at", "2026-03-28T02:30")
    gap = desk.flat("why", "nightly", "--at", "2026-03-29T02:30")
    assert "nothing will run then (skipped, 02:30 does not exist)" in gap
    assert "a tick is due then" not in gap
    assert verdict(desk, "nightly", "--at", "2026-03-29T02:30") == "dst_gap"
    assert verdict(desk, "nightly", "--at", "2026-03-28T02:30") == "future"
    assert verdict(desk, "nightly", "--at", "2026-03-28T05:00") == "no_tick"


def test_a_pause_that_covers_a_tick_to_come_is_said(desk: Desk) -> None:
    desk.schedule(**BERLIN)
    desk.registry.pause("default", "nightly", until=None, note="holidays", actor="grace")

    assert "But the schedule was paused by grace" in desk.flat("why", "nightly", "--at", "2026-03-28T02:30")


def test_a_scheduler_that_does_not_look_is_said_with_its_cursor(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.clock.go_to("2026-03-27T15:00:00Z")

    text = desk.flat("why", "nightly", "--at", "2026-03-27T13:00:00Z")

    assert "The tick of 2026-03-27T13:00:00Z is due and not decided yet." in text
    assert "The scheduler has not looked at it since 2026-03-27T12:00:00Z (3h ago)" in text
    assert "is `fencepost up` running?" in text
    assert verdict(desk, "nightly", "--at", "2026-03-27T13:00:00Z") == "pending"


def test_before_the_first_apply_nothing_was_owed(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    text = desk.flat("why", "nightly", "--at", "2026-03-27T09:00:00Z")

    assert "Nothing was owed at 2026-03-27T09:00:00Z: the schedule was first applied at 2026-03-27T12:00:00Z." in text


def test_a_retired_schedule_still_answers(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    desk.settle(desk.lease())
    desk.forget("nightly")

    text = desk.flat("why", "nightly")

    assert "succeeded" in text
    assert "The schedule is retired since 2026-03-27T13:00:01Z: its file no longer defines it." in text
    assert "next tick" not in text
    assert verdict(desk, "nightly", "--at", "2026-03-28T13:00:00Z") == "retired"


def test_a_disabled_schedule_says_so(desk: Desk) -> None:
    desk.schedule(**HOURLY, enabled=False)

    assert "The schedule is disabled (enabled = false)." in desk.flat("why", "nightly")


def test_an_unknown_schedule_is_a_usage_error_with_a_suggestion(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    told = desk.cli("why", "nigthly")

    assert (told.code, told.err) == (2, "fencepost: there is no schedule 'nigthly'; did you mean 'nightly'?\n")
    assert "'digest' is an agent and has no ticks" in desk.cli("why", "digest").err


def in_the_way(desk: Desk) -> str:
    """Let two ticks be decided at one moment, of which the first makes a run that is written down a bit later."""
    desk.schedule(cron="* * * * *", timezone="UTC", grace="10m")
    desk.tick("2026-03-27T12:02:30Z")
    execute = desk.store.dialect._connection.execute  # type: ignore[attr-defined]
    execute("UPDATE run SET created_us = created_us + 211")
    ((run_id,),) = execute("SELECT id FROM run").fetchall()
    return str(run_id)


def test_a_tick_that_was_decided_together_with_its_predecessor_names_the_run_in_its_way(desk: Desk) -> None:
    run_id = in_the_way(desk)

    told = desk.flat("why", "nightly", "--at", "2026-03-27T12:02:00Z")

    assert f"It was skipped because of overlap: run {run_id} (made at the same moment) had not ended." in told
    skipped, made = desk.json("schedule-ticks", "nightly")
    assert (skipped["disposition"], skipped["behind"], made["behind"]) == ("overlap", [run_id], [])


def test_a_run_in_the_way_that_was_pruned_is_still_named(desk: Desk) -> None:
    run_id = in_the_way(desk)
    desk.store.dialect._connection.execute("DELETE FROM run")  # type: ignore[attr-defined]

    told = desk.flat("why", "nightly", "--at", "2026-03-27T12:02:00Z")

    assert f"run {run_id} (pruned since) had not ended" in told


def test_a_tick_of_an_older_program_is_explained_by_what_was_alive_then(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    desk.tick("2026-03-27T14:00:01Z")
    desk.store.dialect._connection.execute("UPDATE tick SET behind = NULL")  # type: ignore[attr-defined]

    assert f"run {leased.run.id} (running for 1h then)" in desk.flat("why", "nightly")


def test_every_says_after_which_run_it_comes_again(desk: Desk) -> None:
    desk.schedule(every="15m")
    desk.tick("2026-03-27T12:00:01Z")
    leased = desk.lease()
    assert f"The next tick comes 15m after run {leased.run.id} has ended." in desk.flat("why", "nightly")
    desk.settle(leased)

    assert "The next tick is 2026-03-27T12:15:01Z, in 15m." in desk.flat("why", "nightly")


def test_every_that_waits_for_its_budget_says_so_with_the_tick_that_it_owes(desk: Desk) -> None:
    desk.schedule(every="15m", max_runs_per_hour=1)
    desk.tick("2026-03-27T12:00:01Z")
    desk.settle(desk.lease())
    for minute in (15, 16, 17):
        desk.tick(f"2026-03-27T12:{minute}:05Z")

        told = desk.flat("why", "nightly")
        assert "The next tick was to be 2026-03-27T12:15:01Z" in told
        assert "and waits for its budget: 1 run within an hour, of 1 allowed." in told
        (row,) = desk.json("schedule", "list")
        assert row["next_at"] == "2026-03-27T12:15:01Z"


def test_every_that_waits_for_the_end_of_a_pause_or_a_blackout_says_so(desk: Desk) -> None:
    desk.schedule(every="15m", calendar=("2026-03-27",))
    desk.tick("2026-03-27T12:00:01Z")
    assert "waits for the end of a blackout of its calendar" in desk.flat("why", "nightly")

    desk.cli("schedule", "pause", "nightly", "--note", "moving")
    desk.tick("2026-03-27T12:00:30Z")
    assert "and waits until that is over" in desk.flat("why", "nightly")


@pytest.mark.parametrize("at", ["soon", "2026-13-01", "2026-03-27T99:00:00Z"])
def test_an_instant_that_cannot_be_read_is_a_usage_error(desk: Desk, at: str) -> None:
    desk.schedule(**HOURLY)

    assert desk.cli("why", "nightly", "--at", at).code == 2


def test_a_lost_run_says_what_was_recorded(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    desk.settle(leased, RunState.DEAD, Reason.LOST, outcome="lost")

    assert "its worker was lost after the agent had started" in desk.flat("why", "nightly")
