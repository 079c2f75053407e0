"""`fencepost runs` and `show`: what ran, how it ended, and everything about one."""

from datetime import timedelta

from fencepost.model.instants import from_us
from fencepost.model.run import Reason, RunState
from tests.support.desk import RUN_FIELDS, Desk

HOSTILE = "\033[2Jgone\a\rover\x9b31m\u202e"


def one_run(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")


def test_runs_come_newest_first(desk: Desk) -> None:
    one_run(desk)
    first = desk.lease()
    desk.settle(first)
    desk.tick("2026-03-27T14:00:01Z")

    newest, oldest = desk.json("runs")

    assert (newest["state"], oldest["state"]) == ("ready", "succeeded")
    assert oldest["id"] == first.run.id
    assert set(RUN_FIELDS) <= set(oldest)


def test_a_failed_run_shows_its_exit_code_and_how_long_it_took(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    desk.clock.pass_time(95)
    desk.settle(leased, RunState.DEAD, Reason.EXIT_CODE, exit_code=3)

    line = desk.text("runs").splitlines()[1]

    assert line.split() == [leased.run.id, "dead", "nightly", "1m35s", "ago", "1m35s", "exit", "code", "3"]


def test_cost_and_tokens_are_listed_where_they_were_told(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    assert "COST" not in desk.text("runs")
    desk.settle(leased, cost_micro=1_250_000, usage='{"input": 1200, "output": 300, "partial": true}')

    (listed,) = desk.json("runs")
    head, line = desk.text("runs").splitlines()
    shown = desk.text("show", leased.run.id)

    assert (listed["cost_usd"], listed["usage"]) == (1.25, {"input": 1200, "output": 300})
    assert head.split()[-3:] == ["COST", "TOKENS", "WHY"]
    assert line.split()[-2:] == ["$1.25", "1.5k"]
    assert "at least 1.2500 USD" in shown
    assert "at least input 1,200, output 300" in shown


def test_filters_narrow_the_listing(desk: Desk) -> None:
    one_run(desk)
    dead = desk.dead()
    desk.schedule("other", agent="scribe", cron="30 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:30:01Z")

    assert [run["id"] for run in desk.json("runs", "--state", "dead")] == [dead]
    assert [run["agent"] for run in desk.json("runs", "--schedule", "other")] == ["scribe"]
    assert [run["schedule"] for run in desk.json("runs", "--agent", "digest")] == ["nightly"]
    assert [run["schedule"] for run in desk.json("runs", "--since", "10m")] == ["other"]
    assert [run["schedule"] for run in desk.json("runs", "--since", "2026-03-27T13:30:00Z")] == ["other"]
    assert len(desk.json("runs", "--limit", "1")) == 1


def test_a_name_that_nobody_gave_is_said_with_the_one_that_was_meant(desk: Desk) -> None:
    one_run(desk)

    told = desk.cli("runs", "--schedule", "nigthly")

    assert (told.code, told.err) == (2, "fencepost: there is no schedule 'nigthly'; did you mean 'nightly'?\n")
    assert desk.text("runs", "--state", "dead") == "no runs\n"


def test_a_bad_filter_is_a_usage_error(desk: Desk) -> None:
    assert desk.cli("runs", "--state", "brilliant").code == 2
    told = desk.cli("runs", "--since", "yesterday")
    assert told.code == 2
    assert "neither a duration" in told.err


def test_show_tells_everything_about_a_run(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    desk.log(leased, "reading\nwriting\n").close()
    desk.clock.pass_time(5)
    desk.settle(
        leased, RunState.DEAD, Reason.TIMEOUT, last_log="reading\nwriting\n", summary="half done", cost_micro=1_500
    )

    text = desk.flat("show", leased.run.id)

    for part in (
        f"{leased.run.id} dead",
        "dead after 5s, just now: it ran longer than timeout",
        "agent digest, schedule nightly version 1, trigger cron",
        "2026-03-27T13:00:00Z (6s ago)",
        "2026-03-27T12:00:00Z to 2026-03-27T13:00:00Z",
        f"fence {leased.lease.fence}",
        "0.0015 USD",
        "half done",
        "last lines: reading writing",
    ):
        assert part in text, part
    (shown,) = desk.json("show", leased.run.id)
    assert shown["attempts"][0]["fence"] == leased.lease.fence
    assert shown["log"].endswith(f"{leased.run.id}.{leased.lease.fence}.log")
    assert shown["period_start"] == "2026-03-27T12:00:00Z"


def test_show_says_how_a_run_is_counted_that_told_no_cost(desk: Desk) -> None:
    desk.agent(budget_usd="2.5")
    desk.schedule(cron="*/10 * * * *", timezone="UTC")
    desk.tick("2026-03-27T12:10:01Z")
    leased = desk.lease()
    desk.clock.pass_time(90)
    desk.settle(leased)

    shown = desk.flat("show", leased.run.id)
    assert "not told; 2.50 USD were set aside and are counted; counted as one run of 1m30s" in shown


def test_show_tells_the_lease_of_a_running_run_and_that_it_was_asked_to_stop(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease(pid=99)
    desk.clock.pass_time(3)
    desk.store.cancel(leased.run.id, tenant="default", by="ada")

    text = desk.flat("show", leased.run.id)

    assert "running for 3s; asked to stop: a person cancelled it" in text
    assert "pid 99 on" in text


def test_show_says_why_a_run_is_back_in_the_queue(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    later = from_us(desk.clock.wall) + timedelta(seconds=90)
    desk.settle(leased, RunState.READY, Reason.RETRY, ready_at=later, exit_code=1)

    text = desk.flat("show", leased.run.id)

    assert "not before 2026-03-27T13:01:31Z (in 1m30s); back in the queue: it failed, and attempts are left" in text


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(desk: Desk) -> None:
    one_run(desk)
    (run,) = desk.json("runs")
    assert desk.json("show", run["id"][:-1])[0]["id"] == run["id"]

    desk.lease()
    desk.tick("2026-03-27T14:00:01Z")  # overlap
    desk.schedule("other", cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T15:00:01Z")
    told = desk.cli("show", "r")
    assert told.code == 2
    assert "several runs begin with 'r'" in told.err
    assert desk.cli("show", "nothing").err == "fencepost: there is no run 'nothing'; see: fencepost runs\n"
    assert desk.cli("show", "").code == 2


def test_hostile_text_cannot_steer_the_terminal(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    desk.log(leased, f"{HOSTILE}\n").close()
    desk.settle(leased, RunState.DEAD, Reason.EXIT_CODE, exit_code=1, last_log=HOSTILE, summary=HOSTILE)

    for words in (("show", leased.run.id), ("runs",), ("dead", "list")):
        shown = desk.text(*words)
        assert [character for character in shown if not character.isprintable() and character != "\n"] == []
