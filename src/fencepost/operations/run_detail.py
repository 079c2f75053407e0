"""Everything about one run, as scripts see it."""

import json

from fencepost.model.definition import agent_from_json
from fencepost.model.effects import effects_of
from fencepost.model.request_key import shown_key
from fencepost.model.usage import is_partial
from fencepost.operations.fields import attempt_fields, numbered, run_fields, usage_of
from fencepost.operations.logs import Log
from fencepost.operations.looking import Detail
from fencepost.operations.words import rfc3339


def detail_fields(detail: Detail, log: Log | None) -> dict[str, object]:
    """Return everything as scripts see it."""
    run, held = detail.seen.run, detail.held
    return {
        **run_fields(detail.seen),
        "period_start": rfc3339(run.period_start_us),
        "period_end": rfc3339(run.period_end_us),
        "backfill_from": rfc3339(run.backfill_from_us),
        "last_success": rfc3339(run.last_success_us),
        "request_key": shown_key(run.request_key),
        "payload": json.loads(run.payload),
        "effects": effects_of(agent_from_json(run.manifest))._asdict(),
        "manifest_hash": run.manifest_hash,
        "stop": run.stop,
        "discarded_at": rfc3339(run.discarded_us),
        "replays": [one.id for one in detail.seen.replays],
        "usage": usage_of(detail.seen.attempts) or None,
        "partial": any(is_partial(one.usage) for one in detail.seen.attempts),
        "attempts": [attempt_fields(one, part) for one, part in numbered(detail.seen.attempts)],
        "lease": None
        if held is None
        else {
            "fence": held.fence,
            "host": held.supervisor.host.name,
            "pid": held.supervisor.pid,
            "expires_at": rfc3339(held.expires_us),
        },
        "log": log.path if log and log.here else None,
        "last_log": detail.seen.last_log,
    }
