"""Where waiting runs stand: how many are before each, and who is in its way."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.model.lease import Held, keys_of
from fencepost.model.run import RunState
from fencepost.operations.words import ago, rfc3339, span
from fencepost.ports.runs import RunRow

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Behind:
    """Who is in the way of a waiting run."""

    run_id: str | None  # None: another tenant's, which is nobody's business here
    what: str  # its agent, or the command that exec guards
    since_us: int

    def words(self, now_us: int) -> str:
        """Name it, with how long it has been there."""
        return f"{self.run_id or ''} ({self.what}, {span(now_us - self.since_us)})".lstrip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiting run stands, and what it waits for."""

    position: int
    behind: Behind | None = None
    not_before_us: int | None = None
    halted: bool = False

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
            return f"not before {rfc3339(self.not_before_us)} ({ago(self.not_before_us, now_us)})"
        return "waits for a worker"


def places(
    live: Iterable[RunRow], held: Iterable[Held], *, tenant: str, now_us: int, halted: bool = False
) -> dict[str, Place]:
    """Say of each waiting run where it stands; `live` is in the order in which runs are leased."""
    runs = list(live)
    queue = _Queue(runs, held, tenant=tenant)
    found = {}
    for run in runs:
        if run.state != RunState.READY:
            continue
        position, behind = queue.join(run)
        found[run.id] = Place(position, behind, run.ready_us if run.ready_us > now_us else None, halted)
    return found


def keys_in(run: RunRow) -> list[Key]:
    """Return what a run leases, as the store keeps it."""
    return sorted((tenant, name) for tenant, name in json.loads(run.resources))


def resources_in(run: RunRow) -> str:
    """Return what a run leases, in the form of FENCEPOST_RESOURCE."""
    return " ".join(name for _, name in keys_in(run))


class _Queue:
    """One line for each resource; a run stands in the lines of all that it wants."""

    def __init__(self, runs: list[RunRow], held: Iterable[Held], *, tenant: str) -> None:
        self._tenant = tenant
        self._agents = {run.id: run.agent for run in runs}
        self._holders: Mapping[Key, Held] = {
            key: one for one in held if not one.lost and not one.expired for key in keys_of(one.tenant, one.resources)
        }
        self._lines: dict[Key, list[RunRow]] = defaultdict(list)
        self._running: dict[str | None, list[RunRow]] = defaultdict(list)
        for run in runs:
            if run.state == RunState.RUNNING:
                self._running[run.schedule].append(run)

    def join(self, run: RunRow) -> tuple[int, Behind | None]:
        """Put a run at the end of its lines; return its position and who is in the way."""
        keys = keys_in(run)
        before = [self._lines[key] for key in keys if self._lines[key]]
        # Most runs stand in one line only; counting them without a set keeps a long line from costing its square.
        position = 1 + (len(before[0]) if len(before) == 1 else len({one.id for line in before for one in line}))
        first = before[0][0] if before else None
        behind = self._behind(run, keys, first)
        for key in keys:
            self._lines[key].append(run)
        return position, behind

    def _behind(self, run: RunRow, keys: list[Key], first: RunRow | None) -> Behind | None:
        holder = next((self._holders[key] for key in keys if key in self._holders), None)
        if holder is not None:
            return self._holder(holder)
        crowd = self._running[run.schedule] if run.schedule is not None and run.lease_max > 1 else []
        if crowd and len(crowd) >= run.lease_max:
            return Behind(crowd[0].id, crowd[0].agent, crowd[0].started_us or crowd[0].waiting_us)
        return Behind(first.id, first.agent, first.waiting_us) if first else None

    def _holder(self, held: Held) -> Behind:
        since_us = held.started_us or held.granted_us
        if held.tenant != self._tenant:
            return Behind(None, "another tenant's run", since_us)
        return Behind(held.run_id, self._agents.get(held.run_id) or held.label or "exec", since_us)
