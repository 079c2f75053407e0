"""Entries of the audit, and what a walk along its chain found."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fencepost.model.audit_chain import Fault, Seal
from fencepost.model.instants import parse_instant
from fencepost.operations.audit_verification import VerifiedAudit
from fencepost.operations.records import Record, at
from fencepost.ports.read_rows import AuditRow


class AuditEntryRecord(Record):
    """Who did what."""

    seq: int
    at: datetime | None
    actor: str
    verb: str
    subject: str
    detail: str


def audit_record(row: AuditRow) -> AuditEntryRecord:
    """Return an entry as every door gives it."""
    return AuditEntryRecord(
        seq=row.seq, at=at(row.at_us), actor=row.actor, verb=row.verb, subject=row.subject, detail=row.detail
    )


class AcceptedLossRecord(Record):
    """An end of the audit that was lost, as after a restore, and that a person has accepted."""

    lost_seal: int
    lost_mac: str
    goes_on_after: int
    note: str
    at: datetime
    by: str


def accepted_loss(kept: Mapping[str, Any]) -> AcceptedLossRecord:
    """Return a loss as this machine has it on record."""
    values = {name: kept[name] for name in AcceptedLossRecord._fields}
    return AcceptedLossRecord(**{**values, "at": parse_instant(kept["at"])})


class AuditReportRecord(Record):
    """Whether all of the audit is as it was, and all of it there."""

    tenant: str
    good: bool
    integrity: str
    completeness: str
    first_fault: Fault | None
    faults: Annotated[list[Fault], "the first of each kind"]
    entries: int
    seals: int
    unsealed: int
    unsealed_since: datetime | None
    heads_compared: int
    remembered_seal: Annotated[int | None, "the newest that the server's machine remembers"]
    accepted_losses: list[AcceptedLossRecord]
    unknown_keys: list[str]
    head: Seal | None


def report_record(report: VerifiedAudit) -> AuditReportRecord:
    """Return a report as every door gives it."""
    return AuditReportRecord(
        tenant=report.tenant,
        good=report.good,
        integrity="bad" if report.first("integrity") else "unknown" if report.unknown_keys else "good",
        completeness="bad" if report.first("completeness") else "good",
        first_fault=report.fault,
        faults=[*report.faults],
        entries=report.entries,
        seals=report.seals,
        unsealed=report.loose.entries,
        unsealed_since=at(report.loose.since_us),
        heads_compared=report.heads,
        remembered_seal=report.remembered,
        accepted_losses=[accepted_loss(one) for one in report.losses],
        unknown_keys=[*report.unknown_keys],
        head=report.head,
    )
