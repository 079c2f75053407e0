"""The facts of a run as prompts and arguments get them."""

from fencepost.model.instants import format_instant, from_us
from fencepost.model.placeholders import as_data
from fencepost.ports.runs import RunRow


def facts_of(run: RunRow) -> dict[str, str]:
    """Return every placeholder's value; what does not apply is empty."""
    return {
        "run_id": run.id,
        "tenant": run.tenant,
        "agent": run.agent,
        "schedule": run.schedule or "",
        "schedule_version": str(run.version or ""),
        "trigger": run.trigger,
        "tick": _instant(run.tick_us),
        "period_start": _instant(run.period_start_us),
        "period_end": _instant(run.period_end_us),
        "backfill_from": _instant(run.backfill_from_us),
        "last_success": _instant(run.last_success_us),
        "idempotency_key": run.idempotency_key,
        "attempt": str(run.attempt),
        "fence": str(run.fence or ""),
        "payload": as_data(run.payload),
    }


def _instant(us: int | None) -> str:
    return "" if us is None else format_instant(from_us(us))
