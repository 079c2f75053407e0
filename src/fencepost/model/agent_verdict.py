"""What an attempt's end means, by the agent's own words first and its exit code second."""

from collections.abc import Mapping

from fencepost.model.errors import Misconfigured
from fencepost.model.outcome import Failed, Outcome, OverBudget, Succeeded
from fencepost.model.retry import SIGNALLED
from fencepost.model.transcript import Transcript

FAILED = 1


def judge(  # noqa: PLR0911  # one value per case, every case named
    told: Transcript,
    exit_code: int,
    *,
    tells_success: bool,
    exit_codes: Mapping[int, int],
    ended_by_us: bool,
    was_done: bool = True,
) -> Outcome | None:
    """Return how it ended, or None where our own reason for ending it stands.

    `was_done`: it had said so before we ended it. What it says afterwards counts for nothing: Gemini takes the end of its
    tool for an answer and finishes happily, Copilot tells exit code 0 of a turn that it broke off.
    An agent that was told to go on with a session and had it not may have begun another: it is not known what that did.
    """
    if told.lost_session:
        return Failed(exit_code or FAILED, ambiguous=True, said=True)
    if told.succeeded and (was_done or not ended_by_us):
        return Succeeded()
    if ended_by_us:
        return None
    if told.over_budget:
        return OverBudget()
    code = Misconfigured.exit_code if told.misconfigured else exit_codes.get(exit_code, exit_code)
    if told.failure is not None:
        return Failed(code if 0 < code <= SIGNALLED else FAILED, ambiguous=told.ambiguous, said=True)
    if code == 0 and not tells_success:
        return Succeeded()
    return Failed(code or FAILED, said=code == 0 or (code == Misconfigured.exit_code and exit_code in exit_codes))
