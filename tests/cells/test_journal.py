"""What a machine keeps of a tick while its store is out of reach: real commands behind a line that goes dead."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

from fencepost.cells.store import cell_name
from fencepost.host.clock import SystemClock
from fencepost.model.instants import from_us
from tests.cells.grounds import CellGround, Machine, ground_of

LOCK = "digest"
CELL = f"/api/v1/cells/{cell_name('default', f'lock:{LOCK}')}"


class DeadLine:
    """A line to the store that can be cut, or goes dead when a grant has been carried out and not answered yet."""

    def __init__(self, port: int) -> None:
        self.is_cut = False
        self.swallows_grants = False
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                Thread(target=self._pass_on, args=(self._listener.accept()[0],), daemon=True).start()

    def _pass_on(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            if self.is_cut:
                return
            request = self._request(caller)
            with socket.create_connection(("127.0.0.1", self._port)) as server:
                server.sendall(request)
                answer = b"".join(iter(lambda: server.recv(65_536), b""))
            if self.swallows_grants and request.startswith(f"PUT {CELL}".encode()):
                self.is_cut = True
                return
            caller.sendall(answer)

    def _request(self, caller: socket.socket) -> bytes:
        got = caller.recv(65_536)
        while b"\r\n\r\n" not in got:
            got += caller.recv(65_536)
        head, _, body = got.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += caller.recv(65_536)
        kept = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"host:", b"connection:"))]
        own = [f"Host: 127.0.0.1:{self._port}".encode(), b"Connection: close"]
        return b"\r\n".join([*kept, *own]) + b"\r\n\r\n" + body


class Caller:
    """A crontab line on a machine behind that line."""

    def __init__(self, folder: Path, ground: CellGround, line: DeadLine) -> None:
        self.line = line
        self.ground = ground
        self.folder = folder
        self.state = folder / "state"
        now = from_us(SystemClock().wall_us())
        self._tick = f"{now.minute} {now.hour} * * *"
        keep = {one: value for one, value in os.environ.items() if not one.startswith("FENCEPOST_")}
        store = f"http://127.0.0.1:{line.port}"
        self._env = {**keep, **ground.environment, "XDG_STATE_HOME": str(self.state), "FENCEPOST_STORE": store}

    def call(self, *command: str, options: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        tick = ("--tick", self._tick, "--timezone", "UTC", "--grace", "30m", "--done-exit", "9", *options)
        return self.run("exec", "--ttl", "3s", "--lock", LOCK, *tick, "--", *command)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "fencepost", *words]
        return subprocess.run(
            argv, env=self._env, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def caller(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Caller]:
    with ground_of("http", tmp_path, request.getfixturevalue) as ground:
        line = DeadLine(int(urlsplit(ground.url).port or 0))
        yield Caller(tmp_path, ground, line)
        line.close()


@contextmanager
def cut_by(line: DeadLine, flag: Path) -> Iterator[None]:
    """Cut the line as soon as a file is there, which the command makes."""
    over = Event()

    def watch() -> None:
        while not over.wait(0.02):
            line.is_cut = line.is_cut or flag.exists()

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_tick_whose_grant_was_never_answered_is_run_by_the_next_call(caller: Caller) -> None:
    caller.line.swallows_grants = True
    first = caller.call("sh", "-c", "echo ran")
    assert (first.returncode, first.stdout) == (69, ""), first.stderr

    caller.line.swallows_grants = caller.line.is_cut = False
    second = caller.call("sh", "-c", "echo ran $FENCEPOST_ATTEMPT")
    assert (second.returncode, second.stdout) == (0, "ran 1\n"), second.stderr
    assert caller.call("echo", "ran").returncode == 9


def test_an_end_that_could_not_be_reported_is_told_by_the_next_call(caller: Caller) -> None:
    flag = caller.folder / "flag"
    with cut_by(caller.line, flag):
        first = caller.call("sh", "-c", f"touch {flag}; sleep 0.5; exit 4")
    assert first.returncode == 4, first.stderr

    caller.line.is_cut = False
    second = caller.call("sh", "-c", "echo ran $FENCEPOST_ATTEMPT", options=("--retry", "2"))
    assert (second.returncode, second.stdout) == (0, "ran 2\n"), second.stderr


def test_an_end_that_can_be_neither_reported_nor_kept_is_said_and_the_code_passes_through(caller: Caller) -> None:
    flag, ends = caller.folder / "flag", caller.state / "fencepost" / "ends"
    with cut_by(caller.line, flag):
        first = caller.call("sh", "-c", f"mkdir -p {ends.parent}; echo > {ends}; touch {flag}; sleep 0.5; exit 4")
    assert first.returncode == 4, first.stderr
    assert "could not be kept either" in first.stderr
    assert "Traceback" not in first.stderr


@pytest.mark.parametrize("text", ["", "5", "[1]", '["x", "succeeded"]', "null", "[" * 5000, '{"a": 1}'])
def test_a_bent_journal_is_as_good_as_none(caller: Caller, text: str) -> None:
    flag = caller.folder / "flag"
    with cut_by(caller.line, flag):
        assert caller.call("sh", "-c", f"touch {flag}; sleep 0.5; exit 4").returncode == 4
    caller.line.is_cut = False
    kept = [*(caller.state / "fencepost" / "ends").iterdir()]
    assert kept
    for path in kept:
        path.write_text(text)
        path.with_name(f"{path.name}.unheard").write_text(text)

    second = caller.call("echo", "ran")
    assert (second.returncode, second.stdout) == (9, ""), second.stderr
    assert "Traceback" not in second.stderr


def test_one_unreadable_cell_is_told_and_the_other_leases_are_listed(caller: Caller) -> None:
    bent = cell_name("default", "lock:bent")
    cells = caller.ground.cells()
    assert cells.swap(bent, None, b'{"v": 1, "lease": "bent"}', seconds=30).tag
    cells.close()
    machine = Machine(caller.ground, caller.folder, "b")
    machine.granted("lock:held")

    listed = caller.run("lease", "list")
    machine.close()
    assert listed.returncode == 0, listed.stderr
    assert "lock:held" in listed.stdout
    assert f"warning: cell {bent}" in listed.stderr
    assert "cannot be read" in listed.stderr
