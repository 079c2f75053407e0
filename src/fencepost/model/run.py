"""What a run is: its states, the legal moves between them, the reasons for each, and what may have asked for it.

Everything about states stands in `MOVES`. The picture in the documentation is drawn from it, so it cannot
say anything else. Only cheap modules are imported here: `exec` needs the states on every call.
"""

from enum import StrEnum
from typing import NamedTuple, NewType

RunId = NewType("RunId", str)


class RunState(StrEnum):
    """Where a run stands."""

    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether no move leads out of this state."""
        return self in TERMINAL


class TriggerKind(StrEnum):
    """What asked for a run."""

    CRON = "cron"
    EVERY = "every"
    AT = "at"
    WEBHOOK = "webhook"
    MANUAL = "manual"
    REPLAY = "replay"
    BACKFILL = "backfill"
    EXEC = "exec"
    SESSION = "session"

    @property
    def tick_born(self) -> bool:
        """Whether the run stands for a tick: only such runs may be skipped or displaced."""
        return self in TICK_BORN

    @property
    def attended(self) -> bool:
        """Whether a person sits in front of it: no policy ever cancels such a run."""
        return self in ATTENDED


TICK_BORN = frozenset({TriggerKind.CRON, TriggerKind.EVERY, TriggerKind.AT})
ATTENDED = frozenset({TriggerKind.EXEC, TriggerKind.SESSION})


class Reason(StrEnum):
    """Why a run moved; recorded with the move, shown by `why`."""

    # back to ready
    RETRY = "retry"
    RESUME = "resume"
    RESTART = "restart"
    LOST_BEFORE_START = "lost_before_start"
    GATE_UNREACHABLE = "gate_unreachable"
    DRAINED = "drained"
    # cancelled
    CANCELLED = "cancelled"
    OVERLAP = "overlap"
    DISABLED = "disabled"
    PAUSED = "paused"
    CALENDAR = "calendar"
    BUDGET = "budget"
    # dead
    EXIT_CODE = "exit_code"
    AGENT_ERROR = "agent_error"
    AMBIGUOUS = "ambiguous"
    LOST = "lost"
    TIMEOUT = "timeout"
    STALL_TIMEOUT = "stall_timeout"
    QUEUE_TIMEOUT = "queue_timeout"
    INTERRUPTED = "interrupted"
    FENCE_REFUSED = "fence_refused"
    IN_DOUBT = "in_doubt"
    DIVERGED = "diverged"
    FENCE_REGRESS = "fence_regress"
    MISCONFIGURED = "misconfigured"


class Move(NamedTuple):
    """One legal move; a move without reasons explains itself."""

    origin: RunState
    target: RunState
    verb: str
    reasons: frozenset[Reason]


MOVES = (
    Move(RunState.READY, RunState.RUNNING, "lease", frozenset()),
    Move(
        RunState.READY,
        RunState.CANCELLED,
        "cancel",
        frozenset(
            {
                Reason.CANCELLED,
                Reason.OVERLAP,
                Reason.DISABLED,
                Reason.PAUSED,
                Reason.CALENDAR,
                Reason.BUDGET,
            }
        ),
    ),
    Move(RunState.READY, RunState.DEAD, "give up", frozenset({Reason.QUEUE_TIMEOUT})),
    Move(RunState.RUNNING, RunState.SUCCEEDED, "settle", frozenset()),
    Move(
        RunState.RUNNING,
        RunState.READY,
        "settle",
        frozenset(
            {
                Reason.RETRY,
                Reason.RESUME,
                Reason.RESTART,
                Reason.LOST_BEFORE_START,
                Reason.GATE_UNREACHABLE,
                Reason.DRAINED,
            }
        ),
    ),
    Move(
        RunState.RUNNING,
        RunState.DEAD,
        "settle",
        frozenset(
            {
                Reason.EXIT_CODE,
                Reason.AGENT_ERROR,
                Reason.AMBIGUOUS,
                Reason.LOST,
                Reason.TIMEOUT,
                Reason.STALL_TIMEOUT,
                Reason.INTERRUPTED,
                Reason.BUDGET,
                Reason.FENCE_REFUSED,
                Reason.IN_DOUBT,
                Reason.DIVERGED,
                Reason.FENCE_REGRESS,
                Reason.MISCONFIGURED,
            }
        ),
    ),
    Move(RunState.RUNNING, RunState.CANCELLED, "settle", frozenset({Reason.CANCELLED, Reason.OVERLAP})),
)
TERMINAL = frozenset(RunState) - {move.origin for move in MOVES}


def is_legal(origin: RunState, target: RunState, reason: Reason | None) -> bool:
    """Tell whether a run may go from `origin` to `target` for this reason."""
    return any(
        move.origin is origin and move.target is target and (reason in move.reasons if move.reasons else reason is None)
        for move in MOVES
    )


def move(origin: RunState, target: RunState, reason: Reason | None = None) -> RunState:
    """Return the state after a move. A run that has ended stays as it ended, also when news come late."""
    if origin.terminal:
        return origin
    assert is_legal(origin, target, reason), f"no move from {origin} to {target} because of {reason}"
    return target
