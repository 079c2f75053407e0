"""What holds now for runs that a worker is about to lease: their schedules, agents, pauses and room, read once for all."""

import json
from collections.abc import Sequence

from fencepost.model.budget import Counted
from fencepost.ports.runs import RunRow, Standing
from fencepost.stores.run_rows import LockedSchedule, run_of, schedules_of
from fencepost.stores.ticks import MONTH_US, has_budget, has_time_budget
from fencepost.stores.transaction import Transaction

Key = tuple[str, str]


class Standings:
    """Ready runs, locked after their schedules, and what the last check before their start wants to know."""

    def __init__(self, tx: Transaction, ids: Sequence[str], *, patient: bool = False) -> None:
        """Lock what no other transaction has locked; a patient caller waits for a schedule that another one has."""
        text = json.dumps(sorted(ids))
        schedules = tx.later("lock_schedules_of" if patient else "try_schedules_of", ids=text)
        known = tx.later("definitions_of", ids=text)
        runs = tx.later("try_runs", ids=text)
        agents = tx.later("agents_of", ids=text)
        running = tx.later("running_beside", ids=text)
        now = tx.later("clock")
        self._tx = tx
        self.runs = {run.id: run for run in map(run_of, runs())}
        self._schedules = schedules_of(schedules())
        self._known = {(row[0], row[1]) for row in known()}
        self._agents = {row[0] for row in agents()}
        self._running: dict[Key, int] = {(row[0], row[1]): row[2] for row in running()}
        self.now_us = int(now()[0][0])
        keys = sorted({(run.tenant, run.schedule or "") for run in self.runs.values()})
        pauses = tx.rows("pauses_since", schedules=json.dumps(keys), since_us=self.now_us) if keys else []
        self._paused = {(row[0], row[1]) for row in pauses if row[2] <= self.now_us}

    def is_busy(self, run: RunRow) -> bool:
        """Tell whether another transaction has the run's schedule at the moment."""
        return _key(run) in self._known and _key(run) not in self._schedules

    def has_room(self, run: RunRow) -> bool:
        """Tell whether one more run of its schedule may run; what lines up, or comes back after a loss, counts too."""
        return run.schedule is None or self._running.get(_key(run), 0) < run.lease_max

    def take_room(self, run: RunRow) -> None:
        """Count a run that is leased now."""
        self._running[_key(run)] = self._running.get(_key(run), 0) + 1

    def of(self, run: RunRow) -> Standing:
        """Return what holds for one of them."""
        schedule = self._schedules.get(_key(run))
        return Standing(
            now_us=self.now_us,
            definition=schedule.definition if schedule else None,
            in_force=schedule.in_force if schedule else run.id in self._agents,
            paused=run.schedule is not None and _key(run) in self._paused,
            halted=(run.tenant, "") in self._paused,
            once_done=schedule.once_done if schedule else False,
            spending=spending_beside(self._tx, run, schedule, self.now_us),
        )


def _key(run: RunRow) -> Key:
    return run.tenant, run.schedule or ""


def spending_beside(tx: Transaction, run: RunRow, schedule: LockedSchedule | None, now_us: int) -> tuple[Counted, ...]:
    """Return what counts against a budget beside this run; nothing where there is no budget."""
    if schedule is None or not has_budget(schedule.definition, run.manifest):
        return ()
    rows = tx.rows(
        "spending_beside",
        tenant=run.tenant,
        schedule=run.schedule,
        since_us=min(now_us, run.counted_us) - MONTH_US,
        id=run.id,
        counted_us=run.counted_us,
        timed=has_time_budget(schedule.definition),
    )
    return tuple(Counted(*row) for row in rows)
