"""`fencepost ticks` as people and scripts see it, through the real command."""

import json
import os
import pty
import subprocess
import sys
from datetime import datetime
from itertools import product
from typing import Any

import pytest

from tests.model.brute_force import Walk, jumps, zoneinfo_of
from tests.support.terminal import on_a_terminal

COMMAND = [sys.executable, "-m", "fencepost", "ticks"]


def ticks(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, check=False, timeout=60)


def lines(*arguments: str) -> list[str]:
    done = ticks(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def batch(*questions: dict[str, object] | bytes) -> list[dict[str, Any]]:
    stdin = b"".join(
        each + b"\n" if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in questions
    )
    done = ticks("--batch", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def question(expr: str, zone: str, start: str, end: str, **policies: str) -> dict[str, object]:
    return {"expr": expr, "zone": zone, "start": start, "end": end, **policies}


def test_the_batch_answers_the_contract_to_the_letter() -> None:
    asked = question("30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z")
    done = ticks("--batch", stdin=json.dumps(asked).encode() + b"\n")
    assert (
        done.stdout == b'{"fired":["2026-03-07T07:30:00Z","2026-03-09T06:30:00Z"],"skipped":["2026-03-08T02:30:00"]}\n'
    )


def test_a_window_includes_its_start_and_not_its_end() -> None:
    (found,) = batch(question("0 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"))
    assert found == {"fired": ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"], "skipped": []}


def test_an_offset_in_the_window_is_the_same_instant_in_utc() -> None:
    plus_one = question("0 * * * *", "UTC", "2026-01-01T01:00:00+01:00", "2026-01-01T03:00:00+01:00")
    zulu = question("0 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z")
    first, second = batch(plus_one, zulu)
    assert first == second


def test_missing_slots_are_reported_where_their_gap_ends() -> None:
    gap_end = "2026-03-29T01:00:00Z"
    before, at_end, after = batch(
        question("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", gap_end),
        question("30 2 * * *", "Europe/Berlin", gap_end, "2026-03-29T01:00:01Z"),
        question("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:01Z", "2026-03-29T12:00:00Z"),
    )
    assert [each["skipped"] for each in (before, at_end, after)] == [[], ["2026-03-29T02:30:00"], []]


def test_shift_lists_nothing_and_fires_once_at_the_end_of_the_gap() -> None:
    (found,) = batch(
        question("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", dst_gap="shift")
    )
    assert found == {"fired": ["2026-03-29T01:00:00Z"], "skipped": []}


def test_an_empty_window_is_empty_and_a_backward_one_an_error() -> None:
    same, backward = batch(
        question("* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        question("* * * * *", "UTC", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
    )
    assert same == {"fired": [], "skipped": []}
    assert "swap" in backward["error"]


GOOD = question("0 0 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
BAD: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"   ", "empty"),
    (b"nonsense", "no JSON"),
    (b"\xff\xfe\xfd", "no JSON"),
    (b"[" * 60_000, "no JSON"),
    (b"1" * 6_000, "no JSON"),
    (b"[1]", "no JSON object"),
    (b"null", "no JSON object"),
    (b'"text"', "no JSON object"),
    (b"{}", "'expr' is missing"),
    (json.dumps({**GOOD, "exprs": "x"}).encode(), "did you mean 'expr'?"),
    (json.dumps({**GOOD, "\ud800": "x"}).encode(), "unknown"),
    (json.dumps({**GOOD, "expr": 5}).encode(), "no string"),
    (json.dumps({**GOOD, "dst_gap": ["skip"]}).encode(), "no string"),
    (json.dumps({**GOOD, "expr": None}).encode(), "'expr' is missing"),
    (json.dumps({**GOOD, "expr": "0 0 30 2 *"}).encode(), "never fires"),
    (json.dumps({**GOOD, "expr": "\ud800"}).encode(), "ASCII"),
    (json.dumps({**GOOD, "zone": "UTC+2"}).encode(), "offset"),
    (json.dumps({**GOOD, "zone": "Europe/Berln"}).encode(), "did you mean Europe/Berlin?"),
    (json.dumps({**GOOD, "zone": "\ud800/\u0000"}).encode(), "IANA"),
    (json.dumps({**GOOD, "start": "2026-01-01T00:00:00"}).encode(), "no offset"),
    (json.dumps({**GOOD, "end": "soon"}).encode(), "RFC 3339"),
    (json.dumps({**GOOD, "dst_gap": "jump"}).encode(), "skip, shift"),
    (json.dumps({**GOOD, "dst_fold": "all"}).encode(), "first, last, both"),
    (json.dumps({**GOOD, "expr": "* * * * * *", "end": "2027-01-01T00:00:00Z"}).encode(), "more than 10,000,000"),
    (b"x" * 200_000, "longer than"),
]


def test_a_bad_line_gets_an_error_and_the_next_line_its_answer() -> None:
    asked: list[dict[str, object] | bytes] = []
    for line, _ in BAD:
        asked += [line, GOOD]
    answers = batch(*asked)
    assert len(answers) == 2 * len(BAD)
    for (line, part), refused, good in zip(BAD, answers[::2], answers[1::2], strict=True):
        assert list(refused) == ["error"], line[:80]
        assert part in refused["error"], line[:80]
        assert good == {"fired": ["2026-01-01T00:00:00Z"], "skipped": []}


def test_a_last_line_without_its_line_end_is_answered() -> None:
    done = ticks("--batch", stdin=json.dumps(GOOD).encode())
    assert json.loads(done.stdout) == {"fired": ["2026-01-01T00:00:00Z"], "skipped": []}


def test_policies_that_are_null_or_left_out_take_their_defaults() -> None:
    fold = question("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z")
    answers = batch(fold, {**fold, "dst_gap": None, "dst_fold": None}, {**fold, "dst_gap": "skip", "dst_fold": "auto"})
    assert [each["fired"] for each in answers] == [["2026-10-25T00:30:00Z"]] * 3


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati", "Pacific/Niue"])
def test_the_first_and_the_last_day_of_the_calendar_are_answered(zone: str) -> None:
    first, last, both = batch(
        question("0 * * * *", zone, "0001-01-01T00:00:00Z", "0001-01-03T00:00:00Z"),
        question("0 * * * *", zone, "9999-12-30T00:00:00Z", "9999-12-31T23:59:59Z"),
        question("0 0 29 2 *", zone, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    )
    assert len(first["fired"]) >= 30
    assert len(last["fired"]) >= 30
    assert len(both["fired"]) >= 2420


def test_a_caller_may_wait_for_each_answer_before_the_next_question() -> None:
    with subprocess.Popen([*COMMAND, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(json.dumps(GOOD).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["fired"] == ["2026-01-01T00:00:00Z"]
        process.stdin.close()


def test_a_reader_that_leaves_early_is_no_error() -> None:
    asked = question("* * * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z")
    with subprocess.Popen(
        [*COMMAND, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.close()
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""


F30_ZONES = [
    "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "Europe/Dublin", "America/St_Johns",
    "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Europe/Berlin", "America/New_York", "Asia/Tehran",
]  # fmt: skip


def text(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat() + "Z"


def test_the_batch_agrees_with_a_walk_over_every_minute_in_twelve_zones() -> None:
    asked: list[dict[str, object] | bytes] = []
    expected = []
    for zone in F30_ZONES:
        for jump in list(jumps(zoneinfo_of(zone), 2004, 2026))[-6:]:
            walk = Walk.around(zoneinfo_of(zone), jump)
            for gap, fold in product(("skip", "shift"), ("first", "last", "both")):
                slots = {wall for wall in walk.walls if wall.minute % 10 == 0}
                asked.append(
                    question("*/10 * * * *", zone, text(walk.start), text(walk.end), dst_gap=gap, dst_fold=fold)
                )
                fired = [text(at) for at in walk.fired(slots, gap, fold)]
                expected.append({"fired": fired, "skipped": [wall.isoformat() for wall in walk.skipped(slots, gap)]})
    assert batch(*asked) == expected


def preview(expr: str, start: str, *more: str) -> list[str]:
    return lines("--cron", expr, "--timezone", "Europe/Berlin", "--from", start, *more)[3:]


def test_a_preview_marks_the_days_on_which_clocks_change_in_words() -> None:
    assert preview("30 2 * * *", "2026-03-28", "-n", "3") == [
        "Sat 2026-03-28 02:30:00+01:00  2026-03-28T01:30:00Z",
        "Sun 2026-03-29 02:30:00  skipped, 02:30 does not exist",
        "Mon 2026-03-30 02:30:00+02:00  2026-03-30T00:30:00Z",
    ]
    assert preview("30 2 * * *", "2026-03-29", "-n", "1", "--dst-gap", "shift") == [
        "Sun 2026-03-29 03:00:00+02:00  2026-03-29T01:00:00Z  shifted from 02:30",
    ]
    assert preview("30 * * * *", "2026-10-25T02:00", "-n", "2") == [
        "Sun 2026-10-25 02:30:00+02:00  2026-10-25T00:30:00Z  first of two",
        "Sun 2026-10-25 02:30:00+01:00  2026-10-25T01:30:00Z  second of two",
    ]
    assert preview("30 2 * * *", "2026-10-25", "-n", "1") == [
        "Sun 2026-10-25 02:30:00+02:00  2026-10-25T00:30:00Z  first of two, runs once",
    ]
    assert preview("* * * * * *", "2026-03-29T01:59:59", "-n", "2") == [
        "Sun 2026-03-29 01:59:59+01:00  2026-03-29T00:59:59Z",
        "Sun 2026-03-29 02:00:00  3600 skipped, 02:00 to 02:59:59 do not exist",
    ]


def test_a_preview_fits_eighty_columns_without_colour() -> None:
    cron = "* " + ",".join(map(str, range(60))) + " * * * *"
    words = ("--cron", cron, "--timezone", "America/Argentina/ComodRivadavia")
    found = on_a_terminal("ticks", *words).splitlines()
    assert max(map(len, found)) <= 80
    assert not any("\033" in line for line in found)
    assert any(cron in line for line in lines(*words)), "what is piped is whole"
    assert max(map(len, lines("--help"))) <= 80


def test_a_preview_is_coloured_on_a_terminal_only() -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    arguments = ["--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2026-03-29", "-n", "1"]
    subprocess.run([*COMMAND, *arguments], stdout=slave, check=True, env=environment)
    os.close(slave)
    assert b"\033[33m" in os.read(master, 10_000)
    os.close(master)


def test_json_gives_one_object_per_line() -> None:
    found = lines(
        "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2026-03-28", "--json", "--limit", "2"
    )
    first, second = map(json.loads, found)
    assert first["tick_at"] == "2026-03-28T01:30:00Z"
    assert first["disposition"] == "fired"
    assert (second["slot"], second["disposition"]) == ("2026-03-29T02:30:00", "dst_gap")
    assert second["occurrence"] == "Europe/Berlin|2026-03-29T02:30:00|0"


def test_until_ends_the_preview_and_says_if_there_was_more() -> None:
    window = ["--cron", "@hourly", "--timezone", "UTC", "--from", "2026-01-01", "--until", "2026-01-02"]
    assert len(lines(*window)) == 3 + 24
    assert lines(*window, "-n", "2")[-1].startswith("... and more")
    assert (
        lines("--cron", "0 0 29 2 *", "--timezone", "UTC", "--from", "2026-01-01", "--until", "2027-01-01")[-1]
        == "no ticks in this window"
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "--cron"),
        (["--cron", "@daily"], "no silent default"),
        (["--cron", "61 * * * *", "--timezone", "UTC"], "'minute'"),
        (["--cron", "@daily", "--timezone", "UTC+2"], "offset"),
        (["--cron", "@daily", "--timezone", "UTC", "--from", "soon"], "wall time"),
        (["--cron", "@daily", "--timezone", "UTC", "-n", "0"], "above 0"),
        (["--cron", "@daily", "--timezone", "UTC", "--dst-gap", "x"], "skip, shift"),
        (["--cron", "@daily", "--timezone", "UTC", "--from", "2026-01-02", "--until", "2026-01-01"], "swap"),
        (["--batch", "--cron", "@daily"], "standard input"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_to_do(arguments: list[str], part: str) -> None:
    done = ticks(*arguments)
    assert done.returncode == 2
    assert part in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_five_thousand_mixed_lines_take_a_few_seconds() -> None:
    expressions = [
        "*/5 * * * *",
        "30 2 * * *",
        "0 0 1 * *",
        "0 9 * * MON-FRI",
        "@hourly",
        "0 0 L * *",
        "61 * * * *",
        "30 0 2 * * *",
    ]
    zones = ["Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Tokyo", "Europe/Nowhere", "Australia/Lord_Howe"]
    asked = [
        question(
            expressions[number % 8],
            zones[number % 6],
            f"20{number % 40:02}-03-01T00:00:00Z",
            f"20{number % 40:02}-04-10T00:00:00Z",
        )
        for number in range(5000)
    ]
    stdin = b"".join(json.dumps(each).encode() + b"\n" for each in asked)
    done = subprocess.run([*COMMAND, "--batch"], input=stdin, capture_output=True, check=True, timeout=20)
    assert len(done.stdout.splitlines()) == 5000
