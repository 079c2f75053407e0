"""What the API takes and gives, field by field; the names are those of `--json`."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

T = TypeVar("T")
Text = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class Asked(BaseModel):
    """What somebody sends; a field that is not known is an error, not a typo that goes unseen."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[T]):
    """Part of a listing; `next` is the cursor of the part after it."""

    items: list[T]
    next: str | None = None


class Run(BaseModel):
    """A run."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    schedule_version: int | None
    trigger: str
    tick: str | None
    state: str
    reason: str | None
    attempt: int
    fence: int | None
    resource: Any
    project: str | None
    position: int | None
    ready_at: str | None
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    cost_usd: float | None
    summary: str | None
    created_at: str | None
    worker: str | None
    origin: str | None
    idempotency_key: str


class RunMade(Run):
    """The run that answers a request, and what should be said about it."""

    earlier: bool = Field(description="it was there already")
    said: str


class QueuedRun(Run):
    """A run that waits."""

    waits_for: str | None


class DeadLetter(Run):
    """A run that needs a person."""

    died_at: str | None
    last_log: str


class RunDetail(Run):
    """Everything about one run."""

    model_config = ConfigDict(extra="allow")
    period_start: str | None
    period_end: str | None
    request_key: str | None
    payload: Any
    manifest_hash: str
    stop: str | None
    discarded_at: str | None
    replays: list[str]
    attempts: list[dict[str, Any]]
    lease: dict[str, Any] | None
    last_log: str


class RunLog(BaseModel):
    """What an attempt has printed."""

    run_id: str
    attempt: int | None
    host: str | None
    complete: bool = Field(description="all that is left of it; else only the last lines, which the store has")
    text: str


class Schedule(BaseModel):
    """A schedule."""

    name: str
    tenant: str
    agent: str
    version: int
    state: str
    trigger: str
    when: str
    timezone: str
    next_at: str | None
    cursor_at: str | None
    cursor_age_seconds: int
    failures: int
    last_success: str | None
    skip_next: int
    paused_until: str | None
    pause_note: str
    applied_at: str | None
    retired_at: str | None
    source: str


class ScheduleDetail(Schedule):
    """A schedule in full."""

    ticks: dict[str, int]
    runs: dict[str, int]
    pruned_until: str | None
    definition: dict[str, Any]
    manifest: dict[str, Any]
    upcoming: list[dict[str, Any]]


class Tick(BaseModel):
    """A recorded tick, or a range of neighbours."""

    schedule: str
    version: int
    slot: str
    slot_until: str
    count: int
    tick_at: str | None
    disposition: str
    run_id: str | None
    tick_until: str | None
    into: str | None
    decided_at: str | None


class History(BaseModel):
    """Versions and pauses of a schedule, newest first."""

    versions: list[dict[str, Any]]
    pauses: list[dict[str, Any]]


class Answers(BaseModel):
    """Why it ran, or did not."""

    answers: list[dict[str, Any]]


class Paused(BaseModel):
    """A pause."""

    kind: str
    since: str | None
    until: str | None
    note: str
    by: str


class Skips(BaseModel):
    """The ticks that are left out."""

    name: str
    skips: list[str]


class Backfilled(BaseModel):
    """What a backfill has made."""

    name: str
    ticks: int
    known: int
    run_ids: list[str]


class Lease(BaseModel):
    """A lease."""

    resource: str
    fence: int
    run_id: str
    host: str
    pid: int
    granted_at: str | None
    expires_at: str | None
    started_at: str | None
    tenant: str
    holder: str | None
    label: str
    renewals: int


class LedgerEntry(BaseModel):
    """An effect that happens once."""

    key: str
    scope: str
    state: str
    answer: Any
    doubt: str | None
    run_id: str
    fence: int
    begun_at: str | None
    completed_at: str | None
    resolved_by: str | None
    tenant: str


class AuditEntry(BaseModel):
    """Who did what."""

    seq: int
    at: str | None
    actor: str
    verb: str
    subject: str
    detail: str


class Key(BaseModel):
    """A key, without its secret half."""

    id: str
    tenant: str
    kind: str
    name: str
    role: str
    created_at: str | None
    created_by: str
    expires_at: str | None
    revoked_at: str | None


class NewKey(Key):
    """A new key, which is shown this once."""

    key: str


class Rows(BaseModel):
    """Rows of a report."""

    rows: list[dict[str, Any]]


class Done(BaseModel):
    """It is done."""

    done: bool = True


class AskRun(Asked):
    """Run an agent or a schedule."""

    target: Name
    payload: dict[str, Any] | None = None
    tick: Text | None = Field(None, description="run this tick of a schedule, with its period and key")
    again: bool = False
    overlap: Text | None = None
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000)


class AskReplay(Asked):
    """Replay a dead letter."""

    again: bool = False
    as_then: bool = False


class AskPause(Asked):
    """Pause a schedule."""

    note: Text = ""
    until: Text | None = Field(None, description="an instant such as 2026-12-01T06:00:00Z")


class AskNote(Asked):
    """Say why."""

    note: Text = ""


class AskSkip(Asked):
    """Leave out the next ticks; 0 takes it back."""

    count: int = Field(1, ge=0, le=1_000_000)


class AskBackfill(Asked):
    """Make runs for ticks that are over."""

    from_: Text = Field(alias="from")
    until: Text
    current: bool = False
    name: Name | None = None
    limit: int = Field(1_000, ge=1, le=1_000)
    stagger: Text | None = None
    again: bool = False


class AskBreak(Asked):
    """Take a lease from its holder."""

    resource: Name
    note: Text = "broken by hand"


class AskResolve(Asked):
    """Say what became of an ambiguous effect: with an answer it took place, without one it is forgotten."""

    key: Name
    scope: Text = "tenant"
    forget: bool = False
    answer: Any = None


class AskKey(Asked):
    """Make a key."""

    name: Name
    role: Annotated[str, StringConstraints(pattern="^(read|trigger|admin)$")] = "read"
    expires: Text | None = Field(None, description="good for so long, such as 90d")
