"""Why a run moved or ended, in words."""

from fencepost.model.run import Reason
from fencepost.model.run_page import REASONS


def why_so(reason: str | None) -> str:
    """Say in words why a run moved."""
    if reason is None:
        return ""
    known = {one.value: words for one, words in REASONS.items()}
    return known.get(reason, reason).replace("`", "")


def fate(reason: str | None, exit_code: int | None) -> str:
    """Say in words why a run ended, with the agent's own code where there is one."""
    if reason == Reason.EXIT_CODE and exit_code is not None:
        return f"the agent exited with code {exit_code}"
    return why_so(reason) + (f" (exit code {exit_code})" if exit_code is not None else "")
