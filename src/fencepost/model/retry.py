"""What happens after an attempt: try again, go on, begin again, or call for a person.

An end is ambiguous when it is not known how far the agent got: its worker was lost, a time limit or a signal
ended it, or an effect of it is neither done nor undone. Such an end is never retried blindly; `on_lost` says
what its owner knows about the agent.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from fencepost.model.errors import FenceRefused, Invalid, LeaseLost, Misconfigured
from fencepost.model.outcome import (
    Failed,
    Interrupted,
    Lost,
    NotStarted,
    Outcome,
    OverBudget,
    Settlement,
    Stopped,
    Succeeded,
    TimedOut,
)
from fencepost.model.repeatable_random import spread
from fencepost.model.run import Reason, RunId, RunState

NEVER_RETRIED = frozenset({LeaseLost.exit_code, FenceRefused.exit_code})  # a newer attempt holds it: no use
RETRIED_IF_ASKED = frozenset({Misconfigured.exit_code, 126, 127})  # not found stays not found
RETRIABLE = frozenset(range(1, 256)) - NEVER_RETRIED
SIGNALLED = 128  # codes above it mean: ended by a signal
ATTEMPTS_MAX = 100
ATTEMPTS_AFTER_LOSS = 3
GATE_DELAY = timedelta(seconds=5)
GATE_DELAY_MAX = timedelta(minutes=5)
GATE_ALARM_AFTER = timedelta(minutes=5)  # a gate that is away for longer is for a person to look at
DELAY_MAX = timedelta(days=7)
DOUBLINGS_MAX = 20  # from a second it is twelve days by then, above any backoff_max


class OnLost(StrEnum):
    """What the owner says about work that was lost half-way."""

    TRIAGE = "triage"
    RESUME = "resume"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, how soon, after which exit codes (None: any failure that could pass), and what after a loss."""

    max_attempts: int = 1
    backoff: timedelta = timedelta(seconds=30)
    backoff_max: timedelta = timedelta(hours=1)
    exit_codes: frozenset[int] | None = None
    on_lost: OnLost = OnLost.TRIAGE

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= ATTEMPTS_MAX:
            raise Invalid(f"max_attempts is between 1 and {ATTEMPTS_MAX}, not {self.max_attempts}.")
        if not timedelta(0) <= self.backoff <= self.backoff_max <= DELAY_MAX:
            raise Invalid(f"backoff and backoff_max must grow from 0s to {DELAY_MAX.days}d at most.")
        if wrong := sorted((self.exit_codes or frozenset()) - RETRIABLE):
            raise Invalid(f"exit codes {wrong} cannot be retried: give codes from 1 to 255 other than 76 and 77.")

    @property
    def lost_attempts_max(self) -> int:
        """How many attempts there may be when some were lost: a run that takes its worker down is stopped too."""
        return max(self.max_attempts, ATTEMPTS_AFTER_LOSS)

    def retries(self, exit_code: int) -> bool:
        """Tell whether an agent that ended with this code is worth another attempt."""
        if exit_code in NEVER_RETRIED:
            return False
        if self.exit_codes is not None:
            return exit_code in self.exit_codes
        return exit_code not in RETRIED_IF_ASKED

    def delay(self, attempt: int, run_id: RunId) -> timedelta:
        """Return how long to wait after this attempt: twice as long each time, up to a half less by the run's own dice."""
        full = min(self.backoff_max, self.backoff * (1 << min(attempt - 1, DOUBLINGS_MAX)))
        return full * (1 - spread(run_id, attempt) / 2)


@dataclass(frozen=True, slots=True)
class Closed:
    """How long a gate has kept a run from starting: by now, and by the try before this one."""

    by_now: timedelta = timedelta(0)
    before: timedelta = timedelta(0)

    @property
    def is_alarming(self) -> bool:
        """Whether the bound was passed since the try before: a person is told once, and not at each try."""
        return self.before < GATE_ALARM_AFTER <= self.by_now


def settle(  # noqa: C901, PLR0911  # one value per case, every case named
    outcome: Outcome,
    *,
    run_id: RunId,
    attempt: int,
    retry: RetryPolicy,
    now: datetime,
    closed: Closed = Closed(),  # a value
) -> Settlement:
    """Decide the run's next state. The store only writes down what this returns."""
    later = now + retry.delay(attempt, run_id)
    match outcome:
        case Succeeded():
            return Settlement(RunState.SUCCEEDED)
        case Failed():
            return _after_failure(outcome, attempt, retry, ready_at=later)
        case TimedOut(reason):
            return _after_ambiguous_end(reason, attempt, retry, ready_at=later)
        case OverBudget():
            return Settlement(RunState.DEAD, Reason.BUDGET)
        case Lost(started=True):
            return _after_ambiguous_end(Reason.LOST, attempt, retry, ready_at=now)
        case Lost():
            return Settlement(RunState.READY, Reason.LOST_BEFORE_START, ready_at=now, uses_attempt=False)
        case Interrupted(resumable):
            return _after_drain(retry, resumable=resumable, now=now)
        case NotStarted(Reason.GATE_UNREACHABLE):
            return _before_a_closed_gate(closed, now)
        case NotStarted(reason):
            return Settlement(RunState.DEAD, reason, uses_attempt=False)
        case Stopped(reason):
            return Settlement(RunState.CANCELLED, reason)
        case _:
            assert_never(outcome)


