"""What the API gives about runs, field by field; the names are those of `--json`."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

T = TypeVar("T")
Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC")]


class Shape(BaseModel):
    """What an answer looks like. A field that it does not name is an error, where it would be dropped without a word."""

    model_config = ConfigDict(extra="forbid")


class Page(Shape, Generic[T]):
    """Part of a listing; `next` is the cursor of the part after it, and null at the end."""

    items: list[T]
    next: str | None = None


class Done(Shape):
    """It is done."""

    done: bool = True


class Run(Shape):
    """A run."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    schedule_version: int | None
    trigger: str
    tick: Instant | None
    state: str
    reason: str | None
    attempt: int
    fence: int | None
    resource: str = Field(description="what it leases, separated by blanks")
    project: str | None
    position: int | None = Field(description="its place in the line, from 1")
    ready_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    exit_code: int | None
    cost_usd: float | None
    summary: str | None
    created_at: Instant | None
    worker: str | None
    origin: str | None
    idempotency_key: str


class RunMade(Run):
    """The run that answers a request, and what should be said about it."""

    earlier: bool = Field(description="it was there already")
    said: str


class Triggered(Shape):
    """The run that answers one request of a batch."""

    id: str
    earlier: bool = Field(description="it was there already")


class Batch(Shape):
    """The runs of a batch, in the order of their payloads."""

    runs: list[Triggered]


class LiveRun(Shape):
    """What runs or waits: a run, or somebody's command in a project, which has fewer fields."""

    id: str
    tenant: str
    agent: str | None
    schedule: str | None
    schedule_version: int | None = None
    trigger: str
    tick: Instant | None = None
    state: str
    reason: str | None = None
    attempt: int | None = None
    fence: int | None
    resource: str
    project: str | None
    position: int | None
    ready_at: Instant | None = None
    started_at: Instant | None
    ended_at: Instant | None = None
    exit_code: int | None = None
    cost_usd: float | None = None
    summary: str | None = None
    created_at: Instant | None
    worker: str | None
    origin: str | None = None
    idempotency_key: str | None = None
    command: str | None = Field(None, description="of a command that is no run")
    waits_for: str | None
    depth: int | None = Field(description="how many wait in its project")
    unattended_since: Instant | None = Field(description="since when its worker is gone, and its guard goes on alone")


class GuardedCommand(Shape):
    """What `exec` ran under a lock: in the fields of a run, of which those that only an agent's run has are null."""

    id: str
    tenant: str
    agent: None
    schedule: None
    schedule_version: None
    trigger: str
    tick: None
    state: str = Field(description="running, succeeded, failed, or lost: nobody has reported its end")
    reason: str | None
    attempt: int
    fence: int
    resource: str
    project: str | None
    position: None
    ready_at: None
    started_at: Instant | None
    ended_at: Instant | None
    exit_code: int | None
    cost_usd: None
    summary: None
    created_at: Instant | None
    worker: str
    command: str
    refused: int = Field(description="how many came in vain meanwhile")
    refused_at: Instant | None


class DeadLetter(Run):
    """A run that needs a person."""

    died_at: Instant | None
    last_log: str


class Attempt(Shape):
    """One try at a run."""

    attempt: int
    part: int = Field(description="from 1; an attempt that was handed back by a drain, and resumed, has several")
    fence: int
    worker: str
    started_at: Instant | None
    ended_at: Instant | None
    outcome: str | None
    exit_code: int | None
    last_log: str | None
    session: str | None
    cost_usd: float | None
    turns: int | None
    usage: dict[str, int] | None = Field(description="llm_tokens by kind")
    partial: bool = Field(description="the agent was ended before it could say all that it used")


class Holding(Shape):
    """Who holds a run."""

    fence: int
    host: str
    pid: int
    expires_at: Instant | None


class Effects(Shape):
    """What is promised about an agent's effects."""

    gated: list[str]
    checked: list[str]
    ungated: bool


class RunDetail(Run):
    """Everything about one run."""

    period_start: Instant | None
    period_end: Instant | None
    backfill_from: Instant | None
    last_success: Instant | None
    request_key: str | None
    payload: dict[str, JsonValue]
    effects: Effects
    manifest_hash: str
    stop: str | None
    discarded_at: Instant | None
    replays: list[str]
    usage: dict[str, int] | None
    partial: bool = Field(description="of an attempt's usage only a part is known")
    attempts: list[Attempt]
    lease: Holding | None
    log: str | None = Field(description="the file on the server's machine, if it is there")
    last_log: str


class RunLog(Shape):
    """What an attempt has printed."""

    run_id: str
    attempt: int | None
    host: str | None
    complete: bool = Field(description="all that is left of it; else only the last lines, which the store has")
    text: str
