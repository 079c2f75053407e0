"""The projects that a worker can reach: found on this machine, told to the store, and freed of the dead."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.flow.leaser import Undertaker
from fencepost.host.project_identity import resolve
from fencepost.model.errors import FencepostError
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.lease import renew_every
from fencepost.model.process import Fate, ProcessId
from fencepost.model.project import Project, Workplace, workplaces
from fencepost.service.command_order import Tools, new_id

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

LOOK_SECONDS = 0.5  # how soon a holder or waiter that was killed is noticed


class ReachableProjects(NamedTuple):
    """The projects of a configuration; each is looked for anew when it is needed, for directories come and go."""

    tenant: str = ""
    declared: Mapping[str, Mapping[str, Any]] = {}
    base: str = "/"  # the configuration's folder

    def find(self, tenant: str, name: str) -> Project | None:
        """Return a project if it is ours and here."""
        if tenant != self.tenant or name not in self.declared:
            return None
        try:
            return resolve(name, self.declared[name], self.base)
        except FencepostError:
            return None

    def places(self) -> tuple[Workplace, ...]:
        """Return every project that is here."""
        found = [self.find(self.tenant, name) for name in self.declared]
        return workplaces(self.tenant, [one for one in found if one is not None])

    def problems(self) -> list[str]:
        """Say which projects are not here, and why."""
        problems = []
        for name, values in self.declared.items():
            try:
                resolve(name, values, self.base)
            except FencepostError as error:
                problems.append(f"{error} Its runs wait for a worker that has it.")
        return problems


class Presence:
    """A worker's standing word on where it can work."""

    def __init__(self, grounds: ReachableProjects, tools: Tools, *, ttl_seconds: float) -> None:
        self._grounds = grounds
        self._tools = tools
        self._ttl_seconds = ttl_seconds
        self._worker = new_id(tools.clock)
        self._keep_ns = self._look_ns = 0
        self._places: tuple[Workplace, ...] = ()

    def step(self, store: "RuntimeStore") -> None:
        """Renew the word when it is time, and take leases and places in line from the dead."""
        if not self._grounds.declared:
            return
        now = self._tools.clock.awake_ns()
        if now >= self._keep_ns:
            self._places = self._grounds.places()
            store.keep_workplaces(
                self._worker, self._tools.processes.myself(), self._places, ttl_seconds=self._ttl_seconds
            )
            self._keep_ns = now + round(renew_every(self._ttl_seconds) * 1e9)
        if now >= self._look_ns:
            self._look_ns = now + round(LOOK_SECONDS * 1e9)
            for place in self._places:
                self._free_of_the_dead(store, place)

    def leave(self, store: "RuntimeStore") -> None:
        """Take the word back: runs that stay queued hold up no other run."""
        if self._grounds.declared:
            store.leave_workplaces(self._worker)

    def _free_of_the_dead(self, store: "RuntimeStore", place: Workplace) -> None:
        """Do what the next one in a terminal does by itself: a queued run has no process that could look."""
        holders, waiters = store.parties(place.resource, place.slots)
        for held in holders:
            if not held.expired:
                Undertaker(store, self._tools.processes).take_from_dead(held)
        for waiter in waiters:
            if self._is_dead(waiter.process):
                store.dequeue(waiter.id)

    def _is_dead(self, process: ProcessId) -> bool:
        return self._tools.processes.fate(process) is Fate.DEAD
