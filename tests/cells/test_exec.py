"""Guarded commands of two machines that share nothing but a store: real processes on every kind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencepost.model.cell import patience
from tests.cells.grounds import KINDS, CellGround, ground_of
from tests.support.scratch import wait_until
from tests.support.wall import wall

TTL = 6.0
SKEW, PERIOD = 40, 120  # seconds; a clock that is minutes off the store's is refused
FENCEPOST = [sys.executable, "-m", "fencepost"]


class Laptop:
    """A machine as far as a process can tell: its own processes and name where the host allows that, its own memory."""

    def __init__(self, name: str, folder: Path, ground: CellGround) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.clock: list[str] = []  # how a command line begins that lives by another clock than the host's
        self._apart = ["unshare", "--uts", "--pid", "--fork", "--kill-child"] if os.geteuid() == 0 else []
        keep = {one: value for one, value in os.environ.items() if not one.startswith("FENCEPOST_")}
        self._env = {
            **keep,
            **ground.environment,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "FENCEPOST_STORE": ground.url,
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._apart, *self.clock, *FENCEPOST, *words],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        with self.start(*words) as process:
            out, err = process.communicate(timeout=180)
            return subprocess.CompletedProcess(words, process.returncode, out, err)


class Two:
    def __init__(self, folder: Path, ground: CellGround) -> None:
        self.a, self.b = Laptop("a", folder, ground), Laptop("b", folder, ground)
        self.folder = folder
        self.ttl = 30.0 if ground.kind == "git-ssh" else TTL  # a connection by ssh takes a while on a busy machine


@pytest.fixture(params=KINDS)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Two]:
    with ground_of(request.param, tmp_path, request.getfixturevalue) as ground:
        yield Two(tmp_path, ground)


def tree(pid: int) -> list[int]:
    """Return a process and all that came of it."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [pid, *(one for child in found.stdout.split() for one in tree(int(child)))]


def test_a_command_runs_on_one_machine_at_a_time_and_its_fence_rises(two: Two) -> None:
    begun = two.folder / "begun"
    words = (
        "exec",
        "--lock",
        "digest",
        "--",
        "sh",
        "-c",
        f"echo $FENCEPOST_FENCE; touch {begun}; read -r _ < {two.folder}/go",
    )
    os.mkfifo(two.folder / "go")
    with two.a.start(*words) as holder:
        wait_until(begun.exists, what="a's command has begun", seconds=60)
        busy = two.b.run("exec", "--no-wait", "--lock", "digest", "--", "echo", "never")
        (two.folder / "go").write_text("\n")
        first, _ = holder.communicate(timeout=60)
    after = two.b.run("exec", "--lock", "digest", "--", "sh", "-c", "echo $FENCEPOST_FENCE")

    assert (busy.returncode, busy.stdout) == (75, ""), busy.stderr
    assert "lock:digest is held by" in busy.stderr
    assert holder.returncode == 0
    assert after.returncode == 0, after.stderr
    assert int(after.stdout) > int(first)


def test_a_frozen_holder_is_replaced_after_ttl_and_margin_and_told_when_it_thaws(two: Two) -> None:
    begun = two.folder / "begun"
    words = ("exec", "--ttl", f"{two.ttl:g}s", "--lock", "digest", "--")
    with two.a.start(*words, "sh", "-c", f"echo $FENCEPOST_FENCE; touch {begun}; sleep 600") as frozen:
        wait_until(begun.exists, what="a's command has begun", seconds=60)
        pids = tree(frozen.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # noqa: TID251  # our own children
        with two.b.start(*words, "sh", "-c", "date +%s.%N; echo $FENCEPOST_FENCE") as taker:
            out, err = taker.communicate(timeout=patience(two.ttl) * 4 + 60)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)  # noqa: TID251  # likewise
        old, said = frozen.communicate(timeout=60)

    assert taker.returncode == 0, err
    assert int(out.split()[1]) > int(old.split()[0])
    assert frozen.returncode == 76, said
    assert "lease lost" in said


