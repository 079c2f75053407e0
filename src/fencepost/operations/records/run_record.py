"""Runs, what runs or waits, dead letters, attempts, and guarded commands, which have the fields of a run that they can."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from fencepost.model.definition import agent_from_json
from fencepost.model.effects import Effects, effects_of
from fencepost.model.instants import from_us
from fencepost.model.request_key import shown_key
from fencepost.model.usage import is_partial, llm_tokens
from fencepost.operations.project_commands import Command
from fencepost.operations.queue_positions import resources_in
from fencepost.operations.records import Record, at, fields_of, usd
from fencepost.operations.run_queries import Detail, RunListing, SeenRun
from fencepost.ports.read_rows import CommandRow
from fencepost.ports.runs import AttemptRow, RunRow

if TYPE_CHECKING:
    from fencepost.operations.attempt_logs import Log
    from fencepost.operations.run_requests import Requested


class RunRecord(Record):
    """A run."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    schedule_version: int | None
    trigger: str
    tick: datetime | None
    state: str
    reason: str | None
    attempt: int
    fence: int | None
    resource: Annotated[str, "what it leases, separated by blanks"]
    project: str | None
    position: Annotated[int | None, "its place in the line, from 1"]
    ready_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    cost_usd: Decimal | None
    summary: str | None
    created_at: datetime
    worker: str | None
    origin: str | None
    idempotency_key: str
    usage: Annotated[dict[str, int] | None, "llm_tokens of all its attempts, by kind"]


def run_record(seen: SeenRun) -> RunRecord:
    """Return a run as every door gives it."""
    run = seen.run
    return RunRecord(
        id=run.id,
        tenant=run.tenant,
        agent=run.agent,
        schedule=run.schedule,
        schedule_version=run.version,
        trigger=run.trigger,
        tick=at(run.tick_us),
        state=run.state,
        reason=run.reason,
        attempt=run.attempt,
        fence=run.fence,
        resource=resources_in(run),
        project=project_of(run),
        position=seen.place.position if seen.place else None,
        ready_at=from_us(run.ready_us),
        started_at=at(run.started_us),
        ended_at=at(run.ended_us),
        exit_code=run.exit_code,
        cost_usd=usd(run.cost_micro),
        summary=run.summary,
        created_at=from_us(run.created_us),
        worker=run.worker,
        origin=run.origin,
        idempotency_key=run.idempotency_key,
        usage=usage_of(seen.attempts) or None,
    )


class RunMadeRecord(RunRecord):
    """The run that answers a request, and what should be said about it."""

    earlier: Annotated[bool, "it was there already"]
    said: str


def made_record(made: "Requested") -> RunMadeRecord:
    """Return the run that answers a request."""
    return RunMadeRecord(**fields_of(run_record(SeenRun(made.run))), earlier=made.earlier, said=made.said)


class LiveRunRecord(RunRecord):
    """A run that is at work, or waits."""

    command: Annotated[None, "only a command that is no run has one"] = None
    waits_for: str | None
    depth: Annotated[int | None, "how many wait in its project"]
    unattended_since: Annotated[datetime | None, "since when its worker is gone, and its guard goes on alone"]


class CommandRecord(Record):
    """A command that is no run of an agent, in the fields of a run."""

    id: str
    tenant: str
    agent: None = None
    schedule: None = None
    schedule_version: None = None
    trigger: str = "exec"
    tick: None = None
    state: Annotated[str, "ready, running, succeeded, failed, or lost: its end was never reported"]
    reason: str | None = None
    attempt: int = 1
    fence: int | None
    resource: str
    project: str | None
    position: int | None = None
    ready_at: None = None
    started_at: datetime | None
    ended_at: datetime | None = None
    exit_code: int | None = None
    cost_usd: None = None
    summary: None = None
    created_at: datetime | None
    worker: str | None
    origin: None = None
    idempotency_key: None = None
    usage: None = None
    command: str


class LiveCommandRecord(CommandRecord):
    """A person's command that is in a project, or in its line."""

    waits_for: str | None
    depth: int | None
    unattended_since: None = None


def live_record(one: SeenRun | Command, listing: RunListing) -> LiveRunRecord | LiveCommandRecord:
    """Return what runs or waits, with what it waits for and how many wait in its project."""
    waits_for = one.place.waits_for(listing.now_us) if one.place else None
    if isinstance(one, SeenRun):
        run, unattended = run_record(one), one.unattended
        return LiveRunRecord(
            **fields_of(run),
            waits_for=waits_for,
            depth=listing.depths.get(run.project) if run.project else None,
            unattended_since=at(unattended.since_us) if unattended else None,
        )
    return LiveCommandRecord(
        id=one.run_id,
        tenant=one.tenant,
        state="ready" if one.place else "running",
        fence=one.fence,
        resource=one.resource,
        project=one.project or None,
        position=one.place.position if one.place else None,
        command=one.what,
        started_at=at(one.started_us),
        created_at=at(one.since_us),
        worker=one.where,
        waits_for=waits_for,
        depth=listing.depths.get(one.project) if one.project else None,
    )


class GuardedCommandRecord(CommandRecord):
    """What `exec` ran under a lock."""

    refused: Annotated[int, "how many came in vain meanwhile"]
    refused_at: datetime | None


