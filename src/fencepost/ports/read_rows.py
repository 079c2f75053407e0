"""What people are shown of a store: rows as it keeps them, read and never written."""

from typing import NamedTuple


class TickRow(NamedTuple):
    """A recorded tick, or a range of neighbours that share what became of them."""

    schedule: str
    version: int
    slot: str
    slot_until: str
    count: int  # type: ignore[assignment]  # the tuple's own method is not missed
    tick_us: int
    tick_until_us: int
    disposition: str
    run_id: str | None
    occurrence: str
    into_us: int | None
    decided_us: int
    behind: str | None = None  # the ids of the runs that were in its way, as a JSON list


class Skipped(NamedTuple):
    """Ticks of one schedule that made no run lately, for one reason."""

    schedule: str
    disposition: str
    count: int  # type: ignore[assignment]  # the tuple's own method is not missed
    last_us: int  # when it was decided for the last time


class BudgetSums(NamedTuple):
    """What counts against a schedule's budget: in this day, in this month, and within the last hour."""

    day_micro: int
    month_micro: int
    recent: int  # runs
    took_us: int  # by all attempts of the day's runs, if that was asked for


class ScheduleFacts(NamedTuple):
    """A schedule as the scheduler sees it, retired or not."""

    name: str
    version: int
    agent: str
    definition: str
    cursor_us: int
    due_us: int | None
    applied_us: int
    skip_next: str | None
    failures: int
    last_success_us: int | None
    retired_us: int | None
    once_done: bool
    last_run: str | None
    last_ended_us: int | None


class VersionFacts(NamedTuple):
    """A version that decided the ticks in (after_us, until_us]."""

    version: int
    definition: str
    applied_us: int
    after_us: int
    until_us: int | None


class PauseFacts(NamedTuple):
    """A pause of a schedule, or with `schedule` empty of everything."""

    schedule: str
    since_us: int
    until_us: int
    note: str
    by_whom: str


class AuditRow(NamedTuple):
    """A decision or an operator's act."""

    seq: int
    at_us: int
    actor: str
    verb: str
    subject: str
    detail: str


class Replay(NamedTuple):
    """A run that was made of another one."""

    id: str
    state: str


class Named(NamedTuple):
    """Something in the registry that a person may have meant."""

    name: str
    kind: str  # schedule, or agent
    retired: bool


class StorePulse(NamedTuple):
    """A store's pulse: what waits, what is overdue, and since when."""

    running: int
    ready: int
    dead: int
    schedules: int
    overdue: int
    oldest_due_us: int | None


class Lingering(NamedTuple):
    """A transaction that was left open, and what is known of its process; a prepared one has no process."""

    pid: int
    program: str
    user: str
    address: str | None
    state: str
    age_us: int


class CommandRow(NamedTuple):
    """A guarded command: what `exec` ran, and how many came in vain meanwhile."""

    id: str
    tenant: str
    resource: str
    fence: int
    label: str
    host: str
    state: str  # running, succeeded, failed, lost
    started_us: int
    ended_us: int | None
    exit_code: int | None
    refused: int
    refused_us: int | None
