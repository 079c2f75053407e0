"""What we ask of the host about processes."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, Collection, NamedTuple, Protocol

if TYPE_CHECKING:
    from fencepost.model.process import Fate, Host, ProcessId

KILL_SECONDS = 10.0  # how long a tree that was killed may take to be gone


class Traces(NamedTuple):
    """What a run leaves behind to find its processes by, known before the agent starts."""

    run_id: str
    guard: ProcessId | None  # parent of the agent; detached grandchildren are its descendants
    cgroup: str | None  # a cgroup of the run's own, where the host allows one


class Processes(Protocol):
    """The host's process table."""

    def here(self) -> Host:
        """Return this host, boot and pid namespace."""
        ...

    def myself(self) -> ProcessId:
        """Return the calling process."""
        ...

    def identify(self, pid: int) -> ProcessId | None:
        """Return who has this pid now, or None if no process does."""
        ...

    def fate(self, process: ProcessId) -> Fate:
        """Tell whether this very process still runs."""
        ...

    def signal_process(self, process: ProcessId, signum: int) -> bool:
        """Signal this very process; return False if it is gone, elsewhere, or not ours to signal."""
        ...

    def members(self, traces: Traces, *, spare: Collection[int] = ()) -> list[ProcessId]:
        """Return the living processes of a run's tree, never the guard or the supervisor themselves."""
        ...

    def end(self, traces: Traces, *, grace_seconds: float, kill_seconds: float, spare: Collection[int] = ()) -> bool:
        """Ask the tree to stop, kill what is left after the grace; return whether it is all gone."""
        ...
