"""What doors ask of a store when a run is wanted: facts in, a decision out, all in one transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.model.budget import Counted
from fencepost.model.new_run import NewRun, RunTarget
from fencepost.model.overlap import UnendedRun
from fencepost.ports.runs import RunRow

BATCH_MAX = 10_000  # so many runs may be asked for at once


class Ask(NamedTuple):
    """Who wants what: a schedule or an agent by name, or with `origin` what a run was made of."""

    tenant: str
    target: str
    by: str
    key: str | None = None
    tick_us: int | None = None
    origin: str | None = None


class VersionFact(NamedTuple):
    """A version that decided the ticks in (after_us, until_us]."""

    version: int
    definition: str
    manifest: str
    manifest_hash: str
    after_us: int
    until_us: int | None


class TickFact(NamedTuple):
    """A recorded tick, or the range that it is in."""

    occurrence: str
    version: int
    tick_us: int
    disposition: str
    run_id: str | None


class Grounds(NamedTuple):
    """What the store knows when a request is decided."""

    now_us: int
    target: RunTarget
    live: tuple[UnendedRun, ...]  # of the schedule, oldest first
    spending: tuple[Counted, ...]
    versions: tuple[VersionFact, ...] = ()  # oldest first, if a tick or a range was asked for
    recorded: TickFact | None = None  # of the tick that was asked for
    of_tick: tuple[RunRow, ...] = ()  # the runs made for it, oldest first
    origin: RunRow | None = None
    replays: tuple[RunRow, ...] = ()  # made of the origin before, oldest first
    waiting: int = 0  # of an agent: its runs without a schedule that have not begun, up to one more than may
    pruned_us: int | None = None  # records up to this instant may be gone, if a tick or a range was asked for


class Placement(NamedTuple):
    """What to do: make a run, or point to an earlier one."""

    run: NewRun | RunRow
    displaces: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()


class RequestedRun(NamedTuple):
    """The run that answers a request, and whether it was made for it."""

    run: RunRow
    is_new: bool


class BatchPart(NamedTuple):
    """What differs between runs of a batch, in their order; the keys are empty where no run of the part has one."""

    ids: Sequence[str]
    payloads: Sequence[str]
    idempotency_keys: Sequence[str] = ()
    request_keys: Sequence[str | None] = ()


class NewBatch(NamedTuple):
    """What the runs of a batch have in common, each of which leases only itself; how many wait already, and how many may."""

    like: NewRun
    waiting: int
    line_max: int


class TriggeredRun(NamedTuple):
    """The run that answers one request of a batch. `earlier`: its key had made it before."""

    id: str
    earlier: bool


class WaitingLine(NamedTuple):
    """The runs of an agent that were asked for and wait: how many, up to one more than may, and how many may."""

    waiting: int
    line_max: int

    @property
    def room(self) -> int:
        """How many more may wait."""
        return max(0, self.line_max - self.waiting)
