"""Not now: pauses with and without an end, single ticks to skip, and the pause that failures bring about."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from fencepost.model.disposition import DispositionKind, Hold, Window
from fencepost.model.errors import Invalid
from fencepost.model.missed import INSTANT, TickSource, ticks_between
from fencepost.model.run import RunState

OPEN_END = datetime.max.replace(tzinfo=UTC)
SKIP_MAX = 1000


@dataclass(frozen=True, slots=True)
class Pause:
    """A schedule (or, with `halt`, everything) makes no runs from `since` on, until a time or until it is resumed."""

    since: datetime
    until: datetime = OPEN_END
    note: str = ""

    def covers(self, instant: datetime) -> bool:
        """Tell whether the pause is in force; at `until` it is over."""
        return self.since <= instant < self.until

    def hold(self) -> Hold:
        """Return the window whose ticks are recorded as paused."""
        return Hold(Window(self.since, self.until), DispositionKind.PAUSED)


def pause(now: datetime, *, until: datetime | None = None, note: str = "") -> Pause:
    """Pause from now on."""
    if until is not None and until <= now:
        raise Invalid(f"--until {until.isoformat()} is not in the future; it is {now.isoformat()}.")
    return Pause(now, OPEN_END if until is None else until, note)


def resume(paused: Pause, now: datetime) -> Pause:
    """End a pause. It is kept, so that ticks of its time that are not decided yet are still recorded as paused."""
    return replace(paused, until=max(paused.since, min(paused.until, now)))


@dataclass(frozen=True, slots=True)
class SkipNext:
    """The next ticks after `asked_at` shall not run. Which those are is worked out when they come."""

    asked_at: datetime
    left: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.left <= SKIP_MAX:
            raise Invalid(f"skip-next takes from 1 to {SKIP_MAX} ticks, not {self.left}; for more, pause the schedule.")


def skip(source: TickSource, skip_next: SkipNext, *, cursor: datetime, now: datetime) -> list[Hold]:
    """Return holds on the ticks in (cursor, now] that are to be skipped."""
    window = Window(max(cursor, skip_next.asked_at) + INSTANT, now + INSTANT)
    ticks = islice(ticks_between(source, window), skip_next.left)
    return [Hold(Window(tick, tick + INSTANT), DispositionKind.PAUSED) for tick in ticks]


def skipped(skip_next: SkipNext, holds: Iterable[Hold], *, cursor: datetime) -> SkipNext:
    """Return what is left to skip once every tick up to the new cursor is decided."""
    used = sum(hold.window.start <= cursor for hold in holds)
    return replace(skip_next, left=skip_next.left - used)


def failures_after(failures: int, ended: RunState) -> int:
    """Count failures in a row: a success starts again, a cancelled run says nothing."""
    match ended:
        case RunState.SUCCEEDED:
            return 0
        case RunState.DEAD:
            return failures + 1
        case RunState.CANCELLED | RunState.READY | RunState.RUNNING:
            return failures


def pause_on_failure(failures: int, *, limit: int | None, now: datetime) -> Pause | None:
    """Pause a schedule whose last `limit` runs failed, and say so in the note."""
    if limit is None or failures < limit:
        return None
    return pause(now, note=f"paused after {failures} failures in a row; resume it when the cause is gone")
