"""Lost lease → settled run: a run whose worker is gone is retried, resumed, or handed to a person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fencepost.flow.leaser import Undertaker
from fencepost.model.definition import agent_from_json, retry_of
from fencepost.model.instants import from_us
from fencepost.model.lease import Held
from fencepost.model.outcome import Lost, Outcome, Settlement
from fencepost.model.retry import end_of_lost, settle
from fencepost.model.run import Reason, RunId, RunState
from fencepost.ports.processes import Processes
from fencepost.ports.runs import AttemptRow, Report, RunRow
from fencepost.ports.store import LeaseStore

if TYPE_CHECKING:
    from fencepost.stores.runtime import RuntimeStore

FRUITLESS_MAX = 10  # leases of a run that were lost before its agent started, until a person has to look


@dataclass(frozen=True, slots=True)
class Reaper:
    """Settles the runs of lost leases; safe to run anywhere, any number of times."""

    runs: "RuntimeStore"
    leases: LeaseStore
    processes: Processes
    now: Callable[[], datetime]
    batch_max: int = 100
    has_known_end: Callable[[Held], bool] = lambda _: False  # its guard wrote it down: a worker of its host settles it
    keeper: str = ""  # who asks, if it is a worker: it knows by itself when a guard of its own dies

    def step(self) -> int:
        """Settle what was lost or waited too long, and return how many."""
        return self.take_over() + self.give_up()

    def take_over(self) -> int:
        """Take leases from the dead on this host, settle what was lost, and return how many."""
        undertaker = Undertaker(self.leases, self.processes)
        for held in self.runs.leases_on(self.processes.here().machine, besides=self.keeper):
            if not held.lost and not self.has_known_end(held):
                undertaker.take_from_dead(held)
        return sum(self._reap(run) for run in self.runs.lost_runs(self.batch_max))

    def give_up(self) -> int:
        """Settle what waited too long, and return how many."""
        return self.runs.give_up_waiting(self.batch_max)

    def _reap(self, run: RunRow) -> bool:
        """Settle one lost run; the store compares its fence again, so a run that moved on meanwhile is left alone."""
        attempts = self.runs.attempts(run.id)
        started = any(one.fence == run.fence and one.started_us is not None for one in attempts)
        left = started and self.runs.was_left(run)
        resumable = left and self.runs.checkpoint(run.id) is not None
        outcome = end_of_lost(started=started, left=left, resumable=resumable)
        settlement = self._settlement(run, attempts, outcome)
        return self.runs.reap(run, settlement, Report(outcome=type(outcome).__name__.lower()), started=started)

    def _settlement(self, run: RunRow, attempts: Sequence[AttemptRow], outcome: Outcome) -> Settlement:
        """Decide as after any loss, except for a run that takes down every worker that leases it, before it can start."""
        lost = [one for one in attempts if one.started_us is None and one.outcome in (None, "lost")]
        if outcome == Lost(started=False) and len(lost) >= FRUITLESS_MAX:
            return Settlement(RunState.DEAD, Reason.LOST)
        return settle(
            outcome,
            run_id=RunId(run.id),
            attempt=run.attempt,
            retry=retry_of(agent_from_json(run.manifest)),
            now=self.now(),
        )


def store_now(clock_us: Callable[[], int]) -> Callable[[], datetime]:
    """Turn the store's clock into the time that decisions are made by."""
    return lambda: from_us(clock_us())
