"""What holds now for the runs that a lane is about to get: their schedules, agents and pauses, read once for all."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fencepost.model.definition import schedule_from_json
from fencepost.ports.alike_runs import AlikeRuns
from fencepost.ports.runs import LeasedRun, RunRow, Standing
from fencepost.stores.run_rows import LockedSchedule, schedules_of
from fencepost.stores.run_standings import spending_beside
from fencepost.stores.transaction import Transaction

AGENTS_AHEAD = 5  # that are asked about before it is known whether they are next


class Hunch(NamedTuple):
    """A guess at the tenant and agents of the next turn: the same as in the last one."""

    tenant: str
    agents: tuple[str, ...]
    plain: bool  # they were new, wanted only themselves, and had nothing to do before their start

    @classmethod
    def of(cls, leased: Sequence[LeasedRun]) -> "Hunch":
        """Expect more of what was leased last."""
        if isinstance(leased, AlikeRuns):
            return cls(leased.lease.tenant, tuple(leased.agents[:AGENTS_AHEAD]), len(leased.agents) <= AGENTS_AHEAD)
        agents = sorted({one.run.agent for one in leased if one.run.schedule is None})
        plain = len(agents) <= AGENTS_AHEAD and all(
            one.started and one.run.attempt == 1 and one.run.schedule is None for one in leased
        )
        return cls(leased[0].run.tenant, tuple(agents[:AGENTS_AHEAD]), plain)


class LaneStandings:
    """What holds for a tenant's agents and schedules now; asked for at once, and read when it is needed."""

    def __init__(
        self, tx: Transaction, tenant: str, agents: Collection[str], schedules: Sequence[str] = (), since_us: int = 0
    ) -> None:
        self.tenant = tenant
        self.asked = frozenset(agents)
        self._agents = {name: tx.later("agent_in_force", tenant=tenant, agent=name) for name in agents}
        self._now = tx.later("clock")
        keys = json.dumps([(tenant, name) for name in schedules] or [(tenant, "")])
        self._pauses = tx.later("pauses_since", schedules=keys, since_us=since_us)

    def covers(self, runs: Sequence[RunRow]) -> bool:
        """Tell whether this is all there is to know about these runs."""
        return all(run.schedule is None and run.tenant == self.tenant and run.agent in self.asked for run in runs)

    def read(self) -> tuple[int, set[str], set[str]]:
        """Return the time, the agents in force, and what is paused."""
        now_us = int(self._now()[0][0])
        agents = {name for name, rows in self._agents.items() if rows()}
        return now_us, agents, {row[1] for row in self._pauses() if row[2] <= now_us < row[3]}


class Look:
    """What holds now for the runs of one line, read once for all of them."""

    def __init__(self, tx: Transaction, runs: Sequence[RunRow], ahead: LaneStandings | None = None) -> None:
        self._tx = tx
        self._tenant = runs[0].tenant
        self.taken: Counter[str | None] = Counter()
        names = sorted({run.schedule for run in runs if run.schedule is not None})
        self._schedules: dict[str, LockedSchedule] = {}
        self._known: set[str] = set()
        self._running: dict[str, int] = {}
        if names:
            ids = json.dumps([run.id for run in runs if run.schedule is not None])
            found = schedules_of(tx.rows("try_schedules_of", ids=ids))
            self._schedules = {name: schedule for (_, name), schedule in found.items()}
            self._known = {row[1] for row in tx.rows("definitions_of", ids=ids)}
            self._running = {row[1]: row[2] for row in tx.rows("running_beside", ids=ids)}
        if ahead is None or not ahead.covers(runs):
            alone = {run.agent for run in runs if run.schedule is None}
            ahead = LaneStandings(tx, self._tenant, alone, names, min(run.ready_us for run in runs))
        self.now_us, self._agents, self._paused = ahead.read()

    def is_busy(self, run: RunRow) -> bool:
        """Tell whether another run has the schedule at the moment."""
        return run.schedule in self._known and run.schedule not in self._schedules

    @property
    def halted(self) -> bool:
        """Whether nothing may start at all."""
        return "" in self._paused

    def is_once(self, run: RunRow) -> bool:
        """Tell whether the run's schedule is to be retired at its start."""
        schedule = self._schedule(run)
        return schedule is not None and schedule_from_json(schedule.definition).once

    def has_room(self, run: RunRow) -> bool:
        """Tell whether one more run of its schedule may run, beside those of this batch."""
        if run.schedule is None:
            return True
        return self._running.get(run.schedule, 0) + self.taken[run.schedule] < run.lease_max

    def standing(self, run: RunRow) -> Standing:
        """Return what the last check before the start wants to know."""
        schedule = self._schedule(run)
        return Standing(
            now_us=self.now_us,
            definition=schedule.definition if schedule else None,
            in_force=schedule.in_force if schedule else run.schedule is None and run.agent in self._agents,
            paused=run.schedule is not None and run.schedule in self._paused,
            halted=self.halted,
            once_done=schedule.once_done if schedule else False,
            spending=spending_beside(self._tx, run, schedule, self.now_us),
        )

    def _schedule(self, run: RunRow) -> LockedSchedule | None:
        return self._schedules.get(run.schedule) if run.schedule is not None else None
