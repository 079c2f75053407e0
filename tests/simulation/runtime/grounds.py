"""Where a worker can work: one project, in the words of the product, without looking at a disk."""

from typing import TYPE_CHECKING, Any

from fencepost.model.project import Project, Workplace, workplaces
from tests.simulation.runtime.fleet import TENANT, Plot

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ground:
    """The projects of a configuration, as `service.projects.Grounds` finds them on a real machine."""

    def __init__(self, plot: Plot) -> None:
        self.declared: Mapping[str, Mapping[str, Any]] = {"scout": {}} if plot.project else {}
        self._plot = plot

    def find(self, name: str) -> Project | None:
        """Return a project if it is here."""
        return Project(name, "/scout", self._plot.project, self._plot.project_slots) if name in self.declared else None

    def places(self) -> tuple[Workplace, ...]:
        """Return every project that is here."""
        return workplaces(TENANT, [one for one in map(self.find, self.declared) if one is not None])
