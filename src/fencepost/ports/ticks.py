"""What the ticker asks of a store: due schedules in, decisions out, all in one transaction."""

from collections.abc import Callable, Mapping, Sequence

from fencepost.model.budget import Counted
from fencepost.model.fast_typing import NamedTuple, Protocol
from fencepost.model.new_run import NewRun
from fencepost.model.overlap import UnendedRun

Key = tuple[str, str]  # tenant, schedule


class DueSchedule(NamedTuple):
    """A schedule whose next look is due, as the registry has it."""

    tenant: str
    name: str
    version: int
    agent: str
    definition: str
    manifest: str
    hash: str
    cursor_us: int
    applied_us: int
    skip_next: str | None
    failures: int
    last_success_us: int | None
    last_run: str | None
    last_ended_us: int | None
    seen: str | None  # what the wall showed at the cursor, by which tzdata
    due_us: int | None = None  # when this look was to be

    @property
    def key(self) -> Key:
        """Tenant and name."""
        return (self.tenant, self.name)


class PauseRow(NamedTuple):
    """A stretch of time in which a schedule, or all of a tenant's, makes no runs."""

    since_us: int
    until_us: int
    note: str


class Around(NamedTuple):
    """What else the store knows when ticks are decided."""

    now_us: int
    live: Mapping[Key, Sequence[UnendedRun]]
    pauses: Mapping[Key, Sequence[PauseRow]]
    spending: Mapping[Key, Sequence[Counted]]


class NewTick(NamedTuple):
    """What became of a tick, or of a range of neighbours."""

    tenant: str
    schedule: str
    occurrence: str
    version: int
    slot: str
    slot_until: str
    tick_us: int
    tick_until_us: int
    count: int  # type: ignore[assignment]  # the word of the records; a row is not counted in
    disposition: str
    run_id: str | None
    into_us: int | None
    tzdata: str
    behind: str | None = None  # the runs that were in its way, as a JSON list


class TickPlan(NamedTuple):
    """Everything to write down about one schedule."""

    due: DueSchedule
    cursor_us: int
    due_us: int | None
    skip_next: str | None
    ticks: tuple[NewTick, ...]
    runs: tuple[NewRun, ...]
    displaces: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    seen: str | None = None
    trouble: str | None = None  # why nothing could be decided
    denied: tuple[str, ...] = ()  # which limits of the budget were in the way of ticks
    held: NewTick | None = None  # the tick of an `every` that waits for its budget, where that is news


class TickStore(Protocol):
    """Due schedules and their decisions."""

    def next_due_us(self) -> int | None:
        """Return when the ticker must look next, or None if no schedule has a tick to come."""
        ...

    def tick(
        self, limit: int, decide: Callable[[Sequence[DueSchedule], Around], Sequence[TickPlan]], *, tzdata: str = ""
    ) -> int:
        """Decide what is due and commit ticks, runs, cursors and audit rows together; return how many schedules.

        A `tzdata` that is newer than the last one has every schedule looked at again, some at a time and only while
        nothing is due: they are many, and none of them is in a hurry.
        """
        ...

    def coming(self, within_us: int, limit: int) -> Sequence[DueSchedule]:
        """Return schedules that are not due, and will be within so long, soonest first."""
        ...

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...
