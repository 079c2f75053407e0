"""Entries of the ledger."""

import json
from datetime import datetime

from fencepost.model.effect_ledger import Entry
from fencepost.operations.records import Record, at


class LedgerEntryRecord(Record):
    """An effect that happens once."""

    key: str
    scope: str
    state: str
    answer: object
    doubt: str | None
    run_id: str
    fence: int
    begun_at: datetime | None
    completed_at: datetime | None
    resolved_by: str | None
    tenant: str


def entry_record(entry: Entry) -> LedgerEntryRecord:
    """Return an entry as every door gives it."""
    return LedgerEntryRecord(
        key=entry.key,
        scope=entry.scope or "tenant",
        state=entry.standing,
        answer=None if entry.answer is None else json.loads(entry.answer),
        doubt=entry.doubt,
        run_id=entry.run_id,
        fence=entry.fence,
        begun_at=at(entry.begun_us),
        completed_at=at(entry.completed_us),
        resolved_by=entry.resolved_by,
        tenant=entry.tenant,
    )
