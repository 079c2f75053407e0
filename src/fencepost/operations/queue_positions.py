"""Where runs and commands that wait stand: how many are before each, and who is in its way."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.model.lease import Held, Turn, Waiter, key_of, keys_of, slots_of
from fencepost.model.project import MANUAL, Working, Workplace
from fencepost.model.run import Reason, RunState
from fencepost.operations.phrases import ago, rfc3339, span
from fencepost.ports.runs import RunRow

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Behind:
    """Who is in the way of a waiting run."""

    run_id: str | None  # None: another tenant's, which is not shown here
    what: str  # its agent, or the command that exec guards
    since_us: int

    def words(self, now_us: int) -> str:
        """Name it, with how long it has been there."""
        return f"{self.run_id or ''} ({self.what}, {span(now_us - self.since_us)})".lstrip()


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a waiting run stands, and what it waits for."""

    position: int
    behind: Behind | None = None
    not_before_us: int | None = None
    halted: bool = False
    gate_closed: bool = False

    def words(self, now_us: int) -> str:
        """Say it in the words that people know from `exec --wait`."""
        return f"queued · position {self.position} · {self.waits_for(now_us)}"

    def waits_for(self, now_us: int) -> str:
        """Say what has to happen first."""
        if self.behind is not None:
            return f"behind {self.behind.words(now_us)}"
        if self.halted:
            return "everything is halted; see: fencepost unhalt"
        if self.not_before_us is not None:
            again = f"{rfc3339(self.not_before_us)} ({ago(self.not_before_us, now_us)})"
            return f"a gate could not be raised, tried again {again}" if self.gate_closed else f"not before {again}"
        return "waits for a worker"


class QueuePositions(NamedTuple):
    """Who stands where: runs and the commands of people, by the ids of their runs; and how long each line is."""

    places: dict[str, QueuePosition]
    depths: dict[str, int]  # by project


def line_up(
    live: Iterable[RunRow],
    held: Iterable[Held],
    *,
    tenant: str,
    now_us: int,
    halted: bool = False,
    waiters: Iterable[Waiter] = (),
    workplaces: Iterable[Working] = (),
) -> QueuePositions:
    """Say of each that waits where it stands; `live` is in the order in which runs are leased."""
    runs = list(live)
    queue = _Queue(runs, held, tenant=tenant, waiters=waiters, workplaces=workplaces)
    found = {}
    for run in runs:
        if run.state != RunState.READY:
            continue
        position, behind = queue.join(run)
        not_before_us = run.ready_us if run.ready_us > now_us else None
        found[run.id] = QueuePosition(position, behind, not_before_us, halted, run.reason == Reason.GATE_UNREACHABLE)
    return QueuePositions(found | queue.commands(), queue.depths())


def keys_in(run: RunRow) -> list[Key]:
    """Return what a run leases, as the store keeps it."""
    return sorted((tenant, name) for tenant, name, *_ in json.loads(run.resources))


def resources_in(run: RunRow) -> str:
    """Return what a run leases, in the form of FENCEPOST_RESOURCE."""
    return " ".join(name for _, name in keys_in(run))


def _project(run: RunRow) -> str:
    return json.loads(run.manifest).get("project") or ""


class _Standing(NamedTuple):
    """A run or a command in a line."""

    id: str
    what: str
    since_us: int
    tenant: str


