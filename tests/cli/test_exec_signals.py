"""Signals: what reaches the agent, and what it is born with."""

import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ground import Ground, until

TRAPS = """
for name in TERM INT HUP USR1; do trap "echo $name >> got" $name; done
echo > up
until [ -e enough ]; do sleep 0.02; done
exit 9
"""

ORDINARY = 0x7FFF_FFFF  # the first 31; what a real-time signal does is between the agent and its caller


def start_trapping(ground: Ground) -> subprocess.Popen[bytes]:
    program = ground.start("exec", "--lock", "z", "--", "sh", "-c", TRAPS)
    ground.wait_for("up")
    return program


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1"])
def test_a_signal_reaches_the_agent_once_and_its_own_code_counts(ground: Ground, name: str) -> None:
    program = start_trapping(ground)
    program.send_signal(getattr(signal, f"SIG{name}"))
    assert ground.wait_for("got") == name
    Path(ground.path("enough")).touch()
    assert ground.told(program).code == 9
    assert Path(ground.path("got")).read_text().split() == [name]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_an_agent_that_a_signal_ends_gives_128_plus_its_number(ground: Ground, number: int, code: int) -> None:
    program = ground.start("exec", "--lock", "z", "--", "sh", "-c", "echo > up; exec sleep 600")
    ground.wait_for("up")
    program.send_signal(number)
    assert ground.told(program).code == code


def test_the_whole_group_of_the_agent_gets_it(ground: Ground) -> None:
    script = "(trap 'echo child > child; exit' TERM; echo > up; while :; do sleep 0.02; done) & wait $!"
    program = ground.start("exec", "--lock", "z", "--", "sh", "-c", script)
    ground.wait_for("up")
    program.terminate()
    assert ground.told(program).code == 143
    assert ground.wait_for("child") == "child"


def test_what_nohup_ignores_stays_ignored(ground: Ground) -> None:
    script = "grep SigIgn /proc/self/status; echo > up; until [ -e enough ]; do sleep 0.02; done"
    line = f"nohup {sys.executable} -m fencepost exec --lock z -- sh -c '{script}'"
    program = ground.spawn(["sh", "-c", f"exec {line}"])
    ground.wait_for("up")
    program.send_signal(signal.SIGHUP)
    Path(ground.path("enough")).touch()
    told = ground.told(program)
    assert told.code == 0
    assert int(told.out.split()[-1], 16) & ORDINARY == 1 << signal.SIGHUP - 1


def test_an_agent_is_born_with_default_signals_and_none_blocked(ground: Ground) -> None:
    told = ground.run("exec", "--", "cat", "/proc/self/status")
    fields = dict(line.split(b":", 1) for line in told.out.splitlines())
    assert [int(fields[name], 16) & ORDINARY for name in (b"SigBlk", b"SigIgn", b"SigCgt")] == [0, 0, 0]


def test_a_broken_pipe_ends_the_agent_quietly(ground: Ground) -> None:
    line = f"{sys.executable} -m fencepost exec --lock z -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"
    told = ground.told(ground.spawn(["bash", "-c", line]))
    assert told.out.split() == [b"y", b"141"]


def test_signals_while_waiting_leave_the_queue(ground: Ground) -> None:
    holder = ground.start(
        "exec", "--lock", "z", "--", "sh", "-c", "echo > up; until [ -e enough ]; do sleep 0.02; done"
    )
    ground.wait_for("up")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        waiter = ground.start("exec", "--lock", "z", "--wait", "--", "true")
        until(lambda: len(waiting(ground)) == 1, "the waiter is in the queue")
        waiter.send_signal(number)
        told = ground.told(waiter)
        assert (told.code, "Traceback" in told.err) == (code, False)
        assert waiting(ground) == []
    Path(ground.path("enough")).touch()
    assert ground.told(holder).code == 0


def test_a_signal_at_any_early_moment_ends_or_reaches_the_agent(ground: Ground) -> None:
    for milliseconds in range(0, 150, 10):
        program = ground.start("exec", "--lock", "z", "--", "sleep", "600")
        until_elapsed(milliseconds)
        program.terminate()
        told = ground.told(program)
        assert told.code in (143, -signal.SIGTERM), told
        assert "Traceback" not in told.err or "KeyboardInterrupt" in told.err, told
    assert ground.run("exec", "--lock", "z", "--", "true").code == 0


def waiting(ground: Ground) -> list[str]:
    store = ground.store()
    try:
        return [waiter.id for waiter in store.waiters()]
    finally:
        store.close()


def until_elapsed(milliseconds: int) -> None:
    """Let some time pass; no event is waited for here, the moment itself is what varies."""
    select.select([], [], [], milliseconds / 1000)
