"""What a terminal shows of time: `top`, `timeline`, and the bar of work that takes long."""

import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from fencepost.cli import options
from fencepost.cli.main import COMMANDS, GROUPS, overview
from fencepost.cli.progress_bar import WIDTH, ProgressBar, bar_text
from fencepost.model.own_program import own_program
from fencepost.model.run import Reason, RunState
from tests.support.desk import Desk


@pytest.fixture
def day(desk: Desk) -> Desk:
    """Four ticks: one that succeeded, one that was left out by overlap, one that died, one that runs."""
    desk.schedule("nightly", cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:00Z")
    leased = desk.lease()
    desk.tick("2026-03-27T14:00:00Z")
    desk.clock.go_to("2026-03-27T14:10:00Z")
    desk.settle(leased, cost_micro=1_250_000)
    desk.tick("2026-03-27T15:00:00Z")
    leased = desk.lease()
    desk.clock.go_to("2026-03-27T15:30:00Z")
    desk.settle(leased, RunState.DEAD, Reason.EXIT_CODE, exit_code=1)
    desk.tick("2026-03-27T16:00:00Z")
    desk.lease()
    desk.clock.go_to("2026-03-27T16:20:00Z")
    return desk


def test_top_says_what_runs_comes_and_spends_with_a_letter_for_each_tick(day: Desk) -> None:
    shown = day.text("top")
    assert "1 running  0 waiting  1 dead  $1.25 in 24h" in shown
    assert "Nothing waits." in shown
    (line,) = [one for one in shown.splitlines() if one.startswith("nightly  in ")]
    assert line.split()[-1] == "█≡✗▶"
    assert "█ succeeded  ▶ running  ✗ dead  ≡ overlap" in shown


def test_top_on_a_new_store_says_that_there_is_nothing_yet(desk: Desk) -> None:
    assert "Nothing is scheduled yet" in desk.text("top")


def test_top_keeps_itself_current_until_q_and_gives_the_terminal_back(day: Desk) -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    before = termios.tcgetattr(follower)
    line = [*own_program(), "top", "--store", day.url, "--every", "1"]
    program = subprocess.Popen(line, stdin=follower, stdout=follower, stderr=follower)
    seen = _until(leader, b"q leaves", times=2)
    assert seen.startswith(b"\033[?1049h"), "a screen of its own"
    assert b"nightly" in seen
    os.write(leader, b"q")
    assert _until(leader, b"\033[?1049l").endswith(b"\033[?25h\033[?1049l"), "the old screen, with its cursor"
    assert program.wait(20) == 0
    assert termios.tcgetattr(follower) == before
    os.close(follower)
    os.close(leader)


def _until(leader: int, wanted: bytes, times: int = 1) -> bytes:
    """Read from a terminal until something was shown so often."""
    seen = b""
    while seen.count(wanted) < times:
        assert select.select([leader], [], [], 20)[0], seen
        seen += os.read(leader, 4096)
    return seen


def test_a_timeline_has_a_line_for_runs_and_one_for_ticks_without_a_run(day: Desk) -> None:
    lines = day.text("timeline", "nightly", "--span", "6h").splitlines()
    assert "nightly · 3 runs, 1 running, 1 dead, 1 without a run, $1.25" in lines
    drawn = lines[lines.index("nightly · 3 runs, 1 running, 1 dead, 1 without a run, $1.25") + 1]
    assert [letter for letter in "█✗▶" if letter in drawn] == ["█", "✗", "▶"]
    assert drawn.index("█") < drawn.index("✗") < drawn.index("▶")
    assert any(one.strip() == "≡" for one in lines)


def test_a_timeline_by_worker_and_of_another_day(day: Desk) -> None:
    assert os.uname().nodename in day.text("timeline", "--by", "worker")
    assert "Nothing ran" in day.text("timeline", "--until", "2026-03-01T00:00:00Z")
    assert "nightly" in day.cli("timeline", "nihgtly").err


def test_a_timeline_for_scripts_tells_each_attempt_and_each_reason(day: Desk) -> None:
    rows = day.json("timeline", "nightly")
    assert [one["kind"] for one in rows if "kind" in one] == ["running", "dead", "succeeded"]
    assert [one["ticks"] for one in rows if "ticks" in one] == [{"overlap": 1}]


def test_names_that_would_steer_a_terminal_do_not(desk: Desk) -> None:
    desk.schedule("nightly", cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:00Z")
    leased = desk.lease()
    connection = desk.store.dialect._connection  # type: ignore[attr-defined]
    connection.execute("UPDATE run SET schedule = ? WHERE id = ?", ("\033[2Jevil", leased.run.id))
    connection.execute("UPDATE attempt SET worker = ?", ("\033]0;evil:1",))
    for words in (("top",), ("timeline",), ("timeline", "--by", "worker")):
        assert "\033" not in desk.text(*words)


def test_the_overview_has_every_command_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    assert all(len(line) <= options.WIDTH for line in overview().splitlines())
    assert "guard a command:\n  exec" in overview()


def test_a_bar_is_as_long_as_its_share() -> None:
    assert "█" * (WIDTH // 2) + " " in bar_text("proving", 0.5, "1 of 2", 3)
    assert bar_text("proving", 1.0, "", 3).count("█") == WIDTH
    places = [bar_text("migrating", None, "", seconds / 5).index("▰▰▰▰") for seconds in range(60)]
    assert len(set(places)) > WIDTH / 2


def test_a_bar_keeps_quiet_where_nobody_looks_and_where_it_is_over_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("proving") as bar:
        bar.to(1, 2)
    assert capfd.readouterr().err == ""


SLOW = """
from threading import Event
from fencepost.cli.progress_bar import ProgressBar
with ProgressBar("pruning") as bar:
    bar.to(30, 60, words="30 of 60 records")
    Event().wait(1.6)
print("done")
"""


def test_a_bar_is_seen_on_a_terminal_after_a_second_and_taken_away(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 100))
    program = subprocess.Popen([sys.executable, "-c", SLOW], stderr=follower, stdout=subprocess.DEVNULL, cwd=tmp_path)
    os.close(follower)
    seen = b""
    while select.select([leader], [], [], 20)[0]:
        try:
            seen += os.read(leader, 4096)
        except OSError:  # the other end is gone
            break
    assert program.wait(20) == 0
    os.close(leader)
    assert "30 of 60 records" in seen.decode()
    assert seen.endswith(b"\r\033[K")
