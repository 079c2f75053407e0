"""The machine of a simulation: a clock that is moved, and processes that die when it crashes."""

from collections.abc import Collection

from fencepost.model.process import Fate, Host, ProcessId
from fencepost.ports.processes import Traces

HOST = Host(name="simulated", machine="simulated", boot="simulated", pid_namespace="simulated")


class VirtualClock:
    """Time that stands still unless it is moved; the machine never sleeps, it is up or down."""

    def __init__(self, wall_us: int) -> None:
        """Begin at an instant."""
        self._wall_us = wall_us

    def move(self, wall_us: int) -> None:
        """Go on to an instant."""
        assert wall_us >= self._wall_us, "time goes on"
        self._wall_us = wall_us

    def wall_us(self) -> int:
        """Return microseconds since 1970."""
        return self._wall_us

    def awake_ns(self) -> int:
        """Return nanoseconds that never go back."""
        return self._wall_us * 1000

    def boot_ns(self) -> int:
        """Return nanoseconds that never go back."""
        return self._wall_us * 1000

    def sleep(self, seconds: float) -> None:
        """Let the time go by at once."""
        self._wall_us += round(seconds * 1_000_000)


class Crew:
    """The processes of the machine: one after the other, each until the next crash."""

    def __init__(self) -> None:
        self._generation = 1

    def crash(self) -> None:
        """End everything; processes from now on are new ones."""
        self._generation += 1

    def here(self) -> Host:
        """Return the machine."""
        return HOST

    def myself(self) -> ProcessId:
        """Return who runs now."""
        return ProcessId(HOST, self._generation, str(self._generation))

    def identify(self, pid: int) -> ProcessId | None:
        """Return who has this pid now."""
        return self.myself() if pid == self._generation else None

    def fate(self, process: ProcessId) -> Fate:
        """Tell whether this process has survived."""
        return Fate.ALIVE if process == self.myself() else Fate.DEAD

    def signal_process(self, process: ProcessId, signum: int) -> bool:  # noqa: ARG002  # no process hears it
        """Signal no process: agents are only durations here."""
        return False

    def members(self, traces: Traces, *, spare: Collection[int] = ()) -> list[ProcessId]:  # noqa: ARG002  # there are none
        """Return no process."""
        return []

    def end(
        self,
        traces: Traces,  # noqa: ARG002  # there is no process to end
        *,
        grace_seconds: float,  # noqa: ARG002  # part of the port
        kill_seconds: float,  # noqa: ARG002  # part of the port
        spare: Collection[int] = (),  # noqa: ARG002  # part of the port
    ) -> bool:
        """Tell that all are gone."""
        return True
