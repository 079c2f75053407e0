"""`fencepost cancel` and `dead`: what a person does about a run."""

import json

from fencepost.model.run import Reason, RunState
from tests.support.desk import RUN_FIELDS, Desk

HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}


def queued(desk: Desk) -> str:
    desk.schedule(**HOURLY)
    desk.tick("2026-03-27T13:00:01Z")
    return str(desk.json("runs")[0]["id"])


def test_a_queued_run_is_cancelled_at_once(desk: Desk) -> None:
    run_id = queued(desk)

    assert desk.text("cancel", run_id[:-1]) == f"{run_id} is cancelled; it had not started\n"
    assert desk.json("show", run_id)[0]["state"] == "cancelled"


def test_a_running_run_is_asked_to_stop(desk: Desk) -> None:
    queued(desk)
    leased = desk.lease()

    assert f"{leased.run.id} is asked to stop" in desk.text("cancel", leased.run.id)
    assert desk.store.stops_asked(leased.lease) == {leased.run.id: "cancelled"}
    assert desk.json("show", leased.run.id)[0]["stop"] == "cancelled"


def test_a_run_that_has_ended_says_how_and_exits_1(desk: Desk) -> None:
    queued(desk)
    leased = desk.lease()
    desk.settle(leased)

    told = desk.cli("cancel", leased.run.id)

    assert told.code == 1
    assert "had ended already, just now: succeeded" in told.out.decode()


def test_no_run_is_a_usage_error(desk: Desk) -> None:
    assert desk.cli("cancel", "r9").code == 2


def test_no_dead_letters_is_said(desk: Desk) -> None:
    assert desk.text("dead", "list") == "no dead letters\n"


def test_a_dead_letter_is_told_with_its_reason_and_its_last_words(desk: Desk) -> None:
    run_id = queued(desk)
    desk.dead(exit_code=3, last_log="reading\nKeyError: 'month'\n")
    desk.clock.pass_time(7200)

    assert desk.text("dead", "list").splitlines() == [
        f"{run_id}  nightly  2h ago",
        "  the agent exited with code 3: KeyError: 'month'",
    ]
    (letter,) = desk.json("dead", "list")
    assert {*RUN_FIELDS, "died_at", "last_log"} <= set(letter)
    assert (letter["died_at"], letter["last_log"]) == ("2026-03-27T13:00:01Z", "reading\nKeyError: 'month'\n")


def test_show_says_what_can_be_done(desk: Desk) -> None:
    queued(desk)
    dead = desk.dead()

    text = desk.text("dead", "show", dead)

    assert f"run it again:  fencepost dead replay {dead}" in text
    assert desk.json("dead", "show", dead)[0]["died_at"] == "2026-03-27T13:00:01Z"


def test_show_refuses_a_run_that_is_not_dead(desk: Desk) -> None:
    run_id = queued(desk)

    assert f"is ready, not dead; see: fencepost show {run_id}" in desk.cli("dead", "show", run_id).err


def test_a_replay_is_a_new_run_that_is_linked_to_the_old_one(desk: Desk) -> None:
    queued(desk)
    dead = desk.dead()

    told = desk.cli("dead", "replay", dead[:-1])

    new = told.out.decode().splitlines()[-1]
    (shown,) = desk.json("show", new)
    assert (shown["trigger"], shown["origin"], shown["tick"]) == ("replay", dead, "2026-03-27T13:00:00Z")
    assert desk.json("show", dead)[0]["replays"] == [new]
    assert f"a replay of {dead}" in desk.text("show", new)
    assert f"as {new}, queued" in desk.text("show", dead)
    assert desk.json("dead", "list") == []  # a replay takes it off the desk


def test_replaying_twice_points_to_the_first_replay(desk: Desk) -> None:
    queued(desk)
    dead = desk.dead()
    first = desk.cli("dead", "replay", dead).out

    again = desk.cli("dead", "replay", dead)

    assert again.out == first
    assert "was replayed before" in again.err


def test_all_dead_letters_of_a_schedule_are_replayed_oldest_first_within_a_limit(desk: Desk) -> None:
    queued(desk)
    dead = [desk.dead()]
    for hour in (14, 15):
        desk.tick(f"2026-03-27T{hour}:00:01Z")
        dead.append(desk.dead())

    told = desk.cli("dead", "replay", "--all", "--schedule", "nightly", "--limit", "2", "--json")

    assert [json.loads(line)["origin"] for line in told.out.splitlines()] == dead[1:]


def test_all_without_a_schedule_is_refused(desk: Desk) -> None:
    for words in (("--all",), (), ("--all", "r1", "--schedule", "nightly")):
        assert desk.cli("dead", "replay", *words).code == 2


def test_a_discarded_letter_is_off_the_desk_and_in_the_records(desk: Desk) -> None:
    queued(desk)
    dead = desk.dead()

    assert f"{dead} is off the desk" in desk.text("dead", "discard", dead)
    assert desk.json("dead", "list") == []
    assert desk.json("runs", "--state", "dead")[0]["id"] == dead


def test_why_a_letter_was_discarded_stays_in_the_audit(desk: Desk) -> None:
    queued(desk)
    dead = desk.dead()
    desk.text("dead", "discard", dead, "--note", "the source was closed that day")

    (found,) = desk.json("audit", "list", "--verb", "discard")
    assert found["subject"] == f"run:{dead}"
    assert "the source was closed that day" in json.dumps(found)


def test_what_is_not_dead_cannot_be_discarded_or_replayed(desk: Desk) -> None:
    queued(desk)
    leased = desk.lease()
    assert desk.cli("dead", "discard", leased.run.id).code == 2
    desk.settle(leased, RunState.SUCCEEDED)

    told = desk.cli("dead", "replay", leased.run.id)

    assert told.code == 2
    assert "nothing to replay" in told.err


def test_a_timeout_is_told_in_words(desk: Desk) -> None:
    queued(desk)
    desk.settle(desk.lease(), RunState.DEAD, Reason.TIMEOUT)

    assert "it ran longer than timeout" in desk.text("dead", "list")
