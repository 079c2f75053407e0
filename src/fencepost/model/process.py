"""Who a process is, so that a pid is never mistaken for another one that got the same number."""

from __future__ import annotations

from fencepost.model.fast_typing import Enum, NamedTuple


class Host(NamedTuple):
    """One boot of one machine, as seen from one pid namespace."""

    name: str
    machine: str
    boot: str
    pid_namespace: str

    @property
    def is_lasting(self) -> bool:
        """Whether the machine is still called so after its next boot; a container's is not."""
        return "@" not in self.machine and not self.machine.startswith("boot-")


class ProcessId(NamedTuple):
    """A process that can be told apart from every other one, also after its pid was given to a stranger."""

    host: Host
    pid: int
    started: str  # the kernel's start time of this pid; opaque, compared for equality only


class Fate(Enum):
    """What can be said for certain about a process from where we stand."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"  # another machine, another pid namespace: only its lease can tell


def fate_by_host(process: ProcessId, here: Host) -> Fate | None:
    """Judge by the host alone, or return None when the process table must be asked.

    A machine that has booted again since has ended everything that ran before. Cloned machines can share a
    machine id, so the name must agree too; a host renamed between two boots merely waits for the lease to run out.
    """
    if process.host.machine != here.machine:
        return Fate.UNKNOWN
    if process.host.boot != here.boot:
        return Fate.DEAD if process.host.name == here.name else Fate.UNKNOWN
    if process.host.pid_namespace != here.pid_namespace:
        return Fate.UNKNOWN
    return None
