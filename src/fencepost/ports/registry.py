"""What we ask of a registry: definitions go in atomically, and each verb of an operator is one transaction."""

from datetime import datetime
from typing import NamedTuple

from fencepost.model.ownership import Replaced
from fencepost.model.registry_plan import KnownDefinitions, Plan, Wanted

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
    known: KnownDefinitions
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
