"""Ticks to come."""

from datetime import datetime

from fencepost.operations.preview import PreviewedTick
from fencepost.operations.records import Record


class PreviewedTickRecord(Record):
    """A tick to come, or slots that a clock change leaves out."""

    tick_at: datetime
    slot: str
    slot_until: str
    count: int
    zone: str
    fold: int
    occurrence: str
    disposition: str
    note: str


def preview_record(line: PreviewedTick) -> PreviewedTickRecord:
    """Return a tick to come as every door gives it."""
    first = line.occurrence
    return PreviewedTickRecord(
        tick_at=first.tick_at,
        slot=first.slot.isoformat(),
        slot_until=line.until.slot.isoformat(),
        count=line.count,
        zone=first.zone,
        fold=first.fold,
        occurrence=first.key,
        disposition=line.disposition,
        note=line.note,
    )
