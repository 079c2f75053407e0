"""A crontab line on several machines: which tick a call stands for, and whether it is still to be run.

Every machine works the tick out by its own clock, because its cron went by that clock. The record of what was
claimed is kept with the lease and changes with it, in one step. Times are microseconds since 1970.
"""

from __future__ import annotations

from fencepost.model.errors import Busy, Misconfigured
from fencepost.model.fast_instant import instant
from fencepost.model.fast_typing import TYPE_CHECKING, Callable, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any
    from fencepost.model.zoned_cron import ZonedCron

STATES = ("claimed", "started", "succeeded", "failed", "lost", "missed", "new")
CLAIMED, STARTED, SUCCEEDED, FAILED, LOST, MISSED, NEW = STATES
COALESCE, SKIP = "coalesce", "skip"
KEEP, RESTART = "keep", "restart"
SECOND_US = 1_000_000
GRACE_US = 60 * SECOND_US
SKEW_MAX_US = 5 * 60 * SECOND_US  # a clock that is further off than this is wrong, not early
SOON_US = 2 * SECOND_US  # cron starts a line a moment before its minute on a machine whose clock is behind


class TickRecord(NamedTuple):
    """What is known of a job's newest tick, whichever machine ran it."""

    job: str
    cron: str
    zone: str
    cursor_us: int
    state: str
    attempts: int = 0
    run: str = ""
    host: str = ""
    fence: int = 0  # of the lease under which it was claimed
    last_success_us: int | None = None


