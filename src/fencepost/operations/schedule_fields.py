"""Schedules, their versions and their pauses as scripts see them: names that are never changed, only added to."""

import json
from typing import TYPE_CHECKING

from fencepost.model.definition import agent_from_json
from fencepost.model.effects import effects_of
from fencepost.model.moment import FOREVER_US, to_us
from fencepost.operations.pulse import next_tick_us
from fencepost.operations.registry import Listed
from fencepost.operations.words import plain, rfc3339
from fencepost.ports.registry import PauseEntry, VersionRow

if TYPE_CHECKING:
    from fencepost.stores.pruning import SqlPruning


def schedule_fields(listed: Listed) -> dict[str, object]:
    """Return a schedule as scripts see it."""
    row, pause = listed.row, listed.pause
    return {
        "name": row.name,
        "tenant": row.tenant,
        "agent": row.agent,
        "version": row.version,
        "state": listed.state,
        "trigger": row.trigger,
        "when": listed.definition.when,
        "timezone": listed.definition.timezone,
        "next_at": rfc3339(next_tick_us(row)),
        "cursor_at": rfc3339(row.cursor_us),
        "cursor_age_seconds": (to_us(listed.now) - row.cursor_us) // 1_000_000,
        "failures": row.failures,
        "last_success": rfc3339(row.last_success_us),
        "skip_next": json.loads(row.skip_next)["left"] if row.skip_next else 0,
        "paused_until": until(pause.until_us) if pause else None,
        "pause_note": plain(pause.note) if pause else "",
        "applied_at": rfc3339(row.applied_us),
        "retired_at": rfc3339(row.retired_us),
        "source": row.source,
        "effects": effects_of(agent_from_json(row.manifest))._asdict(),
    }


def past_fields(past: "SqlPruning", tenant: str, name: str) -> dict[str, object]:
    """Return how many ticks and runs there ever were, by what became of them, and up to where they are pruned."""
    mark = past.watermark(tenant, name)
    counts: dict[str, dict[str, int]] = {"tick": {}, "run": {}}
    for tally in past.tallies(tenant, name):
        counts[tally.kind][tally.name] = tally.number
    return {
        "ticks": counts["tick"],
        "runs": counts["run"],
        "pruned_until": rfc3339(mark.pruned_us) if mark else None,
    }


def version_fields(version: VersionRow) -> dict[str, object]:
    """Return a version as scripts see it."""
    return {
        "kind": "version",
        "version": version.version,
        "applied_at": rfc3339(version.applied_us),
        "applied_by": version.applied_by,
        "after": rfc3339(version.after_us),
        "until": rfc3339(version.until_us),
        "hash": version.hash,
        "manifest_hash": version.manifest_hash,
        "definition": json.loads(version.definition),
    }


def pause_fields(pause: PauseEntry) -> dict[str, object]:
    """Return a pause as scripts see it."""
    return {
        "kind": "pause",
        "since": rfc3339(pause.since_us),
        "until": until(pause.until_us),
        "note": pause.note,
        "by": pause.by_whom,
    }


def until(until_us: int) -> str | None:
    """Spell the end of a pause; one without an end has none."""
    return None if until_us == FOREVER_US else rfc3339(until_us)
