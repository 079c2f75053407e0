"""Runs, dead letters and ticks as scripts see them: names that are never changed, only added to."""

from collections import Counter
from collections.abc import Iterator, Sequence

from fencepost.model.definition import agent_from_json
from fencepost.model.usage import is_partial, llm_tokens
from fencepost.operations.commands import Command
from fencepost.operations.looking import Listing, Seen
from fencepost.operations.places import resources_in
from fencepost.operations.tick_stories import behind_of
from fencepost.operations.words import rfc3339
from fencepost.ports.looking import AuditRow, TickRow
from fencepost.ports.runs import AttemptRow, RunRow

MICRO = 1_000_000


def run_fields(seen: Seen) -> dict[str, object]:
    """Return a run as scripts see it."""
    run = seen.run
    return {
        "id": run.id,
        "tenant": run.tenant,
        "agent": run.agent,
        "schedule": run.schedule,
        "schedule_version": run.version,
        "trigger": run.trigger,
        "tick": rfc3339(run.tick_us),
        "state": run.state,
        "reason": run.reason,
        "attempt": run.attempt,
        "fence": run.fence,
        "resource": resources_in(run),
        "project": project_of(run),
        "position": seen.place.position if seen.place else None,
        "ready_at": rfc3339(run.ready_us),
        "started_at": rfc3339(run.started_us),
        "ended_at": rfc3339(run.ended_us),
        "exit_code": run.exit_code,
        "cost_usd": None if run.cost_micro is None else run.cost_micro / MICRO,
        "summary": run.summary,
        "created_at": rfc3339(run.created_us),
        "worker": run.worker,
        "origin": run.origin,
        "idempotency_key": run.idempotency_key,
    }


def command_fields(one: Command) -> dict[str, object]:
    """Return a command that is in a project or in its line, in the fields of a run that it has."""
    return {
        "id": one.run_id,
        "tenant": one.tenant,
        "agent": None,
        "schedule": None,
        "trigger": "exec",
        "state": "ready" if one.place else "running",
        "fence": one.fence,
        "resource": one.resource,
        "project": one.project or None,
        "position": one.place.position if one.place else None,
        "command": one.what,
        "started_at": rfc3339(one.started_us),
        "created_at": rfc3339(one.since_us),
        "worker": one.where,
    }


def live_fields(one: Seen | Command, listing: Listing) -> dict[str, object]:
    """Return what runs or waits, with what it waits for and how many wait in its project."""
    fields = command_fields(one) if isinstance(one, Command) else run_fields(one)
    project = str(fields["project"] or "")
    waits_for = one.place.waits_for(listing.now_us) if one.place else None
    unattended = None if isinstance(one, Command) or one.unattended is None else one.unattended.since_us
    return {
        **fields,
        "waits_for": waits_for,
        "depth": listing.depths.get(project) if project else None,
        "unattended_since": rfc3339(unattended),
    }


def dead_fields(seen: Seen) -> dict[str, object]:
    """Return a dead letter as scripts see it."""
    return {**run_fields(seen), "died_at": rfc3339(seen.run.ended_us), "last_log": seen.last_log}


def numbered(attempts: Sequence[AttemptRow]) -> Iterator[tuple[AttemptRow, int]]:
    """Yield attempts with the number of their part: one that was handed back and resumed has several."""
    parts: Counter[int] = Counter()
    for one in attempts:
        parts[one.number] += 1
        yield one, parts[one.number]


def attempt_fields(attempt: AttemptRow, part: int = 1) -> dict[str, object]:
    """Return one try at a run as scripts see it."""
    return {
        "attempt": attempt.number,
        "part": part,
        "fence": attempt.fence,
        "worker": attempt.worker,
        "started_at": rfc3339(attempt.started_us),
        "ended_at": rfc3339(attempt.ended_us),
        "outcome": attempt.outcome,
        "exit_code": attempt.exit_code,
        "last_log": attempt.last_log,
        "session": attempt.session,
        "cost_usd": None if attempt.cost_micro is None else attempt.cost_micro / MICRO,
        "turns": attempt.turns,
        "usage": llm_tokens(attempt.usage) or None,
        "partial": is_partial(attempt.usage),
    }


def usage_of(attempts: Sequence[AttemptRow]) -> dict[str, int]:
    """Return the llm_tokens of all tries at a run, by kind."""
    total: Counter[str] = Counter()
    for attempt in attempts:
        total.update(llm_tokens(attempt.usage))
    return dict(sorted(total.items()))


def tick_fields(tick: TickRow) -> dict[str, object]:
    """Return a recorded tick as scripts see it."""
    return {
        "schedule": tick.schedule,
        "version": tick.version,
        "slot": tick.slot,
        "slot_until": tick.slot_until,
        "count": tick.count,
        "tick_at": rfc3339(tick.tick_us),
        "disposition": tick.disposition,
        "run_id": tick.run_id,
        "tick_until": rfc3339(tick.tick_until_us),
        "into": rfc3339(tick.into_us),
        "behind": behind_of(tick),
        "decided_at": rfc3339(tick.decided_us),
    }


def audit_fields(row: AuditRow) -> dict[str, object]:
    """Return an audit row as scripts see it."""
    return {
        "seq": row.seq,
        "at": rfc3339(row.at_us),
        "actor": row.actor,
        "verb": row.verb,
        "subject": row.subject,
        "detail": row.detail,
    }


def project_of(run: RunRow) -> str | None:
    """Return the project that a run works in."""
    return agent_from_json(run.manifest).project or None