def guarded_record(row: CommandRow) -> GuardedCommandRecord:
    """Return a guarded command as every door gives it."""
    return GuardedCommandRecord(
        id=row.id,
        tenant=row.tenant,
        state=row.state,
        reason={"failed": "exit_code", "lost": "lost"}.get(row.state),
        fence=row.fence,
        resource=row.resource,
        project=row.resource.partition(":")[2] if row.resource.startswith("project:") else None,
        started_at=at(row.started_us),
        ended_at=at(row.ended_us),
        exit_code=row.exit_code,
        created_at=at(row.started_us),
        worker=row.host,
        command=row.label,
        refused=row.refused,
        refused_at=at(row.refused_us),
    )


class DeadLetterRecord(RunRecord):
    """A run that needs a person."""

    died_at: datetime | None
    last_log: str


def dead_record(seen: SeenRun) -> DeadLetterRecord:
    """Return a dead letter as every door gives it."""
    return DeadLetterRecord(**fields_of(run_record(seen)), died_at=at(seen.run.ended_us), last_log=seen.last_log)


class AttemptRecord(Record):
    """One try at a run."""

    attempt: int
    part: Annotated[int, "from 1; an attempt that was handed back by a drain, and resumed, has several"]
    fence: int
    worker: str
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    exit_code: int | None
    last_log: str | None
    session: str | None
    cost_usd: Decimal | None
    turns: int | None
    usage: Annotated[dict[str, int] | None, "llm_tokens by kind"]
    partial: Annotated[bool, "the agent was ended before it could say all that it used"]


def attempt_record(attempt: AttemptRow, part: int) -> AttemptRecord:
    """Return one try at a run as every door gives it."""
    return AttemptRecord(
        attempt=attempt.number,
        part=part,
        fence=attempt.fence,
        worker=attempt.worker,
        started_at=at(attempt.started_us),
        ended_at=at(attempt.ended_us),
        outcome=attempt.outcome,
        exit_code=attempt.exit_code,
        last_log=attempt.last_log,
        session=attempt.session,
        cost_usd=usd(attempt.cost_micro),
        turns=attempt.turns,
        usage=llm_tokens(attempt.usage) or None,
        partial=is_partial(attempt.usage),
    )


class HoldingRecord(Record):
    """Who holds a run."""

    fence: int
    host: str
    pid: int
    expires_at: datetime | None


class RunDetailRecord(RunRecord):
    """Everything about one run."""

    period_start: datetime | None
    period_end: datetime | None
    backfill_from: datetime | None
    last_success: datetime | None
    request_key: str | None
    payload: dict[str, object]
    effects: Effects
    manifest_hash: str
    stop: str | None
    discarded_at: datetime | None
    replays: list[str]
    partial: Annotated[bool, "of an attempt's usage only a part is known"]
    attempts: list[AttemptRecord]
    lease: HoldingRecord | None
    log: Annotated[str | None, "the file on the server's machine, if it is there"]
    last_log: str


def detail_record(detail: Detail, log: "Log | None") -> RunDetailRecord:
    """Return everything about a run."""
    run, seen, held = detail.seen.run, detail.seen, detail.held
    lease = held and HoldingRecord(
        fence=held.fence, host=held.supervisor.host.name, pid=held.supervisor.pid, expires_at=at(held.expires_us)
    )
    return RunDetailRecord(
        **fields_of(run_record(seen)),
        period_start=at(run.period_start_us),
        period_end=at(run.period_end_us),
        backfill_from=at(run.backfill_from_us),
        last_success=at(run.last_success_us),
        request_key=shown_key(run.request_key),
        payload=json.loads(run.payload),
        effects=effects_of(agent_from_json(run.manifest)),
        manifest_hash=run.manifest_hash,
        stop=run.stop,
        discarded_at=at(run.discarded_us),
        replays=[one.id for one in seen.replays],
        partial=any(is_partial(one.usage) for one in seen.attempts),
        attempts=[attempt_record(one, part) for one, part in numbered(seen.attempts)],
        lease=lease,
        log=log.path if log and log.here else None,
        last_log=seen.last_log,
    )


class DeadDetailRecord(RunDetailRecord):
    """Everything about one dead letter."""

    died_at: datetime | None


def dead_detail_record(detail: Detail, log: "Log | None") -> DeadDetailRecord:
    """Return everything about a dead letter."""
    return DeadDetailRecord(**fields_of(detail_record(detail, log)), died_at=at(detail.seen.run.ended_us))


def numbered(attempts: Sequence[AttemptRow]) -> Iterator[tuple[AttemptRow, int]]:
    """Yield attempts with the number of their part: one that was handed back and resumed has several."""
    parts: Counter[int] = Counter()
    for one in attempts:
        parts[one.number] += 1
        yield one, parts[one.number]


def usage_of(attempts: Sequence[AttemptRow]) -> dict[str, int]:
    """Return the llm_tokens of all tries at a run, by kind."""
    total: Counter[str] = Counter()
    for attempt in attempts:
        total.update(llm_tokens(attempt.usage))
    return dict(sorted(total.items()))


def project_of(run: RunRow) -> str | None:
    """Return the project that a run works in."""
    return agent_from_json(run.manifest).project or None
