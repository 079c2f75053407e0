"""Notices."""

from datetime import datetime

from fencepost.operations.records import Record, at
from fencepost.ports.notices import NoticeRow


class NoticeRecord(Record):
    """A message to a target of [notifications], sent or still to be sent."""

    name: str
    event: str
    subject: str
    state: str
    attempt: int
    at: datetime | None
    due_at: datetime | None
    error: str | None


def notice_record(row: NoticeRow) -> NoticeRecord:
    """Return a notice as every door gives it."""
    return NoticeRecord(
        name=row.name,
        event=row.event,
        subject=row.subject,
        state=row.state,
        attempt=row.attempt,
        at=at(row.at_us),
        due_at=at(row.due_us) if row.state == "waiting" else None,
        error=row.error,
    )
