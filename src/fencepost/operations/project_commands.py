"""Commands and sessions of people that are in a project, or in line for one, beside its runs."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fencepost.model.lease import Held, Turn, Waiter, project_in
from fencepost.model.process import ProcessId
from fencepost.model.project import Working
from fencepost.operations.queue_positions import QueuePosition


class Command(NamedTuple):
    """A person's command or session that is in a project, or in its line."""

    run_id: str
    tenant: str
    what: str  # the command, or the session
    resource: str
    project: str  # as it is declared; nothing if no worker knows the directory
    since_us: int
    process: ProcessId
    started_us: int | None = None
    fence: int | None = None
    place: QueuePosition | None = None  # of one that waits

    @property
    def turn(self) -> Turn:
        """Where it stands among the runs."""
        return Turn(0, self.since_us, self.run_id)

    @property
    def where(self) -> str:
        """The process that keeps it going, as people look for it."""
        return f"{self.process.host.name}:{self.process.pid}"


def commands(
    held: Iterable[Held],
    waiters: Iterable[Waiter],
    *,
    tenant: str,
    runs: Iterable[str],
    workplaces: Iterable[Working],
    places: Mapping[str, QueuePosition],
) -> list[Command]:
    """Return a tenant's commands that hold a project, longest first, and then those that wait, in their order."""
    ours, known = set(runs), {one.place.resource: one.place.project for one in workplaces if one.place.tenant == tenant}
    found = []
    for one in sorted(held, key=lambda one: one.granted_us):
        resource = project_in(one.resources)
        if resource and one.tenant == tenant and not (one.lost or one.expired or one.run_id in ours):
            project = known.get(resource.partition("#")[0], "")
            since_us = one.started_us or one.granted_us
            found.append(
                Command(
                    one.run_id,
                    tenant,
                    one.label,
                    resource,
                    project,
                    one.granted_us,
                    one.supervisor,
                    since_us,
                    one.fence,
                )
            )
    for waiter in sorted(waiters, key=lambda one: one.turn):
        resource = project_in(waiter.resources)
        if resource and waiter.tenant == tenant and not waiter.stale:
            place, project = places.get(waiter.run_id), known.get(resource, "")
            found.append(
                Command(
                    waiter.run_id, tenant, waiter.label, resource, project, waiter.since_us, waiter.process, place=place
                )
            )
    return found
