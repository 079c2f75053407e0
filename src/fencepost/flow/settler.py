"""Outcome → next state: what becomes of a run whose attempt is over, by its policy and by the store's clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from fencepost.flow.closed_gate import closed_gate
from fencepost.model.definition import agent_from_json, retry_of
from fencepost.model.outcome import Outcome, Settlement
from fencepost.model.retry import RetryPolicy, settle
from fencepost.model.run import RunId
from fencepost.ports.runs import AttemptRow, RunRow

POLICIES_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Settler:
    """Decides how runs go on."""

    now: Callable[[], datetime]
    attempts: Callable[[str], Sequence[AttemptRow]]

    def decide(self, run: RunRow, outcome: Outcome) -> Settlement:
        """Return the run's next state."""
        now = self.now()
        return settle(
            outcome,
            run_id=RunId(run.id),
            attempt=run.attempt,
            retry=_policy(run.manifest),
            now=now,
            closed=closed_gate(outcome, lambda: self.attempts(run.id), now),
        )


@lru_cache(maxsize=POLICIES_KEPT)
def _policy(manifest: str) -> RetryPolicy:
    return retry_of(agent_from_json(manifest))
