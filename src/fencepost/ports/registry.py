"""What we ask of a registry: definitions go in atomically, and each verb of an operator is one transaction."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

from fencepost.model.ownership import Replaced
from fencepost.model.registry import Known, Plan, Wanted

BEYOND = 1 << 62  # every version and every id


class ScheduleRow(NamedTuple):
    """A schedule as the registry holds it."""

    tenant: str
    name: str
    version: int
    hash: str
    agent: str
    definition: str
    manifest: str
    manifest_hash: str
    source: str
    trigger: str
    cursor_us: int
    due_us: int | None
    applied_us: int
    skip_next: str | None
    failures: int
    last_success_us: int | None
    retired_us: int | None
    once_done: bool
    last_run: str | None = None
    last_ended_us: int | None = None


class AgentRow(NamedTuple):
    """An agent as the registry holds it."""

    tenant: str
    name: str
    hash: str
    definition: str
    source: str
    applied_us: int
    applied_by: str
    retired_us: int | None


class VersionRow(NamedTuple):
    """One version of a schedule; it decided the ticks in (after_us, until_us]."""

    version: int
    hash: str
    definition: str
    manifest: str
    manifest_hash: str
    applied_us: int
    applied_by: str
    after_us: int
    until_us: int | None


class PauseEntry(NamedTuple):
    """A pause of a schedule, or with `schedule` empty of everything; over once `until_us` has come."""

    id: int
    schedule: str
    since_us: int
    until_us: int
    note: str
    by_whom: str


class Survey(NamedTuple):
    """What the registry holds that a file may touch, and the store's time at that moment."""

    now: datetime
    known: Known
    wanted: Wanted  # in the name of its owner
    replaced: Replaced | None  # when this content was in force, if another one has replaced it


class Applied(NamedTuple):
    """What an apply has done, and when by the store's clock."""

    plan: Plan
    now: datetime


class Listing(NamedTuple):
    """Schedules by name, with the pauses in force."""

    now: datetime
    schedules: list[ScheduleRow]
    pauses: list[PauseEntry]


class RegistryStore(Protocol):
    """Definitions, their versions, and what operators have said about them."""

    def survey(self, wanted: Wanted) -> Survey:
        """Return what an apply of these definitions would meet."""
        ...

    def apply(
        self,
        wanted: Wanted,
        *,
        actor: str,
        take_over: bool = False,
        rollback: bool = False,
        seen: Callable[[Known], None] | None = None,
    ) -> Applied:
        """Make the registry as wanted, all of it or nothing; raise Invalid if something stands in the way.

        A file as it was before its present version is refused with Rollback, unless `rollback` is said.
        `seen` looks at what it is planned on, and raises if that is not what the caller knows.
        """
        ...

    def agents(self, tenant: str, *, limit: int, after: str = "") -> list[AgentRow]:
        """Return the agents of a tenant, by name."""
        ...

    def agent(self, tenant: str, name: str) -> AgentRow | None:
        """Return one agent, retired or not."""
        ...

    def schedules(self, tenant: str, *, limit: int, after: str = "") -> Listing:
        """Return the active schedules of a tenant, by name."""
        ...

    def schedule(self, tenant: str, name: str) -> Listing:
        """Return one schedule, retired or not; none if there never was one."""
        ...

    def has_tenant(self, tenant: str) -> bool:
        """Tell whether anything at all is kept for a tenant."""
        ...

    def tenants(self) -> list[str]:
        """Return the tenants that have definitions or keys."""
        ...

    def schedule_names(self, tenant: str) -> list[str]:
        """Return the names of the active schedules of a tenant."""
        ...

    def versions(self, tenant: str, name: str, *, before: int = BEYOND, limit: int) -> list[VersionRow]:
        """Return the versions of a schedule, newest first, from the one before a number on."""
        ...

    def pauses(self, tenant: str, name: str, *, before: int = BEYOND, limit: int) -> list[PauseEntry]:
        """Return the pauses of a schedule (or with an empty name, the halts), newest first, from the one before an id on."""
        ...

    def pause(self, tenant: str, name: str, *, until: datetime | None, note: str, actor: str) -> PauseEntry:
        """Pause a schedule from now on; a pause that is in force gives way to this one."""
        ...

    def resume(self, tenant: str, name: str, *, actor: str) -> list[PauseEntry]:
        """End the pauses of a schedule; return those that were ended."""
        ...

    def skip_next(self, tenant: str, name: str, count: int, *, actor: str) -> datetime:
        """Leave out the next ticks of a schedule after now, which is returned; 0 takes it back."""
        ...

    def halt(self, tenant: str, *, note: str, actor: str) -> PauseEntry:
        """Pause everything of a tenant."""
        ...

    def unhalt(self, tenant: str, *, actor: str) -> list[PauseEntry]:
        """End the halt; return what was ended."""
        ...
