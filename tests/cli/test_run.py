"""`fencepost run`: now, through the same queue, and with --wait as long as it takes."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.model.run import Reason, RunState
from tests.support.desk import Desk

HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}


def meanwhile(desk: Desk, *steps: Callable[[], object]) -> None:
    """Let something happen each time that somebody waits."""
    left = list(steps)

    def sleep(seconds: float) -> None:
        desk.clock.pass_time(seconds)
        if left:
            left.pop(0)()

    desk.clock.sleep = sleep  # type: ignore[method-assign]


def test_the_runs_id_is_the_last_line_and_the_run_is_queued(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    told = desk.cli("run", "nightly")

    assert told.code == 0
    run_id = told.out.decode().splitlines()[-1]
    (run,) = desk.json("runs")
    assert (run["id"], run["state"], run["trigger"], run["schedule"]) == (run_id, "ready", "manual", "nightly")
    assert "queued · position 1 · waits for a worker" in told.err


def test_an_agent_runs_without_a_schedule(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    desk.text("run", "digest")

    assert desk.json("runs")[0]["schedule"] is None


def test_a_file_of_payloads_makes_one_run_for_each_line_and_the_same_key_the_same_runs(
    desk: Desk, tmp_path: Path
) -> None:
    desk.agent()
    desk.apply()
    file = tmp_path / "orders.jsonl"
    file.write_text('{"n": 1}\n\n{"n": 2}\n{"n": 3}\n')

    first = desk.text("run", "digest", "--payloads", str(file), "--key", "march").split()
    again = desk.cli("run", "digest", "--payloads", str(file), "--key", "march")

    assert again.out.decode().split() == first
    assert "3 runs of digest; 3 of them had been asked for before" in again.err
    payloads = {run.id: json.loads(run.payload) for run in desk.store.runs(tenant="default", limit=9)}
    assert [payloads[run_id] for run_id in first] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [one["earlier"] for one in desk.json("run", "digest", "--payloads", str(file))] == [False] * 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"n": 1}\n{"n": \n', ":2: this is no JSON"),
        ('{"n": 1}\n[2]\n', ":2: a payload is a JSON object"),
        ("\n\n", "has no payloads"),
    ],
)
def test_one_bad_line_and_none_of_the_runs_is_made(desk: Desk, tmp_path: Path, text: str, complaint: str) -> None:
    desk.agent()
    desk.apply()
    (tmp_path / "orders.jsonl").write_text(text)

    told = desk.cli("run", "digest", "--payloads", str(tmp_path / "orders.jsonl"))

    assert told.code == 2
    assert complaint in told.err
    assert desk.json("runs") == []


def test_payloads_that_do_not_fit_are_refused_at_the_first_too_many(desk: Desk, tmp_path: Path) -> None:
    desk.agent(waiting_max=3)
    desk.apply()
    file = tmp_path / "orders.jsonl"
    file.write_text('{"n": 1}\n' * 4 + "this is never read\n")

    told = desk.cli("run", "digest", "--payloads", str(file))

    assert (told.code, told.out) == (75, b"")
    assert "at most 3 runs of this agent may wait. Ask for at most 3 at a time, or raise waiting_max" in told.err
    file.write_text('{"n": 1}\n' * 2)
    desk.text("run", "digest", "--payloads", str(file))
    again = desk.cli("run", "digest", "--payloads", str(file))
    assert "at most 3 runs of this agent may wait, and 2 do already. Ask for at most 1 at a time" in again.err
    assert len(desk.store.runs(tenant="default", limit=9)) == 2


def test_payloads_from_stdin_and_what_goes_with_one_run_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.schedule(**HOURLY)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"n": 1}\n'))

    assert len(desk.text("run", "digest", "--payloads", "-").split()) == 1
    assert desk.cli("run", "digest", "--payloads", "-", "--wait").code == 2
    assert desk.cli("run", "digest", "--payloads", "/not/there").code == 2


def test_a_busy_schedule_refuses_up_front_with_75(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    desk.text("run", "nightly")

    told = desk.cli("run", "nightly")

    assert (told.code, told.out) == (75, b"")
    assert 'overlap = "forbid"' in told.err
    assert len(desk.json("runs")) == 1


def test_the_same_key_is_the_same_run(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    first = desk.text("run", "digest", "--key", "order-1")
    again = desk.cli("run", "digest", "--key", "order-1")

    assert again.out.decode() == first
    assert "the key 'order-1' made this run before" in again.err


def test_a_payload_comes_from_the_line_a_file_or_stdin(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.schedule(**HOURLY)
    (tmp_path / "order.json").write_text('{"from": "file"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"from": "stdin"}'))

    for word in ('{"from": "line"}', "@order.json", "-"):
        desk.text("run", "digest", "--payload", word)

    found = [desk.json("show", run["id"])[0]["payload"] for run in desk.json("runs")]
    assert sorted(one["from"] for one in found) == ["file", "line", "stdin"]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("{month: 3}", "--payload is no JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ("[1]", "--payload is a JSON list, and has to be an object"),
        ("@missing.json", "the payload cannot be read from missing.json: No such file or directory."),
        ("", "--payload is no JSON"),
        ('{"share": 1e999}', "the payload is no JSON: Out of range float values"),
        ('{"share": NaN}', "finite numbers"),
    ],
)
def test_a_bad_payload_says_where_and_why_and_nothing_is_queued(desk: Desk, payload: str, why: str) -> None:
    desk.schedule(**HOURLY)

    told = desk.cli("run", "digest", "--payload", payload)

    assert told.code == 2
    assert why in told.err
    assert desk.json("runs") == []


def test_an_unknown_name_is_a_usage_error(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    assert desk.cli("run", "nigthly").code == 2


def test_a_tick_that_succeeded_is_not_run_again_unless_said_aloud(desk: Desk) -> None:
    desk.schedule(cron="30 2 * * *", timezone="Europe/Berlin")
    desk.tick("2026-03-28T01:30:01Z")
    leased = desk.lease()
    desk.settle(leased, summary="closed")

    done = desk.cli("run", "nightly", "--tick", "2026-03-28T02:30", "--json")

    assert done.code == 0
    assert json.loads(done.out)["summary"] == "closed"
    again = desk.cli("run", "nightly", "--tick", "2026-03-28T02:30", "--again")
    assert "effects may happen twice" in again.err
    assert again.out.decode().strip() != leased.run.id


def test_waiting_streams_the_log_says_what_happens_and_ends_with_the_agents_code(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    taken = []

    def take() -> None:
        taken.append(desk.lease())
        desk.log(taken[0], "working\n").close()

    def fail() -> None:
        desk.settle(taken[0], RunState.DEAD, Reason.EXIT_CODE, exit_code=42)

    meanwhile(desk, take, *[lambda: None] * 7, fail)
    told = desk.cli("run", "nightly", "--wait")

    assert told.code == 42
    assert told.out.decode() == f"working\n{taken[0].run.id}\n"
    for words in ("queued · position 1", "running · attempt 1 · fence", "dead: the agent exited with code 42"):
        assert words in told.err


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        (RunState.SUCCEEDED, None, 0),
        (RunState.DEAD, Reason.TIMEOUT, 124),
        (RunState.DEAD, Reason.STALL_TIMEOUT, 124),
        (RunState.DEAD, Reason.LOST, 76),
        (RunState.DEAD, Reason.FENCE_REFUSED, 77),
        (RunState.DEAD, Reason.MISCONFIGURED, 78),
        (RunState.DEAD, Reason.INTERRUPTED, 1),
        (RunState.CANCELLED, Reason.CANCELLED, 1),
    ],
)
def test_each_end_has_its_exit_code(desk: Desk, state: RunState, reason: Reason | None, code: int) -> None:
    desk.schedule(**HOURLY)
    meanwhile(desk, lambda: desk.settle(desk.lease(), state, reason))

    told = desk.cli("run", "nightly", "--wait", "--json")

    assert told.code == code
    assert json.loads(told.out)["state"] == state


def test_a_run_that_nobody_takes_asks_for_a_worker_once(desk: Desk) -> None:
    desk.schedule(**HOURLY)
    nothing = [lambda: None] * 300
    meanwhile(desk, *nothing, lambda: desk.settle(desk.lease()))

    told = desk.cli("run", "nightly", "--wait")

    assert told.err.count("no worker has taken it yet; is `fencepost up` running?") == 1
    assert told.err.count("queued · position 1") == 1


def test_whoever_stops_waiting_is_told_that_the_run_goes_on(desk: Desk) -> None:
    desk.schedule(**HOURLY)

    def interrupt() -> None:
        raise KeyboardInterrupt

    meanwhile(desk, interrupt)
    told = desk.cli("run", "nightly", "--wait")

    assert told.code == 130
    assert "goes on without you; stop it with: fencepost cancel" in told.err