def _before_a_closed_gate(closed: Closed, now: datetime) -> Settlement:
    """Try again, less often the longer it lasts; an outage of a minute costs seconds, one of a day a few minutes."""
    ready_at = now + min(GATE_DELAY_MAX, max(GATE_DELAY, closed.by_now / 4))
    reason = Reason.GATE_UNREACHABLE
    return Settlement(RunState.READY, reason, ready_at=ready_at, uses_attempt=False, alarm=closed.is_alarming)


def _after_failure(failed: Failed, attempt: int, retry: RetryPolicy, *, ready_at: datetime) -> Settlement:
    if failed.exit_code == FenceRefused.exit_code:
        return Settlement(RunState.DEAD, failed.refused or Reason.FENCE_REFUSED)
    if is_ambiguous(failed, retry):
        return _after_ambiguous_end(Reason.AMBIGUOUS, attempt, retry, ready_at=ready_at)
    if attempt < retry.max_attempts and retry.retries(failed.exit_code):
        return Settlement(RunState.READY, Reason.RETRY, ready_at=ready_at)
    if not failed.said:
        return Settlement(RunState.DEAD, Reason.EXIT_CODE)
    wrong = failed.exit_code == Misconfigured.exit_code
    return Settlement(RunState.DEAD, Reason.MISCONFIGURED if wrong else Reason.AGENT_ERROR)


def is_ambiguous(failed: Failed, retry: RetryPolicy) -> bool:
    """Tell whether it is not known how far the agent got. A signal's code that was listed by its owner is an answer."""
    listed = retry.exit_codes is not None and failed.exit_code in retry.exit_codes
    return failed.ambiguous or (failed.exit_code > SIGNALLED and not listed)


def _after_ambiguous_end(reason: Reason, attempt: int, retry: RetryPolicy, *, ready_at: datetime) -> Settlement:
    if attempt >= retry.lost_attempts_max:
        return Settlement(RunState.DEAD, reason)
    match retry.on_lost:
        case OnLost.TRIAGE:
            return Settlement(RunState.DEAD, reason)
        case OnLost.RESUME:
            return Settlement(RunState.READY, Reason.RESUME, ready_at=ready_at, resume=True)
        case OnLost.RESTART:
            return Settlement(RunState.READY, Reason.RESTART, ready_at=ready_at)
        case _:
            assert_never(retry.on_lost)


def _after_drain(retry: RetryPolicy, *, resumable: bool, now: datetime) -> Settlement:
    if not resumable and retry.on_lost is OnLost.TRIAGE:
        return Settlement(RunState.DEAD, Reason.INTERRUPTED, uses_attempt=False)
    resume = resumable or retry.on_lost is OnLost.RESUME
    return Settlement(RunState.READY, Reason.DRAINED, ready_at=now, resume=resume, uses_attempt=False)


def end_of_lost(*, started: bool, left: bool, resumable: bool) -> Outcome:
    """Say how an attempt ended whose lease has run out: one that its keeper left on purpose was drained."""
    return Interrupted(resumable) if started and left else Lost(started)


class DrainStep(StrEnum):
    """What a worker that is asked to stop does with a running agent now."""

    KEEP = "keep"
    HAND_BACK = "hand_back"
    END = "end"


def drain(retry: RetryPolicy, *, resumable: bool, now: datetime, deadline_at: datetime) -> DrainStep:
    """Decide about one running agent during a drain.

    What loses nothing by it is handed back at once. What would begin again, or die, is left to finish first.
    """
    if resumable:
        return DrainStep.HAND_BACK
    if now < deadline_at:
        return DrainStep.KEEP
    return DrainStep.END if retry.on_lost is OnLost.TRIAGE else DrainStep.HAND_BACK


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a run may wait, work and stand still; None: no limit.

    While a tool call is open, an agent has nothing to say: then `tool_timeout` stands in for `stall_timeout`.
    """

    queue_timeout: timedelta | None = timedelta(days=1)
    timeout: timedelta | None = timedelta(hours=1)
    stall_timeout: timedelta | None = None
    tool_timeout: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("queue_timeout", "timeout", "stall_timeout", "tool_timeout"):
            limit = getattr(self, name)
            if limit is not None and limit <= timedelta(0):
                raise Invalid(f"{name} must be longer than 0s; leave it out for the default.")

    def waited_too_long(self, waited_for: timedelta) -> Settlement | None:
        """Give a run up that could have started all this time; a start that came to nothing does not reset it."""
        if self.queue_timeout is None or waited_for < self.queue_timeout:
            return None
        return Settlement(RunState.DEAD, Reason.QUEUE_TIMEOUT, uses_attempt=False)

    def exceeded(
        self, *, ran_for: timedelta, silent_for: timedelta, calling_for: timedelta | None = None
    ) -> TimedOut | None:
        """Return the limit that a running agent has reached, if any; the hard one first.

        `calling_for`: since when the oldest open tool call is open, if one is.
        """
        if self.timeout is not None and ran_for >= self.timeout:
            return TimedOut(Reason.TIMEOUT)
        limit, still_for = (self.stall_timeout, silent_for) if calling_for is None else (self.tool_timeout, calling_for)
        return TimedOut(Reason.STALL_TIMEOUT) if limit is not None and still_for >= limit else None

    def in_seconds(self) -> tuple[float | None, ...]:
        """Return what limits a running agent, for those who have plain values only."""
        limits = (self.timeout, self.stall_timeout, self.tool_timeout)
        return tuple(None if one is None else one.total_seconds() for one in limits)


def timeouts_in_seconds(*limits: float | None) -> Timeouts:
    """Return the limits of a running agent again."""
    return Timeouts(None, *(None if one is None else timedelta(seconds=one) for one in limits))
