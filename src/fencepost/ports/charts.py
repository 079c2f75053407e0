"""What pictures are drawn from: narrow rows about a stretch of time, read and never written."""

from typing import NamedTuple


class AttemptFact(NamedTuple):
    """One try at a run, or a run that was not tried yet; then everything from `number` on is empty."""

    run_id: str
    schedule: str | None
    agent: str
    project: str | None
    state: str
    reason: str | None
    created_us: int
    run_ended_us: int | None
    resume: bool
    cost_micro: int | None  # of the whole run
    number: int | None
    fence: int | None
    worker: str | None
    started_us: int | None
    ended_us: int | None
    outcome: str | None
    session: str | None


class RunBin(NamedTuple):
    """Runs of one kind that began in one part of a stretch of time."""

    bin: int
    schedule: str | None  # only what they are counted by is told
    agent: str
    project: str | None
    worker: str | None  # of the last attempt
    state: str
    count: int  # type: ignore[assignment]  # the tuple's own method is not missed
    start_us: int
    end_us: int
    cost_micro: int | None


class RunlessTick(NamedTuple):
    """A tick that made no run, or a range of neighbours that share the reason."""

    schedule: str
    project: str | None
    tick_us: int
    tick_until_us: int
    count: int  # type: ignore[assignment]  # likewise
    disposition: str


class TickBin(NamedTuple):
    """Ticks with one disposition, decided in one part of a stretch of time."""

    bin: int
    disposition: str
    count: int  # type: ignore[assignment]  # likewise


class DayFact(NamedTuple):
    """What the runs of one schedule took and cost on one day; how long is empty while none has ended."""

    day: int  # its number
    succeeded: int
    cancelled: int
    dead: int
    p50_us: float | None
    p95_us: float | None
    cost_micro: int
