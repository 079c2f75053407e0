"""Folders, accounts and ports for the servers that tests start: nothing is left behind, however a test ends."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Lock
from typing import Any

# Below the range from which Linux and macOS take the ports of outgoing connections: a client that keeps dialling a
# server which is down could otherwise be given that server's port as its own, and end up talking to itself.
PORTS = range(20_000, 32_000)

# A database is three hundred small files: creating one takes a tenth of the time here. Docker's default of 64 MB is too
# small to be used, and programs may be forbidden to run from here.
MEMORY = "/dev/shm"

# The loop ends with our last word, or with the pipe when we were killed; a command in progress is finished first, so
# that nothing is half started when the farewell comes.
KEEPER = """
trap : PIPE
while read -r command && [ "$command" != farewell ]; do
    eval "$command" </dev/null >"$1/output" 2>&1
    echo $?
done
eval "$2"
cd /
for _ in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" && exit; sleep 0.2; done
"""


class CommandFailed(RuntimeError):
    """A program ended with an error; the message is what it said."""


class Scratch:
    """A folder of the unprivileged account, and a shell that works there, and clears up even after we were killed.

    The shell outlives us in a session of its own, says the `farewell` to what it started, and removes the folder. A
    signal at our death (PR_SET_PDEATHSIG) would not do: it is sent when the *thread* ends that started a server.
    """

    def __init__(self, farewell: str, *, in_memory: bool = False) -> None:
        self.folder = _new_folder(_base_folder(in_memory=in_memory))
        self._turn = Lock()
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", KEEPER, "keeper", self.folder, farewell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.folder,
            env=_quiet_environment(),
            start_new_session=True,
            **unprivileged(),
        )

    def run(self, command: str) -> None:
        """Let the shell carry out one line; raise CommandFailed with its output when it ends with an error."""
        assert self._keeper.stdin
        assert self._keeper.stdout
        with self._turn:
            self._keeper.stdin.write(f"{command}\n")
            self._keeper.stdin.flush()
            if self._keeper.stdout.readline() != "0\n":
                raise CommandFailed((self.folder / "output").read_text().strip())

    def clear(self) -> None:
        """End what was started, remove the folder, and return when both have happened."""
        self._keeper.communicate("farewell\n", timeout=60)
        assert not self.folder.exists(), f"{self.folder} could not be cleared"


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Lend a folder of our own, in memory, or on disk where there is no room for thousands of files."""
    base = MEMORY if _roomy(MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="fencepost-test-", dir=base, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def unprivileged() -> dict[str, Any]:
    """Return the arguments with which subprocess starts a program that refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _quiet_environment() -> dict[str, str]:
    """Return our environment without what would lead PostgreSQL's programs elsewhere or make them speak in tongues."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def free_port() -> int:
    """Return a loopback port that nobody listens on and that no outgoing connection will be given."""
    for _ in range(100):
        port = PORTS[secrets.randbelow(len(PORTS))]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port between {PORTS.start} and {PORTS.stop} is free")


def wait_until(condition: Callable[[], bool], *, what: str, seconds: float = 10) -> None:
    """Return as soon as the condition holds; fail with `what` when it does not in time."""
    pause = Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise TimeoutError(f"after {seconds} s still not so: {what}")


def _new_folder(base: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-test-", dir=base))
    if account := unprivileged():
        os.chown(folder, account["user"], account["group"])
    return folder


@cache
def _base_folder(*, in_memory: bool) -> str:
    """Return the first temporary folder in which the unprivileged account may make and remove things."""
    memory = [MEMORY] if in_memory and "TMPDIR" not in os.environ and _roomy(MEMORY) else []
    for base in (*memory, tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if subprocess.run(["test", "-w", base], check=False, cwd="/", **unprivileged()).returncode == 0:
            return base
    raise PermissionError("no temporary folder is writable for the unprivileged account that runs PostgreSQL in tests")


def _roomy(base: str) -> bool:
    return Path(base).is_dir() and shutil.disk_usage(base).free >= 4 * 2**30
