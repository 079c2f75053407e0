"""What the service that carries a run out elsewhere reports: a heartbeat, or the end, signed and fenced.

A door hands over the raw body and the headers in lower case. The word is durable when this returns; the attempt that
holds the run's lease hears it and settles.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.model.definition import agent_from_json
from fencepost.model.errors import FenceRefused, Invalid, Misconfigured, Unauthorised, Unverifiable
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.signature import is_signed
from fencepost.ports.runs import RunRow

if TYPE_CHECKING:
    from fencepost.stores.runs import SqlRuns

BODY_MAX = 65_536
STRANGE = "there is no such run, or the signature is not its agent's."
STATES = ("running", "succeeded", "failed")
KEPT = ("summary", "cost_usd", "turns", "usage")


class KeptCompletion(NamedTuple):
    """What stands now."""

    run_id: str
    state: str


def complete_run(
    store: "SqlRuns",
    run_id: str,
    *,
    tenant: str,
    headers: Mapping[str, str],
    body: bytes,
    now_seconds: int,
    fetch_secret: Callable[[str, str], str],
) -> KeptCompletion:
    """Keep what a signed body says about a run, or raise: Unauthorised, Invalid, or FenceRefused for a stale fence."""
    if len(body) > BODY_MAX:
        raise Invalid(f"a completion has at most {BODY_MAX} bytes.")
    run = store.run(run_id, tenant=tenant)
    reference = _secret_of(run)
    try:
        signed = reference and is_signed([fetch_secret(reference, tenant)], headers, body, now_seconds=now_seconds)
    except (Misconfigured, Invalid) as error:
        why = f"completions of run {run_id} of tenant {tenant} cannot be checked here: {error}"
        raise Unverifiable(STRANGE, why=why) from None
    if not signed:
        raise Unauthorised(STRANGE)
    said = _read(body)
    state = store.put_completion(
        run_id,
        tenant=tenant,
        fence=said["fence"],
        state=said["status"],
        content=json.dumps({name: said[name] for name in KEPT if said.get(name) is not None}),
    )
    if state is None:
        raise FenceRefused(
            f"run {run_id} is not running with fence {said['fence']}: it was given to a newer attempt, or has ended. Stop."
        )
    return KeptCompletion(run_id, state)


def _secret_of(run: RunRow | None) -> str:
    if run is None:
        return ""
    agent = agent_from_json(run.manifest)
    return str(agent.options.get("secret", "")) if agent.engine == "http" else ""


def _read(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid('the body is no JSON; send {"fence": 42, "status": "succeeded", "summary": "…"}.') from None
    if not isinstance(said, dict) or said.get("status") not in STATES:
        raise Invalid(f"status is one of {', '.join(STATES)}.")
    if not isinstance(said.get("fence"), int) or isinstance(said["fence"], bool):
        raise Invalid("fence is the number that came with the request.")
    return said
