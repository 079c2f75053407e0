"""What may be asked about an attempt's output: where it is, its end, and whether it is on this machine."""

import os
from dataclasses import dataclass

from fencepost.host import logs as files
from fencepost.model.errors import Invalid
from fencepost.operations.looking import Seen


@dataclass(frozen=True, slots=True)
class Log:
    """The output of one attempt: a file where the worker ran, and its last lines in the store."""

    number: int
    path: str
    here: bool
    host: str  # where it ran, as far as the records say
    kept: str  # the last lines that the store has; empty until the attempt has ended


def log_of(seen: Seen, folder: str, *, number: int | None = None) -> Log | None:
    """Return the log of an attempt, the last one unless another is asked for; None if none was made yet."""
    wanted = [one for one in seen.attempts if number in (None, one.number)]
    if number is not None and not wanted:
        known = ", ".join(str(one.number) for one in seen.attempts) or "none"
        raise Invalid(f"run {seen.run.id} has no attempt {number}; there is: {known}")
    if not wanted:
        return None
    attempt = wanted[-1]
    path = files.log_path(folder, seen.run.id, attempt.fence)
    return Log(attempt.number, path, _exists(path), attempt.worker.partition(":")[0], attempt.last_log or "")


def content(log: Log, *, lines: int | None = None, most: int | None = None) -> bytes:
    """Return what is left of a log, oldest first: all of it, or its last lines; from elsewhere what the store has.

    With `most`, no more than so many bytes of its end are read, however large it is.
    """
    data = files.read_log(log.path, most=most) if log.here else log.kept.encode()
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:])


def _exists(path: str) -> bool:
    return os.path.exists(path) or os.path.exists(f"{path}.1")
