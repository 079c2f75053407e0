"""Runs that a lane takes in one go, and their ends: what they have in common is kept once.

Most of a lane's runs are never looked at one by one. So they stay as the store's rows have them, and each is spelled
out when it is asked for.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import overload

from fencepost.model.lease import Lease
from fencepost.model.outcome import Settlement
from fencepost.model.run import RunState
from fencepost.ports.runs import Ended, LeasedRun, Report, RunRow

Row = tuple[object, ...]
Spell = Callable[[Row], LeasedRun]
# What is known of such a run without asking: it is of no schedule, and in its first attempt.
KNOWN: dict[str, object] = {
    **dict.fromkeys(("schedule", "version", "occurrence", "tick_us", "period_start_us", "period_end_us")),
    **dict.fromkeys(("backfill_from_us", "last_success_us", "reason", "stop", "started_us", "ended_us", "exit_code")),
    **dict.fromkeys(("cost_micro", "summary", "log", "discarded_us")),
    "state": RunState.RUNNING.value,
    "attempt": 1,
    "lines_up": False,
    "resume": False,
}
SHARED = ("manifest", "resources", "lease_id", "fence", "worker")  # follow from the lease and the hash
TAKEN = tuple(name for name in RunRow._fields if name not in KNOWN and name not in SHARED)  # the places of a row
_ID, _AGENT, _TRIGGER, _KEY, _HASH, _PAYLOAD = map(
    TAKEN.index, ("id", "agent", "trigger", "idempotency_key", "manifest_hash", "payload")
)
kind_of = itemgetter(_AGENT, _TRIGGER, _HASH)
_id_of: Callable[[Row], str] = itemgetter(_ID)
_agent_of: Callable[[Row], str] = itemgetter(_AGENT)
_hash_of: Callable[[Row], str] = itemgetter(_HASH)


class AlikeRuns(Sequence[LeasedRun]):
    """Runs under one lease in their first attempt: of no schedule, without gates, and their start is on record."""

    __slots__ = ("_rows", "_spell", "lease")

    def __init__(self, lease: Lease, rows: list[Row], spell: Spell) -> None:
        """Keep rows that `spell` turns into runs; the lease is the one of all of them."""
        self.lease = lease
        self._rows, self._spell = rows, spell

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> LeasedRun: ...

    @overload
    def __getitem__(self, place: slice) -> "AlikeRuns": ...

    def __getitem__(self, place: int | slice) -> "LeasedRun | AlikeRuns":
        """Return one, spelled out, or several of them."""
        if isinstance(place, slice):
            return AlikeRuns(self.lease, self._rows[place], self._spell)
        return self._spell(self._rows[place])

    @property
    def ids(self) -> list[str]:
        """The runs' names."""
        return list(map(_id_of, self._rows))

    @property
    def agents(self) -> list[str]:
        """The agents that these are runs of."""
        return sorted(set(map(_agent_of, self._rows)))

    def by_manifest(self) -> dict[str, list[str]]:
        """Return the runs' names by the hash of their manifest."""
        if len(hashes := set(map(_hash_of, self._rows))) == 1:
            return {hashes.pop(): self.ids}
        found: dict[str, list[str]] = defaultdict(list)
        for row in self._rows:
            found[_hash_of(row)].append(_id_of(row))
        return found

    def kinds(self) -> Iterable[tuple[LeasedRun, list[list[object]]]]:
        """Yield runs of one kind together: the first, and for each the payload and what else is its own."""
        for _, rows in groupby(self._rows, kind_of):
            alike = list(rows)
            own = [[row[_PAYLOAD], row[_ID], row[_KEY], "1", f"run:{row[_ID]}"] for row in alike]
            yield self._spell(alike[0]), own

    def joined(self, others: "AlikeRuns") -> "AlikeRuns":
        """Return these and the others, which are of the same lease."""
        return AlikeRuns(self.lease, self._rows + others._rows, self._spell)  # noqa: SLF001  # of our own kind


class AlikeEnds(Sequence[Ended]):
    """The ends of alike runs, all in the same way and with nothing to report."""

    __slots__ = ("report", "runs", "settlement")

    def __init__(self, runs: AlikeRuns, settlement: Settlement, report: Report) -> None:
        """Say the same of all of these runs."""
        self.runs, self.settlement, self.report = runs, settlement, report

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.runs)

    @overload
    def __getitem__(self, place: int) -> Ended: ...

    @overload
    def __getitem__(self, place: slice) -> "AlikeEnds": ...

    def __getitem__(self, place: int | slice) -> "Ended | AlikeEnds":
        """Return one end, spelled out, or several of them."""
        if isinstance(place, slice):
            return AlikeEnds(self.runs[place], self.settlement, self.report)
        return Ended(self.runs[place], self.settlement, self.report)


def leases_of(runs: Sequence[LeasedRun]) -> dict[str, Lease]:
    """Return the leases of these runs by their ids; of several runs with one lease, that of the last."""
    if isinstance(runs, AlikeRuns):
        return {runs.lease.id: runs.lease} if runs else {}
    return {one.lease.id: one.lease for one in runs}


def joined(done: Sequence[Ended], more: Sequence[Ended]) -> Sequence[Ended]:
    """Return what ended before and what ended now; ends that are alike stay together. A list is added to in place."""
    if not done:
        return more
    if isinstance(done, AlikeEnds) and isinstance(more, AlikeEnds) and _are_one(done, more):
        return AlikeEnds(done.runs.joined(more.runs), done.settlement, done.report)
    if not isinstance(done, list):
        done = list(done)
    done.extend(more)
    return done


def _are_one(first: AlikeEnds, second: AlikeEnds) -> bool:
    return (first.runs.lease.id, first.settlement, first.report) == (
        second.runs.lease.id,
        second.settlement,
        second.report,
    )
