"""A site of one's own: a folder with a configuration, a store, and the real command line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from fencepost import wiring
from fencepost.model.lease import Held
from fencepost.ports.runs import RunRow
from tests.support import zygote

PATIENCE_SECONDS = 30.0
PROMPT_SECONDS = 1.0  # in which a daemon that has nothing to do is gone
SERVED = re.compile(r"web: http://127\.0\.0\.1:(\d+); to log in, ask for a link: fencepost (key link .*)")
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/login\?link=(fpl_\w+)")


class Site:
    """Runs `fencepost` the way a person does, with all state below one folder."""

    of_today = True  # the program that was imported already

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        self.store = store or f"sqlite:{folder}/state/site.db"
        self._processes: list[subprocess.Popen[bytes]] = []

    def configure(self, text: str) -> None:
        """Write the configuration and apply it."""
        (self.folder / "fencepost.toml").write_text(f'[fencepost]\nstore = "{self.store}"\ntimezone = "UTC"\n{text}')
        self.fencepost("apply")

    def fencepost(self, *words: str, code: int | None = 0, data: str = "") -> str:
        """Run a command to its end and return what it printed."""
        ran = self.try_fencepost(*words, data=data)
        assert code is None or ran.returncode == code, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def try_fencepost(self, *words: str, data: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end, however it ends."""
        if self.of_today and zygote.can_run(words):
            return zygote.run(words, cwd=self.folder, env=self.environment(), data=data, seconds=60)
        return subprocess.run(
            [sys.executable, "-m", "fencepost", *words],
            cwd=self.folder,
            env=self.environment(),
            input=data,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Return a listing."""
        return [json.loads(line) for line in self.fencepost(*words, "--json").splitlines()]

    def runs(self, **wanted: object) -> list[RunRow]:
        """Return the runs that are like this, newest first."""
        store = wiring.open_runtime(self.store)
        try:
            found = store.runs(tenant="default", limit=100_000)
        finally:
            store.close()
        return [run for run in found if all(getattr(run, name) == value for name, value in wanted.items())]

    def leases(self) -> list[Held]:
        """Return who holds what."""
        store = wiring.open_runtime(self.store)
        try:
            return list(store.leases())
        finally:
            store.close()

    def up(self, *words: str, command: str = "up", web: bool = False) -> subprocess.Popen[bytes]:
        """Start a daemon in a session of its own."""
        without = ["--no-web"] if command == "up" and not web else []
        return self.start(sys.executable, "-m", "fencepost", command, *words, *without)

    def start(
        self, *words: str, environment: dict[str, str] | None = None, folder: str | None = None
    ) -> subprocess.Popen[bytes]:
        """Start any program as a daemon of this site."""
        with (self.folder / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                cwd=folder or self.folder,
                env=environment or self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def kill(self) -> None:
        """End every daemon at once, with the guards that outlive it and their agents, as a power cut does."""
        for process in self._processes:
            process.kill()
            process.wait(10)
        for _ in range(3):  # what was just being forked is found by the next look
            for pid in self.left_alive():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # noqa: TID251  # it was started with this site's state folder

    def daemons(self) -> list[subprocess.Popen[bytes]]:
        """Return the daemons that still run."""
        return [process for process in self._processes if process.poll() is None]

    def left_alive(self) -> list[int]:
        """Return the processes that were started with this site's folder as their state."""
        mark = f"XDG_STATE_HOME={self.folder / 'state'}\0".encode()
        home = f"HOME={self.folder}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    environment = (entry / "environ").read_bytes()
                    if mark in environment or home in environment:
                        found.append(int(entry.name))
        return found

    def until(self, condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for something to become true."""
        give_up = time.monotonic() + seconds  # noqa: TID251  # real processes take real time
        while not condition():
            assert time.monotonic() < give_up, f"it did not happen; the daemon said:\n{self.said()}"  # noqa: TID251
            Event().wait(0.05)

    def said(self) -> str:
        """Return what the daemons printed."""
        path = self.folder / "daemon.log"
        return path.read_text() if path.exists() else ""

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**kept, "PATH": path, "XDG_STATE_HOME": str(self.folder / "state"), "HOME": str(self.folder)}

    def close(self) -> None:
        """End every daemon that was started here."""
        self._ask_to_end(PROMPT_SECONDS)
        self._ask_to_end(PATIENCE_SECONDS)  # the second time means: do not wait for what still runs
        self.kill()

    def _ask_to_end(self, seconds: float) -> None:
        alive = [process for process in self._processes if process.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)  # a test may have frozen it
        give_up = time.monotonic() + seconds  # noqa: TID251  # real processes take real time
        for process in alive:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.01, give_up - time.monotonic()))  # noqa: TID251


def greeted(site: Site) -> tuple[int, str]:
    """Wait for the web door, ask for a link as it says, and return its port and the link's secret."""
    site.until(lambda: SERVED.search(site.said()))
    served = SERVED.search(site.said())
    assert served is not None
    found = LINK.fullmatch(site.fencepost(*served[2].split()).strip())
    assert found is not None
    return int(found[1]), found[2]