class TickOrder(NamedTuple):
    """What one call asks for: the newest tick of this cron line, under these policies."""

    job: str
    cron: str
    zone: str
    ticks: ZonedCron
    wall_us: Callable[[], int]  # the caller's clock: which tick is the newest is worked out at the very end
    grace_us: int = GRACE_US
    missed: str = COALESCE
    retry: int = 1  # how often a tick is tried in all
    on_lost: str = KEEP
    ended: tuple[int, str] | None = (
        None  # of an earlier run here, whose end could not be reported: its fence, its state
    )

    unheard: tuple[
        str, ...
    ] = ()  # runs of earlier calls here that never learnt whether they had the lease: none was started

    def newest(self, now_us: int) -> int | None:
        """Return the newest tick at or before an instant."""
        slot = self.ticks.last(now_us // SECOND_US + 1)
        return None if slot is None else slot.at * SECOND_US

    def next(self, now_us: int) -> int | None:
        """Return the first tick after an instant."""
        slot = self.ticks.next(now_us // SECOND_US + 1)
        return None if slot is None else slot.at * SECOND_US


class GrantedTick(NamedTuple):
    """The tick that came with a lease."""

    job: str
    tick_us: int
    period_start_us: int
    attempt: int
    last_success_us: int | None
    warning: str = ""


class Take(NamedTuple):
    """Run it: the record as it is to stand beside the new lease, whose fence and run are filled in there."""

    record: TickRecord
    granted: GrantedTick


class Leave(NamedTuple):
    """Do not run it. A record that is not None is to be written down."""

    record: TickRecord | None
    words: str
    state: str
    next_us: int | None


class TickOver(Busy):
    """This call's tick is not to be run; the message says who ran it, or why it is left out."""

    code = "tick_over"

    def __init__(self, message: str, *, state: str, next_us: int | None) -> None:
        super().__init__(message)
        self.state = state
        self.next_us = next_us


def over(leave: Leave) -> TickOver:
    """Return what a caller is told whose tick is not to be run."""
    return TickOver(leave.words, state=leave.state, next_us=leave.next_us)


class ClaimFacts(NamedTuple):
    """What a decision is made from, besides the order."""

    record: TickRecord | None
    now_us: int  # by the caller's wall clock, at this very step
    holding: int | None  # the fence of a lease that is in force, or None
    store_us: int | None = None  # the store's own clock, where it tells


def decide(order: TickOrder, standing: ClaimFacts) -> Take | Leave:
    """Decide about the newest tick. Whether the lease is to be had is decided elsewhere, after this."""
    now_us = standing.now_us
    _check_clock(now_us, standing.store_us)
    record = _told(settled(standing.record, order), standing.holding)
    newest = order.newest(now_us)
    if record is None:
        return _first(order, newest, now_us)
    if record.cursor_us > now_us + SKEW_MAX_US:
        raise Misconfigured(
            f"job {record.job} has run its tick of {instant(record.cursor_us)}, which is {_minutes(record.cursor_us - now_us)} "
            f"ahead of this clock: {record.host or 'another machine'}'s clock is ahead, or this one is behind. "
            f"Set the clocks; if the record is wrong: fencepost lease reset-tick {record.job}"
        )
    if newest is None or newest < record.cursor_us:
        return _done(order, record, now_us, standing)
    if newest == record.cursor_us:
        return _again(order, record, now_us, standing)
    if now_us - newest > order.grace_us and order.missed == SKIP:
        missed = _claimed(order, newest, attempts=0, last_success_us=record.last_success_us)._replace(state=MISSED)
        return Leave(
            missed, f"{_name(order, newest)} is missed: {_late(order, newest, now_us)}", MISSED, order.next(now_us)
        )
    return _take(order, newest, 1, record)


def is_waited_for(order: TickOrder, leave: Leave) -> bool:
    """Tell whether a lease that is in force has to end before this tick can be decided: it may turn out to be dead."""
    return leave.state == CLAIMED or (leave.state == STARTED and order.on_lost == RESTART)


def has_ended(order: TickOrder | None, fence: int) -> bool:
    """Tell whether the lease with this fence is known to be over, although the store was not told."""
    return order is not None and order.ended is not None and order.ended[0] == fence


def granted_again(order: TickOrder, record: TickRecord) -> GrantedTick:
    """Return the tick that was granted with a lease whose grant is asked for once more."""
    return _take(order, record.cursor_us, record.attempts, record).granted


def started(record: TickRecord) -> TickRecord:
    """Note that the command is about to start: from here on a loss is ambiguous."""
    return record._replace(state=STARTED)


def ended(record: TickRecord, *, well: bool) -> TickRecord:
    """Note how a run ended."""
    if record.state != STARTED:
        return record  # nothing was started, so that the tick may be taken again
    if well:
        return record._replace(state=SUCCEEDED, last_success_us=record.cursor_us)
    return record._replace(state=FAILED)


def is_over(order: TickOrder, record: TickRecord, now_us: int) -> bool:
    """Tell whether a record, which may be an old copy, is enough to know that there is nothing to run now."""
    newest = order.newest(now_us)
    if newest is None or newest > record.cursor_us or record.cursor_us > now_us + SKEW_MAX_US:
        return False
    if newest < record.cursor_us:
        return True
    if record.state == FAILED:
        return record.attempts >= order.retry
    if record.state == STARTED:  # it may have failed since
        return order.on_lost != RESTART and record.attempts >= order.retry
    if record.state == LOST:
        return order.on_lost != RESTART
    return record.state in (SUCCEEDED, MISSED, NEW)


def record_of(fields: dict[str, Any]) -> TickRecord:
    """Read a record; a newer program may have added to it."""
    return TickRecord(**{name: fields[name] for name in TickRecord._fields if name in fields})


def _check_clock(now_us: int, store_us: int | None) -> None:
    if store_us is not None and abs(now_us - store_us) > SKEW_MAX_US:
        side = "ahead of" if now_us > store_us else "behind"
        raise Misconfigured(
            f"this machine's clock is {_minutes(abs(now_us - store_us))} {side} the store's, so it is not known which tick "
            "is due. Set the clock."
        )


def settled(record: TickRecord | None, order: TickOrder) -> TickRecord | None:
    """Apply what this host alone knows of an earlier call here, if its tick is still the newest one.

    That is an end that could not be reported, or that nothing was started: the grant landed, and its answer did not come.
    """
    if record is not None and record.run in order.unheard and record.state in (STARTED, LOST):
        return record._replace(state=CLAIMED)
    if record is None or order.ended is None or order.ended[0] != record.fence:
        return record
    return ended(record, well=order.ended[1] == SUCCEEDED)


def _told(record: TickRecord | None, holding: int | None) -> TickRecord | None:
    """Call a run lost whose lease is gone while nothing was heard of its end."""
    if record is not None and record.state == STARTED and holding != record.fence:
        return record._replace(state=LOST)
    return record


def _first(order: TickOrder, newest: int | None, now_us: int) -> Take | Leave:
    if newest is not None and now_us - newest <= order.grace_us:
        return _take(order, newest, 1, None)
    coming = order.next(now_us)
    fresh = _claimed(order, now_us if newest is None else newest, attempts=0, last_success_us=None)._replace(state=NEW)
    when = f"starts with {instant(coming)}" if coming is not None else "never comes due again"
    return Leave(fresh, f"job {order.job} is new here and {when}.", NEW, coming)


def _again(order: TickOrder, record: TickRecord, now_us: int, standing: ClaimFacts) -> Take | Leave:
    """Decide about the tick that the record is of."""
    holding = standing.holding == record.fence
    if record.state == CLAIMED and not holding:
        return _take(order, record.cursor_us, max(1, record.attempts), record)
    if record.state == FAILED and record.attempts < order.retry:
        return _take(order, record.cursor_us, record.attempts + 1, record)
    if record.state == LOST and order.on_lost == RESTART:
        return _take(order, record.cursor_us, record.attempts + 1, record)
    return _done(order, record, now_us, standing)


def _done(order: TickOrder, record: TickRecord, now_us: int, standing: ClaimFacts) -> Leave:
    changed = record if record != standing.record and record.state != CLAIMED else None
    return Leave(changed, f"{what_became_of(record, order)}.", record.state, order.next(now_us))


def what_became_of(record: TickRecord, order: TickOrder) -> str:
    """Say how the tick of a record ended, and where it was run."""
    who = f" by {record.run} on {record.host}" if record.run else ""
    how = {
        CLAIMED: "was claimed",
        STARTED: "is run",
        SUCCEEDED: "was run",
        FAILED: f"failed after {record.attempts} of {max(order.retry, record.attempts)} attempts",
        LOST: "was started and lost, and is left alone without --on-lost restart",
        MISSED: "was missed",
        NEW: "was before this job's time",
    }[record.state]
    return f"{_name(order, record.cursor_us)} {how}{who}"


def _take(order: TickOrder, tick_us: int, attempt: int, record: TickRecord | None) -> Take:
    last = record.last_success_us if record else None
    slot = order.ticks.last(tick_us // SECOND_US)
    before = slot.at * SECOND_US if slot else tick_us
    start = min(before, last) if last is not None and order.missed == COALESCE else before
    granted = GrantedTick(order.job, tick_us, start, attempt, last, _differs(order, record))
    return Take(_claimed(order, tick_us, attempts=attempt, last_success_us=last), granted)


def _claimed(order: TickOrder, tick_us: int, *, attempts: int, last_success_us: int | None) -> TickRecord:
    return TickRecord(
        order.job, order.cron, order.zone, tick_us, CLAIMED, attempts=attempts, last_success_us=last_success_us
    )


def _differs(order: TickOrder, record: TickRecord | None) -> str:
    if record is None or (record.cron, record.zone) == (order.cron, order.zone):
        return ""
    return (
        f"job {order.job} was run by {record.cron!r} in {record.zone} before, and by {order.cron!r} in {order.zone} now; "
        "if these are two jobs, give one of them another name with --job."
    )


def _name(order: TickOrder, tick_us: int) -> str:
    return f"tick {instant(tick_us)} of {order.job}"


def _late(order: TickOrder, tick_us: int, now_us: int) -> str:
    return f"it was due {(now_us - tick_us) // SECOND_US} s ago, and --grace is {order.grace_us // SECOND_US} s."


def _minutes(us: int) -> str:
    return f"{max(1, us // (60 * SECOND_US))} min"
