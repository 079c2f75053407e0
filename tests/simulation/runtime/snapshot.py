"""What the store holds, read past the product, after every commit."""

import json
from typing import Any, NamedTuple

import apsw

from fencepost.model.definition import AgentDefinition, ScheduleDefinition, agent_from_json, schedule_from_json
from fencepost.model.process import ProcessId
from tests.simulation.reference import Moment


class RunSeen(NamedTuple):
    """A row of run."""

    id: str
    schedule: str | None
    version: int | None
    trigger: str
    occurrence: str | None
    tick_us: int | None
    state: str
    reason: str | None
    attempt: int
    resume: int
    stop: str | None
    lease_id: str | None
    fence: int | None
    started_us: int | None
    ended_us: int | None
    ready_us: int
    lines_up: int
    lease_max: int
    counted_us: int
    reserved_micro: int
    request_key: str | None
    idempotency_key: str
    manifest: str
    agent: str

    @property
    def live(self) -> bool:
        return self.state in ("ready", "running")

    @property
    def tick_born(self) -> bool:
        return self.trigger in ("cron", "every", "at")

    @property
    def definition(self) -> AgentDefinition:
        return agent_from_json(self.manifest)


class LeaseSeen(NamedTuple):
    """A row of lease."""

    id: str
    resources: str
    fence: int
    run_id: str
    boot: str
    pid: int
    pid_started: str
    state: str
    expires_boot: str
    expires_ns: int
    ttl_ms: int
    renewals: int

    @property
    def names(self) -> list[str]:
        return [name for _, name in json.loads(self.resources)]

    def over(self, now: Moment) -> bool:
        """Whether its time is up."""
        return self.expires_boot != now.boot or self.expires_ns <= now.awake_ns

    def held_by(self, process: ProcessId) -> bool:
        return (self.boot, self.pid, self.pid_started) == (process.host.boot, process.pid, process.started)


class AttemptSeen(NamedTuple):
    """A row of attempt."""

    run_id: str
    number: int
    fence: int
    started_us: int | None
    ended_us: int | None
    outcome: str | None

    @property
    def costs(self) -> bool:
        """Whether it uses up one of the run's attempts: a drain, a hindrance and a loss before the start do not."""
        never_began = self.outcome == "lost" and self.started_us is None
        return self.outcome not in ("interrupted", "notstarted") and not never_began


class ScheduleSeen(NamedTuple):
    """A row of schedule."""

    name: str
    version: int
    cursor_us: int
    due_us: int | None
    retired_us: int | None
    once_done: int
    skip_next: str | None
    definition_text: str

    @property
    def definition(self) -> ScheduleDefinition:
        return schedule_from_json(self.definition_text)


class TickSeen(NamedTuple):
    """A row of tick."""

    schedule: str
    occurrence: str
    version: int
    tick_us: int
    tick_until_us: int
    number: int
    disposition: str
    run_id: str | None
    into_us: int | None
    decided_us: int


class PauseSeen(NamedTuple):
    """A row of pause; without a schedule it holds everything back."""

    id: int
    schedule: str
    since_us: int
    until_us: int

    def covers(self, at_us: int) -> bool:
        return self.since_us <= at_us < self.until_us


class Snapshot:
    """All of it; what a transaction cannot have changed is taken from the one before."""

    def __init__(self) -> None:
        self.runs: dict[str, RunSeen] = {}
        self.leases: dict[str, LeaseSeen] = {}
        self.attempts: dict[tuple[str, int], AttemptSeen] = {}
        self.schedules: dict[str, ScheduleSeen] = {}
        self.ticks: dict[tuple[str, str], TickSeen] = {}
        self.pauses: dict[int, PauseSeen] = {}
        self.checkpoints: dict[str, tuple[int, str]] = {}
        self.audits = 0

    def next(self, connection: apsw.Connection, *, only_leases: bool = False) -> "Snapshot":
        """Read what there is now."""
        new = Snapshot()
        new.leases = {row[0]: LeaseSeen(*row) for row in _rows(connection, LEASES)}
        if only_leases:
            for name in ("runs", "attempts", "schedules", "ticks", "pauses", "checkpoints", "audits"):
                setattr(new, name, getattr(self, name))
            return new
        new.runs = {row[0]: RunSeen(*row) for row in _rows(connection, RUNS)}
        new.attempts = {(row[0], row[2]): AttemptSeen(*row) for row in _rows(connection, ATTEMPTS)}
        new.schedules = {row[0]: ScheduleSeen(*row) for row in _rows(connection, SCHEDULES)}
        new.ticks = {(row[0], row[1]): TickSeen(*row) for row in _rows(connection, TICKS)}
        new.pauses = {row[0]: PauseSeen(*row) for row in _rows(connection, PAUSES)}
        new.checkpoints = {row[0]: (row[1], row[2]) for row in _rows(connection, CHECKPOINTS)}
        ((new.audits,),) = _rows(connection, AUDITS)
        return new

    def live_of(self, schedule: str) -> list[RunSeen]:
        return [run for run in self.runs.values() if run.schedule == schedule and run.live]

    def attempts_of(self, run_id: str) -> list[AttemptSeen]:
        return sorted(one for (owner, _), one in self.attempts.items() if owner == run_id)


RUNS = (
    "SELECT id, schedule, version, trigger, occurrence, tick_us, state, reason, attempt, resume, stop, lease_id, fence, "
    "started_us, ended_us, ready_us, lines_up, lease_max, counted_us, reserved_micro, request_key, idempotency_key, "
    "manifest, agent FROM run"
)
LEASES = (
    "SELECT id, resources, fence, run_id, boot, pid, pid_started, state, expires_boot, expires_ns, ttl_ms, renewals "
    "FROM lease"
)
ATTEMPTS = "SELECT run_id, number, fence, started_us, ended_us, outcome FROM attempt"
SCHEDULES = "SELECT name, version, cursor_us, due_us, retired_us, once_done, skip_next, definition FROM schedule"
TICKS = "SELECT schedule, occurrence, version, tick_us, tick_until_us, count, disposition, run_id, into_us, decided_us FROM tick"
PAUSES = "SELECT id, schedule, since_us, until_us FROM pause"
CHECKPOINTS = "SELECT run_id, fence, content FROM checkpoint"
AUDITS = "SELECT coalesce(max(seq), 0) FROM audit"


def _rows(connection: apsw.Connection, text: str) -> list[Any]:
    return connection.execute(text).fetchall()
