"""A place to run the real `fencepost` in: its own store, its own runtime folder, and a count of what is left alive."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# ruff: noqa: ANN401  # options go to Popen as they are
import apsw

from fencepost import wiring
from fencepost.host.clock import SystemClock
from fencepost.ports.store import LeaseStore
from tests.support.scratch import wait_until

MARK = "FENCE_TEST_GROUND"
PATIENCE_SECONDS = 20.0
NOT_PASSED_ON = ("FENCEPOST_", "XDG_", "PYTHONDONTWRITEBYTECODE")  # the last would compile us anew for every program
Program = subprocess.Popen[bytes]


class Ground:
    """Starts programs that can be told apart from all others, and ends them by their ids."""

    def __init__(self, folder: Path, *, store: str | None = None, cgroup: bool = True) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.runtime = folder / "run"
        self.store_url = store or f"sqlite:{folder}/state/fencepost/state.db"
        self.runtime.mkdir(mode=0o700)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED_ON)},
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(folder),
            "HOME": str(folder),
            MARK: self.mark,
        }
        if store:
            self.env["FENCEPOST_STORE"] = store
        if not cgroup:
            self.env["FENCEPOST_CGROUP"] = "off"
        self.started: list[Program] = []

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def start(self, *words: str, **options: Any) -> Program:
        """Start `fencepost` with these words; its output is caught unless said otherwise."""
        return self.spawn([sys.executable, "-m", "fencepost", *words], **options)

    def spawn(self, argv: Sequence[str], **options: Any) -> Program:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        program = subprocess.Popen(argv, **{"env": self.env, "cwd": self.folder, **pipes, **options})
        self.started.append(program)
        return program

    def run(self, *words: str, stdin: bytes = b"", seconds: float = 30, **options: Any) -> "Told":
        """Run `fencepost` to its end."""
        program = self.start(*words, **{"stdin": subprocess.PIPE, **options})
        return self.told(program, stdin=stdin, seconds=seconds)

    def told(self, program: Program, *, stdin: bytes | None = None, seconds: float = 30) -> "Told":
        out, err = program.communicate(stdin, timeout=seconds)
        return Told(program.returncode, out or b"", (err or b"").decode())

    def store(self) -> LeaseStore:
        return wiring.open_store(self.store_url)

    def leases(self) -> list[dict[str, Any]]:
        told = self.run("lease", "list", "--json", "--store", self.store_url)
        assert told.code == 0, told
        return [json.loads(line) for line in told.out.splitlines()]

    def wait_for(self, name: str, *, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until an agent has written a whole line into this file, and return it."""
        path = self.folder / name
        wait_until(
            lambda: path.exists() and path.read_text().endswith("\n"), what=f"{name} is written", seconds=seconds
        )
        return path.read_text().strip()

    def alive(self) -> dict[int, str]:
        """Return every living process that came from here, and what it is."""
        marker = f"{MARK}={self.mark}".encode()
        found = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and marker in _read(f"{entry.path}/environ").split(b"\0"):
                found[int(entry.name)] = (
                    _read(f"{entry.path}/cmdline")[:200].replace(b"\0", b" ").decode(errors="replace")
                )
        return found

    def wait_empty(self, *, seconds: float = PATIENCE_SECONDS) -> None:
        wait_until(
            lambda: not self.alive(), what=f"nothing is left alive, yet there is {self.alive()}", seconds=seconds
        )

    def run_folders(self) -> list[str]:
        base = self.runtime / "fencepost"
        return os.listdir(base) if base.exists() else []

    def guard_of(self, supervisor: Program) -> int:
        """Return the guard of a supervisor: its only child."""
        wait_until(lambda: bool(children(supervisor.pid)), what="the supervisor has a guard")
        return children(supervisor.pid)[0]

    def freeze(self, *pids: int) -> int:
        """Stop processes, though not in the middle of a transaction; return when, by the clock of time awake."""
        return freeze(self.store_url, *pids)

    def close(self) -> None:
        """End whatever is left, frozen or not."""
        for pid in self.alive():
            send(pid, signal.SIGKILL)
        for program in self.started:
            for stream in (program.stdin, program.stdout, program.stderr):
                if stream is not None:
                    stream.close()
            if program.poll() is None:
                program.kill()
            program.wait(10)


class Told:
    """What a program said, and how it ended."""

    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"code {self.code}\nout {self.out[:2000]!r}\nerr {self.err[:2000]}"


@contextmanager
def ground_at(folder: Path, **options: Any) -> Iterator[Ground]:
    ground = Ground(folder, **options)
    try:
        yield ground
        ground.wait_empty(seconds=10)
        assert ground.run_folders() == []
    finally:
        ground.close()


def send(pid: int, number: int) -> None:
    """Signal a process that came from a ground."""
    try:
        os.kill(pid, number)  # noqa: TID251  # by an id that this test has just found
    except ProcessLookupError:
        return


def freeze(store_url: str, *pids: int) -> int:
    """Stop processes, though not in the middle of a transaction; return when, by the clock of time awake.

    A writer that is frozen inside a transaction locks everybody out of an SQLite file until it wakes: that is
    SQLite's nature, and another matter.
    """
    for _ in range(50):
        at_ns = SystemClock().awake_ns()
        for pid in pids:
            send(pid, signal.SIGSTOP)
        if not store_url.startswith("sqlite:") or _may_write(store_url.removeprefix("sqlite:")):
            return at_ns
        for pid in pids:
            send(pid, signal.SIGCONT)
    raise TimeoutError("whenever it was frozen, it was in the middle of a transaction")


def sh_dead(pid: int) -> str:
    """Spell a shell's test that a process is gone; one that nobody has reaped yet has no command line any more."""
    return f'test -z "$(tr -d "\\0" 2>/dev/null < /proc/{pid}/cmdline)"'


def children(pid: int) -> list[int]:
    return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]


def state_of(pid: int) -> str:
    """Return the kernel's letter for what a process does: R, S, T, Z, or nothing."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].decode().strip()[:1]


def is_alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z", "X")


def until(condition: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    wait_until(condition, what=what, seconds=seconds)


def _may_write(path: str) -> bool:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(300)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
