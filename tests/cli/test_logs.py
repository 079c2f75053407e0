"""`fencepost logs`: what a run printed, and what it prints while somebody watches."""

import json
import os
import sys
from pathlib import Path

import pytest

from fencepost.cli.options import harmless
from fencepost.host.log_files import LogFile, log_path
from fencepost.host.log_reader import LogReader
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.operations.attempt_logs import content, log_of
from fencepost.operations.log_reading import glimpse
from fencepost.operations.run_queries import show
from fencepost.ports.runs import Report
from tests.support.desk import Desk
from tests.support.terminal import as_if_on_a_terminal


def one_run(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")


def test_a_log_is_printed_as_it_is_and_the_last_lines_on_demand(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    desk.log(leased, "one\ntwo\nthree\n").close()

    assert desk.cli("logs", leased.run.id).out == b"one\ntwo\nthree\n"
    assert desk.cli("logs", leased.run.id, "-n", "2").out == b"two\nthree\n"
    assert desk.cli("logs", leased.run.id[:-1], "-n", "1").out == b"three\n"


def test_a_log_in_two_halves_is_printed_whole(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    file = desk.log(leased, "a" * 9 + "\n", limit=20)
    file.write(b"b" * 9 + b"\n")
    file.close()

    assert desk.cli("logs", leased.run.id).out == b"aaaaaaaaa\nbbbbbbbbb\n"


def resumed(desk: Desk) -> str:
    """Let an attempt be handed back by a drain, and go on as the same attempt; each part prints a line."""
    one_run(desk)
    first = desk.lease()
    desk.log(first, "before the drain\n").close()
    drained = Settlement(RunState.READY, Reason.DRAINED, uses_attempt=False)
    desk.store.settle(first.lease, drained, Report("drained", last_log="before the drain\n"), clean=True)
    second = desk.lease()
    desk.log(second, "after it\n").close()
    desk.settle(second, last_log="after it\n")
    return first.run.id


def test_an_attempt_that_was_handed_back_and_resumed_is_printed_with_all_its_parts(desk: Desk) -> None:
    run_id = resumed(desk)

    for words in ((), ("--attempt", "1")):
        told = desk.cli("logs", run_id, *words)
        assert told.out == b"before the drain\nafter it\n"
        assert "these are its 2 parts" in told.err
    assert desk.cli("logs", run_id, "-n", "1").out == b"after it\n"
    (shown,) = desk.json("show", run_id)
    assert [(one["attempt"], one["part"]) for one in shown["attempts"]] == [(1, 1), (1, 2)]
    assert "attempt 1, part 2" in desk.text("show", run_id)
    seen = show(desk.store, "default", run_id).seen
    looked = glimpse(seen, desk.logs, number=1, lines=10)
    assert looked is not None
    assert looked.text == "before the drain\nafter it\n"
    assert content(log_of(seen, desk.logs), most=10) == b"\nafter it\n"  # type: ignore[arg-type]


def test_a_log_from_another_machine_shows_what_the_store_has_and_says_where_the_rest_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_run(desk)
    dead = desk.dead(last_log="the end\n")
    monkeypatch.setattr("os.uname", lambda: os.uname_result(("Linux", "elsewhere", "", "", "")))

    told = desk.cli("logs", dead)

    assert told.out == b"the end\n"
    assert "and its log is there; these are the last lines that the store has." in told.err


def test_a_run_that_never_started_says_so(desk: Desk) -> None:
    one_run(desk)
    (run,) = desk.json("runs")

    told = desk.cli("logs", run["id"])

    assert (told.code, told.out) == (0, b"")
    assert "has no log: it has not started yet." in told.err


def test_an_earlier_attempt_can_be_asked_for(desk: Desk) -> None:
    one_run(desk)
    first = desk.lease()
    desk.log(first, "first\n").close()
    desk.settle(first, RunState.READY, Reason.RETRY, exit_code=1)
    second = desk.lease()
    desk.log(second, "second\n").close()

    assert desk.cli("logs", first.run.id).out == b"second\n"
    assert desk.cli("logs", first.run.id, "--attempt", "1").out == b"first\n"
    told = desk.cli("logs", first.run.id, "--attempt", "7")
    assert told.code == 2
    assert "has no attempt 7; there is: 1, 2" in told.err


def test_following_goes_on_through_rotation_and_a_retry_until_the_run_has_ended(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    file = desk.log(leased, "before\n", limit=40)
    later = []
    story = iter(range(100))

    def happen(_: float) -> None:
        """Let something happen each time the follower waits."""
        step = next(story)
        if step < 12:
            file.write(f"line {step:02}\n".encode())
        elif step == 12:
            desk.settle(leased, RunState.READY, Reason.RETRY, exit_code=1)
        elif step == 18:
            later.append(desk.lease())
            desk.log(later[0], "second try\n").close()
        elif step == 30:
            desk.settle(later[0])
        desk.clock.pass_time(0.1)

    desk.clock.sleep = happen  # type: ignore[method-assign,assignment]
    told = desk.cli("logs", leased.run.id, "-f", "-n", "1")

    assert told.out.decode() == "before\n" + "".join(f"line {step:02}\n" for step in range(12)) + "second try\n"
    assert "attempt 2 with fence" in told.err
    assert "succeeded after" in told.err


@pytest.mark.parametrize("limit", [16, 64, 1000])
def test_a_tail_loses_nothing_however_often_the_file_takes_turns_between_two_looks(tmp_path: Path, limit: int) -> None:
    path = str(tmp_path / "x.log")
    file, tail = LogFile(path, limit), LogReader(path, None, tail_bytes=sys.maxsize)
    written, seen = b"", b""
    for number in range(200):
        data = b"%03d" % number
        file.write(data)
        written += data
        if number % 3 == 0:
            seen += b"".join(iter(lambda: tail.read(64), b""))
    seen += b"".join(iter(lambda: tail.read(64), b""))

    assert seen == written


def test_following_a_run_on_another_machine_ends_with_what_the_store_has(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()

    steps = iter([lambda: desk.settle(leased, last_log="from afar\n")])

    def end(_: float) -> None:
        next(steps, bool)()

    desk.clock.sleep = end  # type: ignore[method-assign,assignment]
    told = desk.cli("logs", "-f", leased.run.id)

    assert told.out == b"from afar\n"
    assert "these are the last lines that the store has" in told.err
    assert "succeeded" in told.err


def test_a_log_that_cannot_be_read_is_an_error_whether_it_is_followed_or_not(desk: Desk) -> None:
    one_run(desk)
    leased = desk.lease()
    Path(log_path(desk.logs, leased.run.id, leased.lease.fence)).mkdir(parents=True)

    for words in ((), ("-f",)):
        told = desk.cli("logs", leased.run.id, *words)
        assert (told.code, told.out) == (78, b"")
        assert told.err.endswith(".log cannot be read: Is a directory.\n")
    looked = glimpse(show(desk.store, "default", leased.run.id).seen, desk.logs, number=None, lines=10)
    assert looked is not None
    assert looked.text.endswith(".log cannot be read: Is a directory.]\n")


EVENTS = [
    {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "I look at the tests."}]}},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"x": 1}}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "2 failed"}]}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "Mended both.", "total_cost_usd": 0.25},
]


