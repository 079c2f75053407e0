"""What the outbox of notices holds, as people see it."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.model.notice import Notice
from fencepost.ports.runs import RunRow


class NoticeHealth(NamedTuple):
    """How the outbox stands: late ones are due, and were not taken."""

    late: int
    waiting: int
    dead: int
    last_error: str | None


class NoticeRow(NamedTuple):
    """One notice, as an operator sees it."""

    name: str
    event: str
    subject: str
    state: str
    attempt: int
    at_us: int
    due_us: int
    error: str | None
    seq: int


def run_notice(run: RunRow, key: str, events: Sequence[str], **facts: object) -> Notice:
    """Return a notice about a run."""
    body = {
        "tenant": run.tenant,
        "run_id": run.id,
        "agent": run.agent,
        "schedule": run.schedule,
        "trigger": run.trigger,
        "attempt": run.attempt,
        **facts,
    }
    return Notice(run.tenant, key, events, f"run:{run.id}", run.schedule or "", body)
