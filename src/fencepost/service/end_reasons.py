"""Why an attempt was ended, and what its end means where the agent's own words say nothing."""

from fencepost.model.outcome import Failed, Interrupted, Lost, Outcome, OverBudget, Stopped, Succeeded, TimedOut
from fencepost.model.run import Reason

DONE, LOST_SESSION, OVER_BUDGET = "done", "lost session", "over budget"
PASSED_SECONDS = 5.0  # for an agent to say that its budget is spent
LOSSES = ("lost", "deadline", "worker gone", "guard gone")
STOP = "stop "
DRAIN = "drain"
# Ends for which an agent gets the time to finish its turn; a lost lease or session is none.
INTERRUPTS = frozenset(
    {
        DRAIN,
        OVER_BUDGET,
        Reason.TIMEOUT.value,
        Reason.STALL_TIMEOUT.value,
        f"{STOP}{Reason.CANCELLED.value}",
        f"{STOP}{Reason.OVERLAP.value}",
    }
)


def outcome_of(why: str, exit_code: int, *, resumable: bool) -> Outcome:
    """Return what the end means by our reason for it, or else by the exit code."""
    if why in LOSSES:
        return Lost(started=True)
    if why in (Reason.TIMEOUT.value, Reason.STALL_TIMEOUT.value):
        return TimedOut(Reason(why))
    if why == DRAIN:
        return Interrupted(resumable=resumable)
    if why == OVER_BUDGET:
        return OverBudget()
    if why.startswith(STOP):
        return Stopped(Reason(why.removeprefix(STOP)))
    return Succeeded() if exit_code == 0 else Failed(exit_code)


def shown_code(outcome: Outcome, exit_code: int, why: str) -> int:
    """Return the exit code to record: where we ended an agent that was done, the signal was ours and says nothing."""
    if why != DONE:
        return exit_code
    return 0 if isinstance(outcome, Succeeded) else 1
