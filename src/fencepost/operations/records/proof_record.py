"""What a proof found: owed ticks, compared with what is recorded."""

from datetime import datetime

from fencepost.model.proof import ScheduleProof, TenantProof
from fencepost.operations.records import Record, at


class FindingRecord(Record):
    """What a proof found."""

    kind: str
    at: datetime | None
    count: int
    what: str


class ScheduleProofRecord(Record):
    """One schedule's owed ticks, compared with what is recorded."""

    schedule: str
    owed: int
    accounted: int
    pending: int
    missing: int
    doubled: int
    cursor: datetime | None
    cursor_age_seconds: float | None
    pruned_until: datetime | None
    findings: list[FindingRecord]


class ProofRecord(Record):
    """The owed ticks of all schedules."""

    owed: int
    accounted: int
    pending: int
    missing: int
    doubled: int
    schedules: list[ScheduleProofRecord]


def proof_record(proof: TenantProof, limit: int) -> ProofRecord:
    """Return a proof as every door gives it, so many findings of each schedule at most."""
    return ProofRecord(**proof.totals(), schedules=[_schedule(one, limit) for one in proof.schedules])


def _schedule(one: ScheduleProof, limit: int) -> ScheduleProofRecord:
    return ScheduleProofRecord(
        schedule=one.schedule,
        owed=one.owed,
        accounted=one.accounted,
        pending=one.pending,
        missing=one.missing,
        doubled=one.doubled,
        cursor=at(one.cursor_us),
        cursor_age_seconds=one.cursor_age_seconds,
        pruned_until=at(one.pruned_until_us),
        findings=[
            FindingRecord(kind=found.kind.value, at=at(found.at_us), count=found.number, what=found.what)
            for found in one.findings[:limit]
        ],
    )
