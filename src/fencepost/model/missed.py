"""Which owed ticks run, and which were missed: the first of the policies, and the one that meets a year of downtime.

Time is cut at three points. Ticks before `now - catchup_window` are out of reach; those before `now - grace` are
late; the others are on time. Late ticks are counted, never listed, so that any number of them costs the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, assert_never

from fencepost.model.disposition import DispositionKind, Hold, Span, Window, clip, subtract, union
from fencepost.model.errors import Invalid
from fencepost.model.repeatable_random import spread

INSTANT = timedelta.resolution  # the smallest step: (a, b] is [a + INSTANT, b + INSTANT)
REACH_MAX = timedelta(days=3660)
CATCHUP_MAX = 1000
ON_TIME_MAX = 1000  # ticks on time that are decided at once; the others stay beyond the cursor


class Ticked(Protocol):
    """Anything that knows its instant, such as an occurrence."""

    @property
    def tick_at(self) -> datetime:
        """The instant in UTC."""
        ...


class TickSource(Protocol):
    """A trigger that knows its ticks beforehand. No question may cost more because there are more ticks."""

    def count_between(self, start: datetime, end: datetime, /) -> int:
        """Count the ticks in [start, end)."""
        ...

    def last_before(self, at: datetime, /) -> Ticked | None:
        """Return the last tick before an instant, if there is one."""
        ...

    def next_after(self, at: datetime, /) -> Ticked | None:
        """Return the first tick after an instant, if there is one."""
        ...

    def period(self, tick_at: datetime, /) -> tuple[datetime, datetime]:
        """Return what a tick covers: [the scheduled instant before it, itself)."""
        ...


def ticks_between(source: TickSource, window: Window) -> Iterator[datetime]:
    """Visit the ticks of a window one by one, oldest first: only for windows that are known to be short."""
    found = source.next_after(window.start - INSTANT)
    while found and found.tick_at < window.end:
        yield found.tick_at
        found = source.next_after(found.tick_at)


class MissedRule(StrEnum):
    """What to do about late ticks."""

    SKIP = "skip"
    COALESCE = "coalesce"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class MissedPolicy:
    """How late is too late, and what is caught up."""

    rule: MissedRule = MissedRule.SKIP
    grace: timedelta = timedelta(seconds=60)
    catchup_window: timedelta = timedelta(days=7)
    catchup_max: int = 10
    stagger: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        for name in ("grace", "catchup_window", "stagger"):
            if not timedelta(0) <= getattr(self, name) <= REACH_MAX:
                raise Invalid(f"{name} is between 0s and {REACH_MAX.days}d, not {getattr(self, name)}.")
        if not 1 <= self.catchup_max <= CATCHUP_MAX:
            raise Invalid(
                f"catchup_max is between 1 and {CATCHUP_MAX}, not {self.catchup_max}; "
                'to catch nothing up, write missed = "skip".'
            )


@dataclass(frozen=True, slots=True)
class Due:
    """A tick that should run if overlap and budget allow, and the earlier ones that its run covers."""

    tick: datetime
    ready_at: datetime
    period_start: datetime
    absorbs: tuple[Span, ...] = ()
    late: bool = False
    lines_up: bool = False  # one of a replay: it waits its turn instead of being skipped
    made_at: datetime | None = None  # of an `every`, whose tick waits until there is room for it

    @property
    def counted_at(self) -> datetime:
        """When the run counts among those of its hour: one that is made late when it starts, not when it was due."""
        return self.made_at or (self.ready_at if self.late else self.tick)


@dataclass(frozen=True, slots=True)
class Passed:
    """Ticks that will not run, whatever overlap and budget say."""

    span: Span
    kind: DispositionKind


@dataclass(frozen=True, slots=True)
class MissedPlan:
    """Every tick after the old cursor up to the new one, oldest first."""

    items: tuple[Due | Passed, ...]
    cursor: datetime


def plan(
    source: TickSource,
    *,
    cursor: datetime,
    now: datetime,
    policy: MissedPolicy,
    holds: Sequence[Hold] = (),
    last_success: datetime | None = None,
    backlog: int = 0,
    schedule: str = "",
) -> MissedPlan:
    """Account for every tick in (cursor, now].

    `backlog` is how many runs of an earlier replay have not ended. A clock that went back owes nothing.
    """
    if now <= cursor:
        return MissedPlan((), cursor)
    owed = _owed(source, Window(cursor + INSTANT, now + INSTANT), now, policy, holds)
    match policy.rule:
        case MissedRule.COALESCE if owed.late():
            return owed.plan([_coalesced(owed, last_success, schedule)])
        case MissedRule.REPLAY if backlog or owed.late():
            return _replayed(owed, backlog, schedule)
        case MissedRule.SKIP | MissedRule.COALESCE | MissedRule.REPLAY:
            return _on_time(owed, owed.window.end)
        case _:
            assert_never(policy.rule)


@dataclass(frozen=True, slots=True)
class _Owed:
    """The owed stretch of time, and the questions that the rules ask about it."""

    source: TickSource
    window: Window
    now: datetime
    policy: MissedPolicy
    held: tuple[Hold, ...]  # in the window, and disjoint

    @property
    def cutoff(self) -> datetime:
        """From here on ticks are on time: exactly `grace` old is not yet late."""
        return self.now - self.policy.grace

    @property
    def horizon(self) -> datetime:
        """From here on late ticks can be caught up."""
        return min(self.cutoff, self.now - self.policy.catchup_window)

    def free(self, start: datetime, end: datetime) -> list[Window]:
        """Return the parts of [start, end) that are owed and not held."""
        return subtract(clip([Window(start, end)], self.window), union(hold.window for hold in self.held))

    def late(self) -> bool:
        """Tell whether there is a late tick within reach."""
        return any(self.source.count_between(w.start, w.end) for w in self.free(self.horizon, self.cutoff))

    def spans(self, windows: Iterable[Window]) -> list[Span]:
        """Count the ticks of each window; windows without any are left out."""
        return [span for window in windows if (span := self._span(window))]

    def _span(self, window: Window) -> Span | None:
        count = self.source.count_between(window.start, window.end)
        if not count:
            return None
        first, last = self.source.next_after(window.start - INSTANT), self.source.last_before(window.end)
        assert first is not None
        assert last is not None
        return Span(first.tick_at, last.tick_at, count)

    def plan(self, due: Sequence[Due], *, end: datetime | None = None) -> MissedPlan:
        """Complete the plan: what is neither due, nor covered by what is due, nor held, was missed.

        With `end`, only the ticks before it are decided now.
        """
        window = Window(self.window.start, end or self.window.end)
        taken = union(_cover(due))
        missed = subtract(self.free(window.start, min(window.end, self.cutoff)), taken)
        passed = [Passed(span, DispositionKind.MISSED) for span in self.spans(missed)]
        for hold in self.held:
            passed += [Passed(span, hold.kind) for span in self.spans(clip([hold.window], window))]
        kept = (one for one in due if one.tick < window.end)
        return MissedPlan(tuple(sorted([*kept, *passed], key=_first)), window.end - INSTANT)

    def starts_after(self, place: int, schedule: str) -> datetime:
        """Return when the catch-up run in this place may start; schedules that wake together are spread out."""
        return self.now + self.policy.stagger * (place + spread(schedule))


def _owed(source: TickSource, window: Window, now: datetime, policy: MissedPolicy, holds: Sequence[Hold]) -> _Owed:
    """Sort out the holds: a pause outranks the calendar.

    Before the horizon the calendar is not looked at: those ticks were missed anyway, and a year of
    nightly blackouts would cost a row for each night.
    """
    owed = _Owed(source, window, now, policy, ())
    pauses = union(clip(_windows(holds, DispositionKind.PAUSED), window))
    reachable = Window(max(window.start, owed.horizon), window.end)
    blackouts = subtract(union(clip(_windows(holds, DispositionKind.CALENDAR), reachable)), pauses)
    held = [Hold(one, DispositionKind.PAUSED) for one in pauses]
    held += [Hold(one, DispositionKind.CALENDAR) for one in blackouts]
    return replace(owed, held=tuple(held))


def _windows(holds: Iterable[Hold], kind: DispositionKind) -> Iterator[Window]:
    return (hold.window for hold in holds if hold.kind is kind)


def _cover(due: Iterable[Due]) -> Iterator[Window]:
    for one in due:
        yield Window(one.tick, one.tick + INSTANT)
        for span in one.absorbs:
            yield Window(span.slot, span.slot_until + INSTANT)


def _first(item: Due | Passed) -> datetime:
    match item:
        case Due():
            return item.absorbs[0].slot if item.absorbs else item.tick
        case Passed():
            return item.span.slot


def _on_time(owed: _Owed, end: datetime, lined_up: Sequence[Due] = ()) -> MissedPlan:
    """Let each tick that is on time and before `end` run on its own; `lined_up` come after them."""
    due: list[Due] = []
    for tick in _each(owed.source, owed.free(owed.cutoff, end)):
        if len(due) == ON_TIME_MAX:
            return owed.plan(due, end=due[-1].tick + INSTANT)
        due.append(Due(tick, ready_at=tick, period_start=owed.source.period(tick)[0]))
    return owed.plan([*due, *lined_up])


def _each(source: TickSource, windows: Iterable[Window]) -> Iterator[datetime]:
    for window in windows:
        yield from ticks_between(source, window)


def _coalesced(owed: _Owed, last_success: datetime | None, schedule: str) -> Due:
    """Make one run of everything within reach: it stands for the newest tick and covers all since the last success."""
    *older, newest = owed.spans(owed.free(owed.horizon, owed.window.end))
    tick = newest.slot_until
    if newest.count > 1:
        before = owed.source.last_before(tick)
        assert before is not None
        older.append(Span(newest.slot, before.tick_at, newest.count - 1))
    late = tick < owed.cutoff
    return Due(
        tick,
        ready_at=owed.starts_after(0, schedule) if late else tick,
        period_start=_since(owed.source, last_success, first=older[0].slot if older else tick, tick=tick),
        absorbs=tuple(older),
        late=late,
    )


def _since(source: TickSource, last_success: datetime | None, *, first: datetime, tick: datetime) -> datetime:
    """Return where a coalesced run's period starts; a success at or after its own tick says nothing about it."""
    if last_success is not None and last_success < tick:
        return last_success
    return source.period(first)[0]


def _replayed(owed: _Owed, backlog: int, schedule: str) -> MissedPlan:
    """Line up the newest ticks within reach, in order, as many as there is room for behind the backlog."""
    newest = _newest(owed.source, owed.free(owed.horizon, owed.window.end), owed.policy.catchup_max - backlog)
    lined_up = [
        Due(
            tick,
            ready_at=owed.starts_after(backlog + place, schedule),
            period_start=owed.source.period(tick)[0],
            late=tick < owed.cutoff,
            lines_up=True,
        )
        for place, tick in enumerate(newest)
    ]
    return _on_time(owed, newest[0] if newest else owed.window.end, lined_up)


def _newest(source: TickSource, windows: Sequence[Window], limit: int) -> list[datetime]:
    """Return up to `limit` of the last ticks, oldest first."""
    found: list[datetime] = []
    for window in reversed(windows):
        tick = source.last_before(window.end)
        while tick and tick.tick_at >= window.start and len(found) < limit:
            found.append(tick.tick_at)
            tick = source.last_before(tick.tick_at)
    return found[::-1]
