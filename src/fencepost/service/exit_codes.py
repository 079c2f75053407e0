"""How a run ended: what the guard reported, what was asked for, and the exit code that follows."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple, Sequence

if TYPE_CHECKING:
    from fencepost.service.command_order import Order
    from fencepost.service.message_pipe import Message

LOST, TIMED_OUT, FAILED, NOT_EXECUTABLE, NOT_FOUND = 76, 124, 1, 126, 127
NOTHING_STARTED: Message = {"ended": 0, "gone": True, "why": "not started"}


class Ending(NamedTuple):
    """The exit code to leave with, and what to tell a person once the lease is given back."""

    code: int
    words: str = ""


def lost(reason: str | None) -> Ending:
    """Say that the lease is gone; this outranks what the agent said."""
    return Ending(LOST, f"lease lost, the run was ended: {reason or 'it could not be renewed in time.'}")


def not_started(argv: Sequence[str], number: int) -> Ending:
    """Say why the command could not be run, with the shell's exit codes."""
    from errno import ENOENT, ENOTDIR

    code = NOT_FOUND if number in (ENOENT, ENOTDIR) else NOT_EXECUTABLE
    return Ending(code, f"cannot run {argv[0]!r}: {os.strerror(number)}.")


def ended(order: Order, why: str, status: int, *, over_budget: bool = False) -> Ending:
    """Pass the agent's own end on, unless we ended it; one whose budget is spent has not succeeded."""
    if why == "timeout":
        from fencepost.model.duration import format_duration

        return Ending(TIMED_OUT, f"timed out after {format_duration(order.timeout_seconds or 0)}; the run was ended.")
    if why == "budget":
        return Ending(FAILED, "its budget is spent; the run was ended.")
    if why == "guard gone":
        return Ending(FAILED, "the guard process was killed, so the run was ended.")
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Ending(code or (FAILED if over_budget else 0))
