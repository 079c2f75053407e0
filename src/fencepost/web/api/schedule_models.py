"""What the API gives about schedules, and about definitions that are planned or applied."""

from dataclasses import fields
from typing import Any

from pydantic import Field, JsonValue, create_model

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.web.api.models import Effects, Instant, Run, Shape


def _as_written(name: str, of: type[AgentDefinition | ScheduleDefinition]) -> type[Shape]:
    """Return the model of a definition as it is kept: what has its default is left out."""
    given: dict[str, Any] = {one.name: (one.type | None, None) for one in fields(of)}  # type: ignore[operator]
    return create_model(name, __base__=Shape, __doc__=(of.__doc__ or "").partition("\n")[0], **given)


WrittenSchedule = _as_written("WrittenSchedule", ScheduleDefinition)
WrittenAgent = _as_written("WrittenAgent", AgentDefinition)


class Schedule(Shape):
    """A schedule."""

    name: str
    tenant: str
    agent: str
    version: int
    state: str
    trigger: str
    when: str
    timezone: str
    next_at: Instant | None
    cursor_at: Instant | None
    cursor_age_seconds: int
    failures: int
    last_success: Instant | None
    skip_next: int
    paused_until: Instant | None
    pause_note: str
    applied_at: Instant | None
    retired_at: Instant | None
    source: str
    effects: Effects


class Agent(Shape):
    """An agent."""

    name: str
    tenant: str
    engine: str
    tag: str = Field(description="changes with the definition; the ETag")
    source: str
    applied_at: Instant | None
    applied_by: str
    effects: Effects
    definition: WrittenAgent  # type: ignore[valid-type]  # made above


class Upcoming(Shape):
    """A tick to come."""

    at: Instant | None
    local: str
    note: str


class BudgetUse(Shape):
    """What is used of one limit; dollars, runs, or seconds."""

    limit: str = Field(description="as the file names it, such as budget_usd_per_day")
    used: float
    allowed: float
    anew_at: Instant | None = Field(description="when it begins anew; null: with each hour that a run lies back")


class ScheduleDetail(Schedule):
    """A schedule in full."""

    ticks: dict[str, int] = Field(description="how many there ever were, by disposition")
    runs: dict[str, int] = Field(description="how many there ever were, by state")
    pruned_until: Instant | None
    budget: list[BudgetUse] = Field(description="what is used of each limit that it has")
    definition: WrittenSchedule  # type: ignore[valid-type]  # made above
    manifest: WrittenAgent  # type: ignore[valid-type]  # made above
    upcoming: list[Upcoming]


class Tick(Shape):
    """A recorded tick, or a range of neighbours."""

    schedule: str
    version: int
    slot: str
    slot_until: str
    count: int
    tick_at: Instant | None
    disposition: str
    run_id: str | None
    tick_until: Instant | None
    into: Instant | None
    behind: list[str] = Field(description="overlap: the runs that were in its way, oldest first")
    decided_at: Instant | None


class Version(Shape):
    """A version, and the ticks that it decided: after `after`, up to `until`."""

    kind: str
    version: int
    applied_at: Instant | None
    applied_by: str
    after: Instant | None
    until: Instant | None
    hash: str
    manifest_hash: str
    definition: WrittenSchedule  # type: ignore[valid-type]  # made above


class Pause(Shape):
    """A pause."""

    kind: str
    since: Instant | None
    until: Instant | None
    note: str
    by: str


class History(Shape):
    """Versions and pauses of a schedule, newest first."""

    versions: list[Version]
    pauses: list[Pause]
    next: str | None = Field(description="`cursor` of the next part; null: this is the last")


class Answer(Shape):
    """Why it ran, or did not, from recorded facts."""

    schedule: str
    tenant: str
    at: Instant | None
    now: Instant | None
    verdict: str
    sentences: list[str]
    tick: Tick | None
    run: Run | None
    next_tick: Instant | None


class Answers(Shape):
    """All that there is to say about an instant."""

    answers: list[Answer]


class Skips(Shape):
    """The ticks that are left out."""

    name: str
    skips: list[Instant]


class Backfilled(Shape):
    """What a backfill has made."""

    name: str
    ticks: int
    known: int
    run_ids: list[str]


class PreviewedTick(Shape):
    """A tick to come, or slots that a clock change leaves out."""

    tick_at: Instant
    slot: str
    slot_until: str
    count: int
    zone: str
    fold: int
    occurrence: str
    disposition: str
    note: str


class Preview(Shape):
    """Ticks to come, oldest first."""

    ticks: list[PreviewedTick]
    warnings: list[str] = Field(description="what the expression says and people mostly do not mean")


class FieldChange(Shape):
    """One field before and after; null where it was left out."""

    field: str
    old: JsonValue
    new: JsonValue


class AgentChange(Shape):
    """What becomes of an agent."""

    what: str
    name: str
    change: str
    fields: list[FieldChange]
    effects: Effects | None
    warnings: list[str]


class ScheduleChange(Shape):
    """What becomes of a schedule."""

    what: str
    name: str
    change: str
    fields: list[FieldChange]
    version: int
    agent: str
    agent_changed: bool
    warnings: list[str]
    next: list[Instant]


class Planned(Shape):
    """What an apply would change, or has changed."""

    source: str = Field(description="who owns these definitions")
    agents: list[AgentChange]
    schedules: list[ScheduleChange]
    warnings: list[str] = Field(description="about projects and hooks")
    conflicts: list[str] = Field(description="what keeps it from being applied")
    ignored: list[str] = Field(description="keys that belong to machines, and not to the registry")
