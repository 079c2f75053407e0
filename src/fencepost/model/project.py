"""Projects: directories that agents work in, one writer at a time or each in a worktree of its own."""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Collection, Iterable
    from fencepost.model.process import ProcessId

MANUAL = "manual"  # a person asked for it, and wants it in the main directory


class Project(NamedTuple):
    """A project of a configuration, as this machine sees it."""

    name: str
    path: str  # where its runs work
    resource: str  # the directory's identity, whatever its name
    slots: int = 1
    isolated: bool = False
    worktree_base: str = ""
    worktrees_dir: str = ""
    copy: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()
    merge: str = "keep"

    def isolates(self, trigger: str) -> bool:
        """Tell whether a run with this trigger works in a worktree of its own."""
        return self.isolated and trigger != MANUAL


class Workplace(NamedTuple):
    """What a worker tells the store about a project that it can reach."""

    tenant: str
    project: str
    resource: str
    path: str
    slots: int
    isolated: bool


class Working(NamedTuple):
    """A workplace as the store keeps it."""

    place: Workplace
    worker: str
    process: ProcessId
    stale: bool


def workplaces(tenant: str, projects: Iterable[Project]) -> tuple[Workplace, ...]:
    """Return what a worker can reach in the words of the store."""
    return tuple(Workplace(tenant, one.name, one.resource, one.path, one.slots, one.isolated) for one in projects)


def apart(places: Collection[Workplace]) -> list[tuple[str, str]]:
    """Return the projects whose runs need not wait for one another."""
    return [(place.tenant, place.project) for place in places if place.isolated]