def test_a_tick_runs_on_one_of_two_machines(two: Two) -> None:
    words = ("exec", "--tick", "0 0 1 1 *", "--timezone", "UTC", "--grace", "400d", "--lock", "yearly", "--")
    first = two.a.run(*words, "sh", "-c", "echo $FENCEPOST_TICK")
    second = two.b.run(*words, "echo", "never")
    again = two.b.run(*words, "echo", "never")

    assert first.returncode == 0, first.stderr
    assert first.stdout.strip().endswith("-01-01T00:00:00Z")
    assert (second.returncode, second.stdout) == (75, ""), second.stderr
    assert (again.returncode, again.stdout) == (75, ""), again.stderr


def test_a_tick_whose_record_is_thrown_away_runs_again_on_that_machine(two: Two) -> None:
    words = ("exec", "--tick", "0 0 1 1 *", "--timezone", "UTC", "--grace", "400d", "--lock", "yearly", "--")
    assert two.a.run(*words, "true").returncode == 0
    assert two.b.run(*words, "echo", "never").stdout == ""

    thrown_away = two.b.run("lease", "reset-tick", "yearly")
    again = two.b.run(*words, "echo", "again")

    assert thrown_away.returncode == 0, thrown_away.stderr
    assert (again.returncode, again.stdout) == (0, "again\n"), again.stderr


@pytest.mark.parametrize("ahead", [-SKEW, SKEW], ids=["behind", "ahead"])
def test_each_tick_runs_once_on_two_machines_whose_clocks_are_forty_seconds_apart(two: Two, ahead: int) -> None:
    """Both crontabs call a second after each tick by their own clocks, which are moved there and not waited for."""
    words = ("exec", "--tick", "*/2 * * * *", "--timezone", "UTC", "--lock", "digest", "--")
    with wall() as clock_of_a, wall() as clock_of_b:
        two.a.clock, two.b.clock = clock_of_a.words(), clock_of_b.words()

        def call(laptop: Laptop, at: int) -> "subprocess.CompletedProcess[str]":
            off = at - round(time.time())  # noqa: TID251  # how far the clocks of these processes are to be moved
            clock_of_a.step(off - (ahead if laptop is two.b else 0))
            clock_of_b.step(off + (ahead if laptop is two.a else 0))
            return laptop.run(*words, "sh", "-c", "echo $FENCEPOST_TICK")

        first = round(time.time()) // PERIOD * PERIOD  # noqa: TID251  # likewise
        ticks = range(first, first + 2 * PERIOD, PERIOD)
        early, late = (two.b, two.a) if ahead > 0 else (two.a, two.b)
        told = [(call(early, tick + 1), call(late, tick + 1)) for tick in ticks]

    assert [one.returncode for pair in told for one in pair] == [0, 75, 0, 75], told
    assert [one.stdout.strip() for one, _ in told] == [
        f"{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}" for tick in ticks
    ]
    assert not any(second.stdout or second.stderr for _, second in told), "nothing that cron would mail"


def test_the_agent_gets_neither_the_store_nor_its_key(two: Two) -> None:
    told = two.a.run("exec", "--lock", "z", "--", "sh", "-c", "env")

    assert told.returncode == 0, told.stderr
    names = {line.partition("=")[0] for line in told.stdout.splitlines()}
    assert "FENCEPOST_FENCE" in names
    assert not names & {"FENCEPOST_STORE", "FENCEPOST_STORE_KEY"}


RUNTIME_ONLY = (
    *("ps", "runs", "ledger list", "apply", "prove", "dead list", "run digest", "web --port 0", "store backup b"),
    *("up --port 0", "up --no-apply --port 0", "worker", "scheduler --no-apply", "store migrate"),
)


@pytest.mark.parametrize("line", RUNTIME_ONLY)
@pytest.mark.parametrize("url", ["git+file://{folder}/site.git", "redis:{folder}/cells"])
def test_what_needs_a_runtime_store_says_so_in_a_sentence(tmp_path: Path, line: str, url: str) -> None:
    laptop = Laptop("a", tmp_path, CellGround("git", url.format(folder=tmp_path)))
    (laptop.folder / "fencepost.toml").write_text("")
    told = laptop.run(*line.split())

    assert told.returncode == 2, told
    assert told.stderr.count("\n") == 1, told
    assert "needs a runtime store" in told.stderr
    assert not (tmp_path / "cells").exists()  # a file that is taken for a store's
