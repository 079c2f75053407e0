"""What the store holds, read past the product, after every commit."""

import json
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from fencepost.model.definition import AgentDefinition, ScheduleDefinition, agent_from_json, schedule_from_json
from fencepost.model.process import ProcessId
from tests.simulation.clocks import Moment


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
    project: str
    resources: str
    in_process: int
    rank: int
    place_us: int
    discarded_us: int | None
    origin: str | None

    @property
    def names(self) -> list[str]:
        """What it leases: its schedule or itself, and its concurrency key."""
        return [str(one[1]) for one in json.loads(self.resources)]

    @property
    def pools(self) -> list[tuple[str, int]]:
        """Its concurrency keys, and how many may go at once."""
        return [(str(one[1]), int(one[2])) for one in json.loads(self.resources) if len(one) > 2]

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


class EntrySeen(NamedTuple):
    """A row of ledger."""

    scope: str
    key: str
    run_id: str
    lease_id: str
    fence: int
    call: str
    state: str
    answer: str | None
    doubt: str | None
    resolved_by: str | None


class SealSeen(NamedTuple):
    """A row of seal."""

    number: int
    first_place: int
    last_place: int


class NoticeSeen(NamedTuple):
    """A row of notice."""

    id: str
    event: str
    subject: str
    state: str


Read = Callable[[str], list[tuple[Any, ...]]]


class Snapshot:
    """All of it; what a transaction cannot have changed is taken from the one before, the very same object."""

    def __init__(self) -> None:
        self.runs: dict[str, RunSeen] = {}
        self.leases: dict[str, LeaseSeen] = {}
        self.attempts: dict[tuple[str, int], AttemptSeen] = {}
        self.schedules: dict[str, ScheduleSeen] = {}
        self.ticks: dict[tuple[str, str], TickSeen] = {}
        self.pauses: dict[int, PauseSeen] = {}
        self.checkpoints: dict[str, tuple[int, str]] = {}
        self.audits = 0
        self.entries: dict[tuple[str, str], EntrySeen] = {}
        self.seals: list[SealSeen] = []
        self.notices: dict[str, NoticeSeen] = {}
        self.wishes: set[str] = set()
        self.tallies: dict[tuple[str, str], int] = {}
        self.watermarks: dict[str, int] = {}

    def next(self, read: Read, tables: Collection[str] | None = None) -> "Snapshot":
        """Read what there is now, or of some tables only."""
        new = Snapshot()
        for table, (attribute, text, index) in TABLES.items():
            known = tables is not None and table not in tables
            setattr(new, attribute, getattr(self, attribute) if known else index(read(text)))
        return new

    def differs_from(self, other: "Snapshot") -> list[str]:
        """Return what is not the same."""
        names = [attribute for attribute, _, _ in TABLES.values()]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def live_of(self, schedule: str) -> list[RunSeen]:
        return [run for run in self.runs.values() if run.schedule == schedule and run.live]

    def attempts_of(self, run_id: str) -> list[AttemptSeen]:
        return sorted(one for (owner, _), one in self.attempts.items() if owner == run_id)


def _columns(seen: type[Any], table: str) -> str:
    return f"SELECT {', '.join(COLUMNS.get((table, name), name) for name in seen._fields)} FROM {table}"


SHARED = "(SELECT definition FROM manifest AS one WHERE one.tenant = run.tenant AND one.hash = manifest_hash)"
COLUMNS = {
    ("run", "manifest"): f"coalesce(nullif(manifest, ''), {SHARED}, '')",
    ("tick", "number"): "count",
    ("schedule", "definition_text"): "definition",
}
TABLES: dict[str, tuple[str, str, Callable[[list[tuple[Any, ...]]], Any]]] = {
    "lease": ("leases", _columns(LeaseSeen, "lease"), lambda rows: {row[0]: LeaseSeen(*row) for row in rows}),
    "run": ("runs", _columns(RunSeen, "run"), lambda rows: {row[0]: RunSeen(*row) for row in rows}),
    "attempt": (
        "attempts",
        _columns(AttemptSeen, "attempt"),
        lambda rows: {(row[0], row[2]): AttemptSeen(*row) for row in rows},
    ),
    "schedule": (
        "schedules",
        _columns(ScheduleSeen, "schedule"),
        lambda rows: {row[0]: ScheduleSeen(*row) for row in rows},
    ),
    "tick": ("ticks", _columns(TickSeen, "tick"), lambda rows: {(row[0], row[1]): TickSeen(*row) for row in rows}),
    "pause": ("pauses", _columns(PauseSeen, "pause"), lambda rows: {row[0]: PauseSeen(*row) for row in rows}),
    "checkpoint": (
        "checkpoints",
        "SELECT run_id, fence, content FROM checkpoint",
        lambda rows: {row[0]: (row[1], row[2]) for row in rows},
    ),
    "ledger": (
        "entries",
        _columns(EntrySeen, "ledger"),
        lambda rows: {(row[0], row[1]): EntrySeen(*row) for row in rows},
    ),
    "seal": ("seals", _columns(SealSeen, "seal"), lambda rows: sorted(SealSeen(*row) for row in rows)),
    "notice": ("notices", _columns(NoticeSeen, "notice"), lambda rows: {row[0]: NoticeSeen(*row) for row in rows}),
    "wish": ("wishes", "SELECT event FROM wish", lambda rows: {row[0] for row in rows}),
    "tally": (
        "tallies",
        "SELECT schedule, kind, sum(number) FROM tally GROUP BY schedule, kind",
        lambda rows: {(row[0], row[1]): int(row[2]) for row in rows},
    ),
    "watermark": ("watermarks", "SELECT schedule, pruned_us FROM watermark", dict),
    "audit": ("audits", "SELECT coalesce(max(seq), 0) FROM audit", lambda rows: rows[0][0]),
}
