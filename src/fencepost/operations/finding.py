"""What a check of the machine or the store comes to, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: Status
    message: str
    fix: str = ""


def finding_fields(finding: Finding) -> dict[str, object]:
    """Return a finding as scripts see it."""
    return {
        "check": finding.check,
        "status": finding.status.value,
        "message": finding.message,
        "fix": finding.fix,
    }
