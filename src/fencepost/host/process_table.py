"""What every process table can tell, however the host keeps it."""

from __future__ import annotations

from fencepost.model.fast_typing import Iterable, Mapping, NamedTuple, Protocol


class ProcessRow(NamedTuple):
    """One process at one moment."""

    pid: int
    parent: int
    started: str
    gone: bool  # dead already, only its parent has not asked for the exit code yet
    entry: int = 0  # of the table; another process with the same pid has another one. 0: the table cannot tell


class MarkedProcesses(NamedTuple):
    """Who was started with the marker, and who had nothing to show, maybe because it was just ending."""

    pids: set[int]
    unclear: set[int]


class Table(Protocol):
    """The host's list of processes."""

    @property
    def looks_needed(self) -> int:
        """Return how many clear looks in a row must find no process once we have raced against forks."""
        ...

    @property
    def looks_max(self) -> int:
        """Return how many empty looks in a row are enough on a host that is too busy for a clear one."""
        ...

    def row(self, pid: int) -> ProcessRow | None:
        """Return the process with this pid; raise PermissionError where we may not look."""
        ...

    def rows(self, known: Mapping[int, ProcessRow]) -> dict[int, ProcessRow]:
        """Return all processes that we may see, by pid; one that ended under our eyes has started == "".

        Of those that are known and still there, the row that is known will do: it need not be read again.
        """
        ...

    def marked(self, marker: str, among: Iterable[ProcessRow]) -> MarkedProcesses:
        """Find those that were started with this NAME=value in their environment."""
        ...

    def is_older(self, row: ProcessRow, than: str) -> bool:
        """Tell whether the process surely started before another one did."""
        ...
