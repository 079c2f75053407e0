"""Recorded ticks, and why one ran or did not."""

from datetime import datetime
from typing import Annotated

from fencepost.operations.records import Record, at
from fencepost.operations.records.run_record import RunRecord, run_record
from fencepost.operations.tick_stories import behind_of
from fencepost.operations.why import Explanation, WhyQuestion
from fencepost.ports.read_rows import TickRow


class DecidedTickRecord(Record, noun="Tick"):
    """A recorded tick, or a range of neighbours."""

    schedule: str
    version: int
    slot: str
    slot_until: str
    count: int
    tick_at: datetime | None
    disposition: str
    run_id: str | None
    tick_until: datetime | None
    into: datetime | None
    behind: Annotated[list[str], "overlap: the runs that were in its way, oldest first"]
    decided_at: datetime | None


def tick_record(tick: TickRow) -> DecidedTickRecord:
    """Return a recorded tick as every door gives it."""
    return DecidedTickRecord(
        schedule=tick.schedule,
        version=tick.version,
        slot=tick.slot,
        slot_until=tick.slot_until,
        count=tick.count,
        tick_at=at(tick.tick_us),
        disposition=tick.disposition,
        run_id=tick.run_id,
        tick_until=at(tick.tick_until_us),
        into=at(tick.into_us),
        behind=behind_of(tick),
        decided_at=at(tick.decided_us),
    )


class AnswerRecord(Record):
    """Why it ran, or did not, from recorded facts."""

    schedule: str
    tenant: str
    at: datetime | None
    now: datetime | None
    verdict: str
    sentences: list[str]
    tick: DecidedTickRecord | None
    run: RunRecord | None
    next_tick: datetime | None


def answer_record(asked: WhyQuestion, answer: Explanation) -> AnswerRecord:
    """Return an answer as every door gives it."""
    return AnswerRecord(
        schedule=asked.schedule,
        tenant=asked.tenant,
        at=at(asked.at_us),
        now=at(asked.now_us),
        verdict=answer.verdict,
        sentences=list(answer.sentences),
        tick=tick_record(answer.tick) if answer.tick else None,
        run=run_record(answer.run) if answer.run else None,
        next_tick=at(answer.next_us),
    )
