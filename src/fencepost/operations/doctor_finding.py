"""What a check of the machine or the store comes to, and what to do about it."""

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckFinding(NamedTuple):
    """What one check found, and what to do about it."""

    check: str
    status: Status
    message: str
    fix: str = ""
