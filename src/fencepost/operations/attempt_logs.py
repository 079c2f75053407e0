"""What may be asked about an attempt's output: where it is, its end, and whether it is on this machine."""

import os
from dataclasses import dataclass, replace

from fencepost.host import log_files as files
from fencepost.model.errors import Invalid
from fencepost.operations.run_queries import SeenRun
from fencepost.ports.runs import AttemptRow


@dataclass(frozen=True, slots=True)
class Log:
    """The output of one attempt: a file where the worker ran, and its last lines in the store.

    An attempt that was handed back by a drain, and resumed, has a part for each time that it ran.
    """

    number: int
    fence: int
    path: str
    here: bool
    host: str  # where it ran, as far as the records say
    kept: str  # the last lines that the store has; empty until the attempt has ended
    earlier: tuple["Log", ...] = ()  # the parts of the same attempt before this one, oldest first

    @property
    def parts(self) -> tuple["Log", ...]:
        """All parts of the attempt, oldest first."""
        return (*self.earlier, self)


def log_of(seen: SeenRun, folder: str, *, number: int | None = None) -> Log | None:
    """Return the log of an attempt, the last one unless another is asked for; None if none was made yet."""
    wanted = [one for one in seen.attempts if number in (None, one.number)]
    if number is not None and not wanted:
        known = ", ".join(str(one.number) for one in seen.attempts) or "none"
        raise Invalid(f"run {seen.run.id} has no attempt {number}; there is: {known}")
    if not wanted:
        return None
    *earlier, last = [_part(seen, one, folder) for one in wanted if one.number == wanted[-1].number]
    return replace(last, earlier=tuple(earlier))


def _part(seen: SeenRun, attempt: AttemptRow, folder: str) -> Log:
    path = files.log_path(folder, seen.run.id, attempt.fence)
    host = attempt.worker.partition(":")[0]
    return Log(attempt.number, attempt.fence, path, _exists(path), host, attempt.last_log or "")


def content(log: Log, *, lines: int | None = None, most: int | None = None) -> bytes:
    """Return what is left of a log, oldest first: all of it, or its last lines; from elsewhere what the store has.

    With `most`, no more than so many bytes of its end are read, however large it is.
    """
    data = b""
    for part in reversed(log.parts):
        room = None if most is None else most - len(data)
        if room is not None and room <= 0:
            break
        data = (files.read_log(part.path, most=room) if part.here else part.kept.encode()) + data
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:])


def _exists(path: str) -> bool:
    return os.path.exists(path) or os.path.exists(f"{path}.1")
