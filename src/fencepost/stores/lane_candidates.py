"""Runs that a lane may be offered: each looked at for the last time before it starts."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from fencepost.ports.runs import LaneRequest, RunRow
from fencepost.stores.lane_facts import LaneStandings, Look
from fencepost.stores.run_rows import end_ready
from fencepost.stores.transaction import Transaction

if TYPE_CHECKING:
    from fencepost.model.lease import Held

Key = tuple[str, str]
Kind = tuple[str, str, str]


class LaneOffer:
    """A run that may start, what it wants, and what stands behind it."""

    __slots__ = ("alone", "gates", "has_row", "keys", "once", "predecessors", "run", "stored")

    def __init__(self, run: RunRow, gates: tuple[str, ...], *, once: bool) -> None:
        self.run = run
        self.keys = _keys(run)
        self.alone = self.keys == [(run.tenant, f"run:{run.id}")]
        self.gates = gates
        self.once = once
        self.stored = run.fence or 0  # the highest fence that any of its resources had
        self.has_row = not self.alone
        self.predecessors: tuple[Held, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether what it wants was never held: it wants only itself, and was never leased."""
        return self.alone and self.run.fence is None

    @property
    def granted_by_itself(self) -> bool:
        """Whether its own row says all that a resource's would.

        Only a run itself leases `run:` and its id, its row has the fence, and without gates there is nothing to owe.
        """
        return self.alone and not self.has_row and not self.gates


def _keys(run: RunRow) -> list[Key]:
    """Read what a run wants; most want only themselves, which is always spelled in the same way."""
    itself = f"run:{run.id}"
    if run.resources == f'[["{run.tenant}", "{itself}"]]':
        return [(run.tenant, itself)]
    return [(tenant, name) for tenant, name, *_ in json.loads(run.resources)]


def offers_among(
    tx: Transaction, runs: Sequence[RunRow], wanted: LaneRequest, ahead: LaneStandings | None = None
) -> Iterator[LaneOffer]:
    """Look at each for the last time before it starts, and end those that must not any more."""
    if not runs:
        return
    look = Look(tx, runs, ahead)
    may_go = _may_go(runs, wanted, look)
    gates_of = _remembering(wanted.gates_of)
    for run in runs:
        if run.schedule is None and not look.halted and _kind(run) in may_go:
            yield LaneOffer(run, gates_of(run), once=False)  # as nearly all of them
            continue
        if run.schedule is not None and look.is_busy(run):
            continue
        if look.halted or not look.has_room(run):
            continue
        reason = None if _kind(run) in may_go else wanted.recheck(run, look.standing(run))
        if reason is not None:
            end_ready(tx, run, reason, actor="leaser")
            continue
        look.taken[run.schedule] += 1
        yield LaneOffer(run, gates_of(run), once=look.is_once(run))


def _remembering(gates_of: Callable[[RunRow], tuple[str, ...]]) -> Callable[[RunRow], tuple[str, ...]]:
    """Ask once for each manifest: it alone says what the gates are."""
    known: dict[str, tuple[str, ...]] = {}

    def gates(run: RunRow) -> tuple[str, ...]:
        if run.manifest not in known:
            known[run.manifest] = gates_of(run)
        return known[run.manifest]

    return gates


def _kind(run: RunRow) -> Kind | None:
    """Return the kind of a run that never began and that no schedule made: runs of one kind are looked at together."""
    if run.schedule is not None or run.started_us is not None:
        return None
    return (run.agent, run.trigger, run.manifest)


def _may_go(runs: Sequence[RunRow], wanted: LaneRequest, look: Look) -> set[Kind]:
    """Return the kinds of runs that may start: the run that waited longest is checked for all of its kind."""
    longest = _longest(runs)
    return {kind for kind, run in longest.items() if wanted.recheck(run, look.standing(run)) is None}


def _longest(runs: Sequence[RunRow]) -> dict[Kind, RunRow]:
    longest: dict[Kind, RunRow] = {}
    for run in runs:
        kind = _kind(run)
        if kind is not None and (kind not in longest or run.waiting_us < longest[kind].waiting_us):
            longest[kind] = run
    return longest


def are_fine(tx: Transaction, runs: Sequence[RunRow], wanted: LaneRequest, ahead: LaneStandings) -> bool:
    """Tell whether all of these runs, which never began and no schedule made, may start without preparation."""
    look = Look(tx, runs, ahead)
    return not look.halted and not any(
        wanted.gates_of(run) or wanted.recheck(run, look.standing(run)) is not None for run in runs
    )