class _Queue:
    """One line for each resource; a run stands in the lines of all that it wants."""

    def __init__(
        self,
        runs: list[RunRow],
        held: Iterable[Held],
        *,
        tenant: str,
        waiters: Iterable[Waiter],
        workplaces: Iterable[Working],
    ) -> None:
        self._tenant = tenant
        self._agents = {run.id: run.agent for run in runs}
        self._holders: Mapping[Key, Held] = {
            key: one for one in held if not one.lost and not one.expired for key in keys_of(one.tenant, one.resources)
        }
        self._waiters = sorted((one for one in waiters if not one.stale), key=lambda one: one.turn, reverse=True)
        self._places: dict[Key, list[Workplace]] = defaultdict(list)
        for working in workplaces:
            if not working.stale:
                self._places[working.place.tenant, working.place.project].append(working.place)
        self._lines: dict[Key, list[_Standing]] = defaultdict(list)
        self._commands: dict[str, QueuePosition] = {}
        self._unreached: Counter[str] = Counter()
        self._running: dict[str | None, list[RunRow]] = defaultdict(list)
        for run in runs:
            if run.state == RunState.RUNNING:
                self._running[run.schedule].append(run)

    def join(self, run: RunRow) -> tuple[int, Behind | None]:
        """Put a run at the end of its lines; return its position and who is in the way."""
        self._let_waiters_join(Turn(run.rank, run.place_us, run.id))
        grounds = self._grounds(run)
        keys = [*keys_in(run), *(key_of(run.tenant, place.resource) for place in grounds)]
        before = [self._lines[key] for key in keys if self._lines[key]]
        # Most runs stand in one line only; counting them without a set keeps a long line from costing its square.
        position = 1 + (len(before[0]) if len(before) == 1 else len({one.id for line in before for one in line}))
        position = max(
            position, self._unreached[_project(run)]
        )  # no worker is there to say in which directory they meet
        first = before[0][0] if before else None
        behind = self._behind(run, grounds, first)
        for key in keys:
            self._lines[key].append(_Standing(run.id, run.agent, run.waiting_us, run.tenant))
        return position, behind

    def commands(self) -> dict[str, QueuePosition]:
        """Return where those stand who wait in a terminal, also behind every run."""
        while self._waiters:
            self._let_in(self._waiters.pop())
        return self._commands

    def depths(self) -> dict[str, int]:
        """Return how many wait in each project; where no worker is there to say which directory it is, the runs."""
        found = dict(self._unreached)
        for (tenant, project), grounds in self._places.items():
            if tenant == self._tenant:
                lines = [self._lines[key_of(tenant, place.resource)] for place in grounds]
                found[project] = len({one.id for line in lines for one in line})
        return found

    def _let_waiters_join(self, turn: Turn) -> None:
        """Put those who wait in a terminal, and came before, into their lines."""
        while self._waiters and self._waiters[-1].turn < turn:
            self._let_in(self._waiters.pop())

    def _let_in(self, waiter: Waiter) -> None:
        keys = keys_of(waiter.tenant, waiter.resources)
        before = [one for key in keys for one in self._lines[key]]
        holder = next((self._holders[key] for key in keys if key in self._holders), None)
        behind = self._holder(holder) if holder else self._stands(before[0]) if before else None
        self._commands[waiter.run_id] = QueuePosition(len({one.id for one in before}) + 1, behind)
        for key in keys:
            self._lines[key].append(_Standing(waiter.run_id, waiter.label, waiter.since_us, waiter.tenant))

    def _grounds(self, run: RunRow) -> list[Workplace]:
        """Return the directories in which a run may have to wait its turn."""
        project = _project(run)
        found = self._places.get((run.tenant, project), ()) if project else ()
        if project and not found:
            self._unreached[project] += 1
        shared = [place for place in found if not (place.isolated and run.trigger != MANUAL)]
        return list({place.resource: place for place in shared}.values())

    def _behind(self, run: RunRow, grounds: list[Workplace], first: _Standing | None) -> Behind | None:
        holder = next((self._holders[key] for key in keys_in(run) if key in self._holders), None)
        holder = holder or self._in_the_project(grounds)
        if holder is not None:
            return self._holder(holder)
        crowd = self._running[run.schedule] if run.schedule is not None else []
        if crowd and len(crowd) >= run.lease_max:
            return Behind(crowd[0].id, crowd[0].agent, crowd[0].started_us or crowd[0].waiting_us)
        return self._stands(first) if first else None

    def _in_the_project(self, grounds: list[Workplace]) -> Held | None:
        """Return who has been longest in a project that is full, if there is no other to work in."""
        longest = None
        for place in grounds:
            names = slots_of(place.resource, place.slots)
            inside = [self._holders[key] for key in keys_of(place.tenant, names) if key in self._holders]
            if len(inside) < place.slots:
                return None
            longest = longest or min(inside, key=lambda one: one.granted_us)
        return longest

    def _stands(self, first: _Standing) -> Behind:
        if first.tenant != self._tenant:
            return Behind(None, "another tenant's run", first.since_us)
        return Behind(first.id, first.what, first.since_us)

    def _holder(self, held: Held) -> Behind:
        since_us = held.started_us or held.granted_us
        if held.tenant != self._tenant:
            return Behind(None, "another tenant's run", since_us)
        return Behind(held.run_id, self._agents.get(held.run_id) or held.label or "exec", since_us)