def test_an_agent_s_events_are_a_conversation_on_a_terminal_and_bytes_elsewhere(desk: Desk) -> None:
    desk.agent("digest", engine="claude", prompt="Mend the tests.")
    one_run(desk)
    leased = desk.lease()
    printed = "".join(f"{json.dumps(one)}\n" for one in EVENTS)
    desk.log(leased, printed).close()

    said = desk.text("logs", leased.run.id)
    assert said.splitlines() == [
        "● I look at the tests.",
        '  ▸ Bash {"x": 1}',
        "  ◂ 2 failed",
        "■ Mended both.",
        "  $0.25 so far",
    ]
    assert desk.cli("logs", leased.run.id).out == printed.encode()
    with as_if_on_a_terminal():
        assert desk.cli("logs", leased.run.id, "--raw").out == printed.encode()


def test_the_last_line_of_a_conversation_is_seen_although_it_has_no_end(desk: Desk) -> None:
    desk.agent("digest", engine="claude", prompt="Mend the tests.")
    one_run(desk)
    leased = desk.lease()
    desk.log(leased, f"{json.dumps(EVENTS[0])}\nKilled").close()

    assert desk.text("logs", leased.run.id).splitlines() == ["● I look at the tests.", "  Killed"]


def test_a_followed_conversation_keeps_the_last_line_of_an_attempt_apart_from_the_next(desk: Desk) -> None:
    desk.agent("digest", engine="claude", prompt="Mend the tests.")
    one_run(desk)
    leased = desk.lease()
    desk.log(leased, "Killed").close()
    later = []
    story = iter(range(100))

    def happen(_: float) -> None:
        step = next(story)
        if step == 1:
            desk.settle(leased, RunState.READY, Reason.RETRY, exit_code=1)
        elif step == 7:
            later.append(desk.lease())
            desk.log(later[0], json.dumps(EVENTS[0])).close()
        elif step == 20:
            desk.settle(later[0])
        desk.clock.pass_time(0.1)

    desk.clock.sleep = happen  # type: ignore[method-assign,assignment]
    with as_if_on_a_terminal():
        told = desk.cli("logs", leased.run.id, "-f")

    assert told.out.decode().splitlines() == ["  Killed", "● I look at the tests."]


def test_a_terminal_sees_colours_and_nothing_that_steers_it() -> None:
    assert harmless("\033[31mred\033[0m\ttab\nline") == "\033[31mred\033[0m\ttab\nline"
    assert harmless("\033[2J\033]0;title\a\r\x9b5n") == "�[2J�]0;title���5n"
