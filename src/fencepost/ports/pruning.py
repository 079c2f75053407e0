"""What the pruner asks of a store: let go of old records, a page at a time, and remember what they came to."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fencepost.model.retention import Horizon

BEGINNING_US = -(1 << 62)


class Place(NamedTuple):
    """Where a pass through the records stands."""

    what: str = "leases"  # then runs, ticks, pauses, logs
    schedule: str = ""
    at_us: int = BEGINNING_US
    id: str = ""


class Page(NamedTuple):
    """How many records of one page have gone, and where the next page begins; None: that kind is done."""

    gone: int
    next: Place | None


class Watermark(NamedTuple):
    """Up to where records may be gone, and how long they are kept."""

    pruned_us: int
    tzdata: str
    kept_for_us: int
    at_us: int


class Tally(NamedTuple):
    """How many ticks of one disposition, or runs of one state, there ever were, and how many of those are pruned."""

    kind: str
    name: str
    number: int
    pruned: int


class OldLog(NamedTuple):
    """The log of an attempt that is no longer on record."""

    tenant: str
    run_id: str
    fence: int


class OldLogStore(Protocol):
    """What a worker asks in order to clean its own disk."""

    def old_logs(self, host: str, limit: int) -> list[OldLog]:
        """Return log files on a host whose attempts were pruned."""
        ...

    def forget_old_logs(self, host: str, logs: Sequence[OldLog]) -> None:
        """Note that a host has removed these."""
        ...


class Past(Protocol):
    """What is left of records that were pruned."""

    def watermark(self, tenant: str, schedule: str) -> Watermark | None:
        """Return up to where a schedule's records may be gone; with '' those of the tenant's runs."""
        ...

    def tallies(self, tenant: str, schedule: str) -> list[Tally]:
        """Return how many ticks and runs of a schedule there ever were, by what became of them."""
        ...


class PruneStore(Protocol):
    """A store that can let go of old records. With `dry`, each verb only counts."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...

    def prune_leases(self, horizon: Horizon, place: Place, limit: int, *, dry: bool = False) -> Page:
        """Let go of lost leases whose processes nobody has seen dead for so long that nobody will."""
        ...

    def prune_runs(self, horizon: Horizon, place: Place, limit: int, *, dry: bool = False) -> Page:
        """Look at a page of runs, oldest first, and let go of those that nothing rests on, with all that is theirs."""
        ...

    def prune_ticks(self, horizon: Horizon, place: Place, limit: int, *, dry: bool = False) -> Page:
        """Look at a page of ticks, schedule by schedule, and let go of those whose run is gone or never was."""
        ...

    def prune_pauses(self, horizon: Horizon, place: Place, limit: int, *, dry: bool = False) -> Page:
        """Let go of pauses that are over and that no undecided tick asks for."""
        ...

    def prune_logs(self, horizon: Horizon, place: Place, limit: int, *, dry: bool = False) -> Page:
        """Let go of log files whose worker has not been heard of since their attempts went."""
        ...
