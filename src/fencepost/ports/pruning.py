"""What the pruner and the mover ask of a store: let go of old records or make them narrow, a page at a time."""

from typing import NamedTuple

from fencepost.model.instants import FOREVER_US

BEGINNING_US = -(1 << 62)


class PrunePlace(NamedTuple):
    """Where a pass through the records stands."""

    what: str = "leases"  # then runs, ticks, pauses, logs
    schedule: str = ""
    at_us: int = BEGINNING_US
    id: str = ""


class PrunedPage(NamedTuple):
    """How many records of one page have gone, and where the next page begins; None: that kind is done."""

    gone: int
    next: PrunePlace | None


class PastPlace(NamedTuple):
    """Where a pass through the runs of all tenants stands."""

    tenant: str = ""  # of whom it has all but those behind the next two; '': before all tenants
    at_us: int = FOREVER_US
    id: str = ""


class MovedPage(NamedTuple):
    """How many runs of a page were moved, and where the next page begins; None: there is none any more."""

    moved: int
    next: PastPlace | None


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
