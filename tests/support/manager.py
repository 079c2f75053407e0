"""A manager of services that starts and stops a unit as systemd does, as far as it matters to running agents.

systemd.service(5) and systemd.kill(5): a stop sends KillSignal (SIGTERM) to the main process, with `KillMode=process` to no
other and with `control-group` to all of the unit; after TimeoutStopSec the same ones get SIGKILL. `Restart=on-failure`
starts the main process again after RestartSec when a signal has ended it, and what else was in the unit stays there.
"""

import shlex
import signal
import subprocess
from contextlib import suppress

from tests.support.ground import send
from tests.support.site import Site

PATIENCE_SECONDS = 60.0


class Manager:
    """Keeps one unit of a site."""

    def __init__(self, site: Site, unit: str) -> None:
        self._site = site
        self._lines = unit.splitlines()
        self.main: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the main process, with the unit's environment and what every user manager has."""
        recorded = dict(shlex.split(one)[0].split("=", 1) for one in self._said("Environment"))
        state = str(self._site.folder / "state")
        outside = {"HOME": str(self._site.folder), "XDG_STATE_HOME": state, "XDG_RUNTIME_DIR": self._runtime()}
        self.main = self._site.start(
            *shlex.split(self._said("ExecStart")[0]),
            environment={**outside, **recorded},
            folder=self._said("WorkingDirectory")[0],
        )

    def stop(self) -> None:
        """Ask whom KillMode names to end, and kill those that have not after a while."""
        assert self.main is not None
        whom = self._whom()
        for pid in whom:
            send(pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.main.wait(min(PATIENCE_SECONDS, float(self._said("TimeoutStopSec")[0])))
        for pid in whom:
            send(pid, signal.SIGKILL)

    def crash(self) -> None:
        """Let the main process be killed, and start it again as Restart= says."""
        assert self.main is not None
        assert self._said("Restart") == ["on-failure"]
        self.main.kill()
        self.main.wait(PATIENCE_SECONDS)
        self.start()

    def restart(self) -> None:
        """Stop, then start."""
        self.stop()
        self.start()

    def _whom(self) -> list[int]:
        assert self.main is not None
        return {"process": [self.main.pid], "control-group": self._site.left_alive()}[self._said("KillMode")[0]]

    def _said(self, key: str) -> list[str]:
        return [line.partition("=")[2] for line in self._lines if line.startswith(f"{key}=")]

    def _runtime(self) -> str:
        folder = self._site.folder / "run"
        folder.mkdir(mode=0o700, exist_ok=True)
        return str(folder)
