"""A person at a terminal: keyboard, Ctrl-C, Ctrl-Z, window size, pagers."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.ground import Ground, children, send, state_of, until

FENCEPOST = [sys.executable, "-m", "fencepost"]

COUNTS_INTERRUPTS = """
import signal, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print("up", flush=True)
while not got:
    time.sleep(0.01)
time.sleep(0.3)
print("got", len(got), flush=True)
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.raise_signal(signal.SIGINT)
"""


class Screen:
    """A pseudo terminal with one foreground job and no shell."""

    def __init__(self, ground: Ground, argv: list[str]) -> None:
        self.text = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(ground.folder)
            os.execve(argv[0], argv, ground.env)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def shows(self, text: str, *, seconds: float = 20) -> None:
        def seen() -> bool:
            while select.select([self.master], [], [], 0)[0]:
                try:
                    self.text += os.read(self.master, 65536)
                except OSError:  # the other side is closed
                    break
            return text.encode() in self.text

        until(seen, f"{text!r} on the screen", seconds=seconds)

    def code(self, *, again: bytes = b"") -> int:
        """Wait for the end and return the exit code; press a key again each second, as a person does who sees no answer."""
        found: list[int] = []
        looks = count(1)

        def ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            found.extend([os.waitstatus_to_exitcode(status)] if pid else [])
            if again and not pid and next(looks) % 50 == 0:
                self.type(again)
            return bool(pid)

        until(ended, "the program on the terminal has ended")
        return found[0]


@pytest.fixture
def screens(ground: Ground) -> Iterator[list[Screen]]:
    opened: list[Screen] = []
    yield opened
    for screen in opened:
        os.close(screen.master)
        for pid in ground.alive():
            send(pid, signal.SIGKILL)


def at_terminal(ground: Ground, screens: list[Screen], *words: str) -> Screen:
    screen = Screen(ground, [*FENCEPOST, "exec", "--lock", "z", *words])
    screens.append(screen)
    return screen


def test_the_agent_reads_the_keyboard_and_knows_the_window(ground: Ground, screens: list[Screen]) -> None:
    script = 'stty size; read word; echo "heard $word"; exit 4'
    screen = at_terminal(ground, screens, "--", "sh", "-c", script)
    screen.shows("33 111")
    screen.type(b"tulip\n")
    screen.shows("heard tulip")
    assert screen.code() == 4


@pytest.mark.parametrize("kind", ["sqlite:{}/state.db", "git+file://{}/site.git"])
def test_who_ran_a_tick_is_told_to_a_person_and_not_to_cron(ground: Ground, screens: list[Screen], kind: str) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "site.git"], cwd=ground.folder, check=True)
    yearly = ("--tick", "0 0 1 1 *", "--timezone", "UTC", "--grace", "400d")
    words = ("--store", kind.format(ground.folder), *yearly, "--", "true")
    assert ground.run("exec", "--lock", "z", *words).code == 0

    cron = ground.run("exec", "--lock", "z", *words)
    screen = at_terminal(ground, screens, *words)

    screen.shows("-01-01T00:00:00Z of z was run by r")
    assert screen.code() == 75
    assert (cron.code, cron.out, cron.err) == (75, b"", "")


def test_ctrl_c_reaches_the_agent_once_and_exec_exits_130(ground: Ground, screens: list[Screen]) -> None:
    screen = at_terminal(ground, screens, "--", sys.executable, "-S", "-c", COUNTS_INTERRUPTS)
    screen.shows("up")
    screen.type(b"\x03")
    screen.shows("got 1")
    assert screen.code() == 130


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["ctrl-c", "ctrl-d"])
def test_init_that_is_broken_off_writes_nothing_and_leaves_the_cursor_on_a_new_line(
    ground: Ground, screens: list[Screen], key: bytes
) -> None:
    screen = Screen(ground, [*FENCEPOST, "init"])
    screens.append(screen)
    screen.shows("time zone of your schedules")
    screen.type(key)
    assert screen.code(again=key) == 130, "input() of Python may miss a key between its prompt and its read"
    screen.shows("]: ")
    assert screen.text.endswith(b"\r\n")
    assert not os.path.exists(f"{ground.folder}/fencepost.toml")


def test_ctrl_z_stops_the_supervisor_too_and_it_goes_on_together(ground: Ground, screens: list[Screen]) -> None:
    screen = at_terminal(ground, screens, "--", "sh", "-c", 'echo up; read word; echo "heard $word"')
    screen.shows("up")
    screen.type(b"\x1a")
    pid, status = waited(screen.pid)
    assert (pid, os.WIFSTOPPED(status)) == (screen.pid, True)
    screen.shows("suspended; without 'fg'")
    send(screen.pid, signal.SIGCONT)
    screen.type(b"rose\n")
    screen.shows("heard rose")
    assert screen.code() == 0


def test_a_run_suspended_beyond_its_lease_is_ended(ground: Ground, screens: list[Screen]) -> None:
    screen = at_terminal(ground, screens, "--ttl", "1s", "--", "sh", "-c", "echo up; read word")
    screen.shows("up")
    screen.type(b"\x1a")
    waited(screen.pid)
    until(lambda: not agents(ground, screen), "the guard ended the agent")
    assert ground.run("exec", "--lock", "z", "--wait=20s", "--", "true").code == 0
    send(screen.pid, signal.SIGCONT)
    assert screen.code() == 76


def test_a_pager_in_the_same_pipeline_keeps_the_keyboard(ground: Ground, screens: list[Screen]) -> None:
    pager = "import sys; sys.stdin.read(); print('key', open('/dev/tty').readline().strip(), flush=True)"
    script = f'{sys.executable} -m fencepost exec --lock z -- echo text | {sys.executable} -S -c "{pager}"'
    screen = Screen(ground, ["/bin/bash", "-c", f"set -m; {script}; echo done"])
    screens.append(screen)
    until(lambda: any("readline" in line for line in ground.alive().values()), "the pager runs")
    screen.type(b"q\n")
    screen.shows("key q")
    screen.shows("done")


def test_an_agent_in_a_pipeline_gets_the_keyboard_when_it_asks(ground: Ground, screens: list[Screen]) -> None:
    script = f"{sys.executable} -m fencepost exec --lock z -- sh -c 'read word < /dev/tty; echo heard $word' | cat"
    screen = Screen(ground, ["/bin/bash", "-c", f"set -m; {script}; echo done"])
    screens.append(screen)
    screen.type(b"lily\n")
    screen.shows("heard lily")
    screen.shows("done")


def test_a_stopped_screen_holds_up_neither_the_kill_nor_the_release(ground: Ground, screens: list[Screen]) -> None:
    screen = at_terminal(ground, screens, "--timeout", "300ms", "--", "sh", "-c", "echo up; sleep 600")
    screen.shows("up")
    screen.type(b"\x13")  # Ctrl-S
    assert screen.code() == 124
    assert ground.leases() == []


def test_exec_without_a_terminal_has_none(ground: Ground) -> None:
    told = ground.run("exec", "--", "tty", start_new_session=True)
    assert (told.code, told.out) == (1, b"not a tty\n")


def agents(ground: Ground, screen: Screen) -> list[int]:
    ours = {screen.pid, *children(screen.pid)}
    return [pid for pid in ground.alive() if pid not in ours and state_of(pid) not in ("", "Z")]


def waited(pid: int) -> tuple[int, int]:
    found: list[tuple[int, int]] = []

    def changed() -> bool:
        answer = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        found.extend([answer] if answer[0] else [])
        return bool(answer[0])

    until(changed, "the program changed its state")
    return found[0]
