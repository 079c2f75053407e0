"""What a worker tells and asks a store about the projects that it can reach."""

from fencepost.model.lease import Held, Waiter
from fencepost.model.light import Protocol, Sequence
from fencepost.model.process import ProcessId
from fencepost.model.project import Working, Workplace


class WorkplaceStore(Protocol):
    """Who can work where."""

    def keep_workplaces(
        self, worker: str, process: ProcessId, places: Sequence[Workplace], *, ttl_seconds: float
    ) -> None:
        """Say which projects a worker can reach, for as long as its word is good; what it no longer names is gone."""
        ...

    def leave_workplaces(self, worker: str) -> None:
        """Take back what a worker said."""
        ...

    def workplaces(self) -> list[Working]:
        """Return what workers said, of those that are heard of."""
        ...

    def parties(self, resource: str, slots: int) -> tuple[list[Held], list[Waiter]]:
        """Return who holds a project, and who waits for it from a terminal."""
        ...
