"""What the API gives about leases, the ledger, the audit, keys, notices and reports."""

from pydantic import BaseModel, Field, JsonValue

from fencepost.web.api.models import Instant


class Lease(BaseModel):
    """A lease."""

    resource: str
    fence: int
    run_id: str
    host: str
    pid: int
    granted_at: Instant | None
    expires_at: Instant | None
    started_at: Instant | None
    tenant: str
    holder: str | None
    label: str
    renewals: int
    lost: bool


class LedgerEntry(BaseModel):
    """An effect that happens once."""

    key: str
    scope: str
    state: str
    answer: JsonValue
    doubt: str | None
    run_id: str
    fence: int
    begun_at: Instant | None
    completed_at: Instant | None
    resolved_by: str | None
    tenant: str


class AuditEntry(BaseModel):
    """Who did what."""

    seq: int
    at: Instant | None
    actor: str
    verb: str
    subject: str
    detail: str


class Fault(BaseModel):
    """The first thing that is wrong with the audit."""

    kind: str = Field(description="integrity: something was changed; completeness: something is missing")
    where: str
    what: str


class Seal(BaseModel):
    """The end of a batch of audit entries."""

    tenant: str
    number: int
    first_place: int
    last_place: int
    hash: str
    at_us: int
    key_id: str
    mac: str


class AcceptedLoss(BaseModel):
    """An end of the audit that was lost, as after a restore, and that a person has accepted."""

    lost_seal: int
    lost_mac: str
    goes_on_after: int
    note: str
    at: Instant
    by: str


class AuditReport(BaseModel):
    """Whether all of the audit is as it was, and all of it there."""

    tenant: str
    good: bool
    integrity: str
    completeness: str
    first_fault: Fault | None
    faults: list[Fault] = Field(description="the first of each kind")
    entries: int
    seals: int
    unsealed: int
    unsealed_since: Instant | None
    heads_compared: int
    remembered_seal: int | None = Field(description="the newest that the server's machine remembers")
    accepted_losses: list[AcceptedLoss]
    unknown_keys: list[str]
    head: Seal | None


class Key(BaseModel):
    """A key, without its secret half."""

    id: str
    tenant: str
    kind: str
    name: str
    role: str
    all_tenants: bool
    created_at: Instant | None
    created_by: str
    expires_at: Instant | None
    revoked_at: Instant | None


class NewKey(Key):
    """A new key, which is shown this once."""

    key: str | None = Field(description="null if the same request has made it before: nobody can show it again")


class NewLink(Key):
    """A new login link, which is shown this once."""

    url: str | None = Field(description="null if the same request has made it before: nobody can show it again")


class Tenant(BaseModel):
    """A tenant in figures."""

    tenant: str
    schedules: int
    running: int
    waiting: int
    dead: int
    overdue: int


class Tenants(BaseModel):
    """The tenants that a key may look at."""

    items: list[Tenant]


class CellNames(BaseModel):
    """The cells that are kept for other machines."""

    names: list[str]


class Swapped(BaseModel):
    """A cell was changed."""

    tag: str = Field(description="of the new document; also in ETag")


class Finding(BaseModel):
    """What a proof found."""

    kind: str
    at: Instant | None
    count: int
    what: str


class ScheduleProof(BaseModel):
    """One schedule's owed ticks, compared with what is recorded."""

    schedule: str
    owed: int
    accounted: int
    pending: int
    missing: int
    doubled: int
    cursor: Instant | None
    cursor_age_seconds: float | None
    pruned_until: Instant | None
    findings: list[Finding]


class Proof(BaseModel):
    """The owed ticks of all schedules."""

    owed: int
    accounted: int
    pending: int
    missing: int
    doubled: int
    schedules: list[ScheduleProof]


class DstEffect(BaseModel):
    """What a clock change does to a schedule."""

    schedule: str
    zone: str
    change_at: Instant
    shift_minutes: int
    effect: str
    ticks: int
    note: str


class Examined(BaseModel):
    """What doctor says about one thing."""

    check: str
    status: str
    message: str
    fix: str


class Examination(BaseModel):
    """Everything that doctor looked at."""

    findings: list[Examined]


class Notice(BaseModel):
    """Something that somebody was told, or shall be."""

    name: str
    event: str
    subject: str
    state: str
    attempt: int
    at: Instant | None
    due_at: Instant | None
    error: str | None


class Tried(BaseModel):
    """How a test of a target went."""

    name: str
    told: bool
    error: str | None = Field(description="why it could not be told")
