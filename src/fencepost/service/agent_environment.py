"""The environment of a scheduled run: built up from a short list, never inherited whole."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fencepost.model.definition import AgentDefinition
from fencepost.model.instants import format_instant, from_us
from fencepost.model.lease import Lease
from fencepost.model.own_program import own_executable
from fencepost.model.run_key import key_variables
from fencepost.model.secret_rights import is_ordinary
from fencepost.model.trace import traceparent
from fencepost.ports.runs import LeasedRun, RunRow
from fencepost.service.agent_secrets import Given
from fencepost.service.run_folder import CHECKPOINT, RunFolder


def build_environment(
    inherited: Mapping[str, str],
    agent: AgentDefinition,
    given: Given,
    run: RunRow,
    lease: Lease,
    *,
    folder: RunFolder,
    key: str,
) -> dict[str, str]:
    """Return what the agent sees: a few ordinary variables, what its definition adds, and the run."""
    return {
        **{name: value for name, value in inherited.items() if is_ordinary(name)},
        **given.passed,
        **agent.env,
        **given.secrets,
        **run_variables(run, lease, folder=folder, key=key),
    }


def run_variables(run: RunRow, lease: Lease, *, folder: RunFolder, key: str) -> dict[str, str]:
    """Return the contract: what every run can rely on."""
    resuming = {"CHECKPOINT": folder.checkpoint, "RESUME": "1"} if run.resume else {}
    values = {
        "RUN_ID": run.id,
        "TENANT": run.tenant,
        "AGENT": run.agent,
        "SCHEDULE": run.schedule or "",
        "SCHEDULE_VERSION": str(run.version or ""),
        "TRIGGER": run.trigger,
        "TICK": _instant(run.tick_us),
        "PERIOD_START": _instant(run.period_start_us),
        "PERIOD_END": _instant(run.period_end_us),
        "BACKFILL_FROM": _instant(run.backfill_from_us),
        "LAST_SUCCESS": _instant(run.last_success_us),
        "IDEMPOTENCY_KEY": run.idempotency_key,
        "ATTEMPT": str(run.attempt),
        "FENCE": str(lease.fence),
        "RESOURCE": " ".join(lease.resources),
        "STORE_ID": lease.store,
        "PAYLOAD": folder.payload,
        "SOCKET": folder.socket,
        "EXE": _executable(),
        **resuming,
    }
    named = {f"FENCEPOST_{name}": value for name, value in values.items()}
    return {**named, **key_variables(key), "TRACEPARENT": traceparent(run.id, lease.fence)}


def payload_file(run: RunRow) -> str:
    """Return the payload with what the environment says about the run, under a name of its own that a payload may have too.

    Standard input gets the payload as it came.
    """
    payload = json.loads(run.payload)
    if not isinstance(payload, dict) or "fencepost" in payload:
        return run.payload
    facts = {
        "run_id": run.id,
        "trigger": run.trigger,
        "tick": _instant(run.tick_us) or None,
        "period_start": _instant(run.period_start_us) or None,
        "period_end": _instant(run.period_end_us) or None,
        "backfill_from": _instant(run.backfill_from_us) or None,
        "last_success": _instant(run.last_success_us) or None,
        "idempotency_key": run.idempotency_key,
        "attempt": run.attempt,
    }
    return json.dumps({**payload, "fencepost": facts})


def checkpoint_file(leased: LeasedRun) -> dict[str, str]:
    """Return the file in which a resumed agent gets back what it left for itself; nothing for any other."""
    return {CHECKPOINT: leased.checkpoint or "null"} if leased.run.resume else {}


def own_values(run: RunRow, lease: Lease) -> list[str]:
    """Return in what a run differs from another one that is `alike` to it."""
    return [run.id, run.idempotency_key, str(run.attempt), " ".join(lease.resources)]


def variables_like(others: Mapping[str, str], values: Sequence[str]) -> dict[str, str]:
    """Return the variables of a run, given those of one that is alike and what is its own."""
    run_id, idempotency_key, attempt, resource = values
    return {
        **others,
        "FENCEPOST_RUN_ID": run_id,
        "FENCEPOST_IDEMPOTENCY_KEY": idempotency_key,
        "FENCEPOST_ATTEMPT": attempt,
        "FENCEPOST_RESOURCE": resource,
        "TRACEPARENT": traceparent(run_id, int(others["FENCEPOST_FENCE"])),
    }


def likeness(run: RunRow, lease: Lease) -> tuple[object, ...] | None:
    """Return what runs must have in common for `own_values` to tell all that differs; None: it is one of a kind."""
    if run.schedule is not None or run.tick_us is not None:
        return None
    return (lease.id, run.tenant, run.agent, run.trigger, run.manifest, run.resume, run.last_success_us)


_executable = lru_cache(maxsize=1)(own_executable)  # it stays where it is, and looking for it takes system calls


def _instant(us: int | None) -> str:
    return "" if us is None else format_instant(from_us(us))
