"""Lost lease → settled run: what nobody works on any more is retried, resumed, or handed to a person."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fencepost.model.definition import agent_from_json, retry_of
from fencepost.model.moment import from_us
from fencepost.model.outcome import Lost
from fencepost.model.process import Fate
from fencepost.model.retry import settle
from fencepost.model.run import RunId
from fencepost.ports.processes import Processes
from fencepost.ports.runs import Report, RunRow, RunStore
from fencepost.ports.store import LeaseStore


@dataclass(frozen=True, slots=True)
class Reaper:
    """Settles the runs of lost leases; safe to run anywhere, any number of times."""

    runs: RunStore
    leases: LeaseStore
    processes: Processes
    now: Callable[[], datetime]
    batch_max: int = 100

    def step(self) -> int:
        """Take leases from the dead on this host, settle what was lost, and return how many runs that were."""
        for held in self.leases.leases():
            if not held.lost and self.processes.fate(held.supervisor) is Fate.DEAD:
                self.leases.break_lease(held, why="holder dead")
        return sum(self._reap(run) for run in self.runs.lost_runs(self.batch_max))

    def _reap(self, run: RunRow) -> bool:
        """Settle one lost run; the store compares its fence again, so a run that moved on meanwhile is left alone."""
        started = self._was_started(run)
        settlement = settle(
            Lost(started=started),
            run_id=RunId(run.id),
            attempt=run.attempt,
            retry=retry_of(agent_from_json(run.manifest)),
            now=self.now(),
        )
        return self.runs.reap(run, settlement, Report(outcome="lost"))

    def _was_started(self, run: RunRow) -> bool:
        attempts = self.runs.attempts(run.id)
        return any(one.fence == run.fence and one.started_us is not None for one in attempts)


def store_now(clock_us: Callable[[], int]) -> Callable[[], datetime]:
    """Turn the store's clock into the time that decisions are made by."""
    return lambda: from_us(clock_us())
