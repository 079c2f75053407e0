"""What workers, doors and the reaper ask of a store about runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from fencepost.model.figures import SoFar
from fencepost.model.lease import Claim, Held, Lease
from fencepost.model.outcome import Settlement
from fencepost.model.process import Host
from fencepost.model.project import Workplace
from fencepost.model.run import Reason
from fencepost.ports.ticks import Counted


class RunRow(NamedTuple):
    """A run as the store keeps it."""

    id: str
    tenant: str
    agent: str
    schedule: str | None
    version: int | None
    trigger: str
    occurrence: str | None
    tick_us: int | None
    period_start_us: int | None
    period_end_us: int | None
    backfill_from_us: int | None
    last_success_us: int | None
    idempotency_key: str
    request_key: str | None
    origin: str | None
    manifest: str
    manifest_hash: str
    payload: str
    resources: str
    lease_max: int
    lines_up: bool
    priority: int
    state: str
    reason: str | None
    created_us: int
    waiting_us: int
    ready_us: int
    attempt: int
    resume: bool
    stop: str | None
    lease_id: str | None
    fence: int | None
    worker: str | None
    started_us: int | None
    ended_us: int | None
    exit_code: int | None
    reserved_micro: int
    counted_us: int
    cost_micro: int | None
    summary: str | None
    log: str | None
    discarded_us: int | None
    give_up_us: int | None
    rank: int
    place_us: int
    requests: int  # how often it was asked for with its key


class AttemptRow(NamedTuple):
    """One try at a run."""

    number: int
    fence: int
    worker: str
    started_us: int | None
    ended_us: int | None
    outcome: str | None
    exit_code: int | None
    last_log: str | None
    session: str | None = None  # the agent's own name of its conversation
    cost_micro: int | None = None
    turns: int | None = None
    usage: str | None = None  # JSON: llm_tokens by kind


class Completion(NamedTuple):
    """What was last heard of a run that is carried out elsewhere."""

    fence: int
    state: str  # running, succeeded or failed
    content: str
    beats: int


class Standing(NamedTuple):
    """What holds for a run's schedule when somebody is about to lease the run."""

    now_us: int
    definition: str | None  # None: the run belongs to no schedule
    in_force: bool
    paused: bool
    halted: bool
    once_done: bool = False
    spending: tuple[Counted, ...] = ()  # of the schedule's other runs, where there is a budget


class LeasedRun(NamedTuple):
    """A run in a worker's hands."""

    run: RunRow
    lease: Lease
    predecessors: tuple[Held, ...]
    checkpoint: str | None
    started: bool = False  # its start is on record already, with the lease
    session: str | None = None  # the conversation to go on with, when resuming
    so_far: SoFar = SoFar()  # what it came to in earlier attempts


class Report(NamedTuple):
    """What an attempt left behind, to be written down with its settlement."""

    outcome: str
    exit_code: int | None = None
    cost_micro: int | None = None
    summary: str | None = None
    log: str | None = None
    last_log: str | None = None
    session: str | None = None
    turns: int | None = None
    usage: str | None = None
    stalled: bool = False  # it stood still, whatever becomes of its run

    @property
    def answered(self) -> bool:
        """Tell whether the agent had what it waited for, so that nothing that it sent can still be under way."""
        return self.outcome == "succeeded"


class Offer(NamedTuple):
    """A ready run that a worker asks for, with all that its lease shall say: nothing is looked up meanwhile."""

    run_id: str
    claim: Claim


class Starting(NamedTuple):
    """A leased run whose agent is about to start."""

    lease: Lease
    run: RunRow
    session: str | None = None  # the agent's conversation, where it is known beforehand


class Adoptable(NamedTuple):
    """A run under way whose guard is on this host, with all that another worker needs to go on with it."""

    run: RunRow
    lease: Lease  # its gates are all that are owed; which of them earlier grants owe is not known any more
    held: Held  # with its adopt_key
    checkpoint: str | None = None
    session: str | None = None
    so_far: SoFar = SoFar()


class Ended(NamedTuple):
    """An attempt that is over."""

    leased: LeasedRun
    settlement: Settlement
    report: Report
    began: bool = True  # False: its start may be on record, but the agent was never called
    clean: bool = True  # nothing of it is left


class Wanted(NamedTuple):
    """What a lane asks for: up to so many runs under one lease, whose resources are all of theirs."""

    claim: Claim  # who asks; tenant and resources are those of the runs that are found
    limit: int
    starts: int  # how many of them may be put on record as started at once
    gates_of: Callable[[RunRow], tuple[str, ...]]
    recheck: Callable[[RunRow, Standing], Reason | None]
    again: bool = False  # the last answer was lost on the way: what it granted is ours


class Turned(NamedTuple):
    """The answer to a turn of a lane."""

    leased: tuple[LeasedRun, ...]
    lost: tuple[str, ...]  # runs of the ended attempts that were no longer ours; nothing was written about them


class LaneStore(Protocol):
    """The durable queue, many runs at a time."""

    def turn(self, ended: Sequence[Ended], closing: Sequence[Lease], wanted: Wanted | None) -> Turned:
        """Settle what has ended, end leases that have no run left, and lease the next runs, all in one transaction.

        A run whose fence or lease is not ours any more is left alone and named; the others are settled all the same.
        """
        ...

    def stops_asked(self, lease: Lease) -> dict[str, str]:
        """Return which running runs of a batch shall stop, and why."""
        ...

    def lane_ready(self, limit: int) -> int:
        """Return how many runs wait for a lane, up to a limit."""
        ...


class RunStore(Protocol):
    """The durable queue."""

    def lease_run(
        self,
        claim_of: Callable[[RunRow], Claim | None],
        recheck: Callable[[RunRow, Standing], Reason | None],
        *,
        places: Sequence[Workplace] = (),
    ) -> LeasedRun | None:
        """Lease the next run that may start, cancelling on the way those that may not any more; None: nothing to do.

        A worker that cannot carry a run out makes no claim for it, and is offered the next. Runs that work in a
        project are offered to those who can reach it, in their turn.
        """
        ...

    def next_runs(self, limit: int, *, passed: Collection[str] = (), places: Sequence[Workplace] = ()) -> list[RunRow]:
        """Return whose turn it is, writing and locking nothing: tenants in turn, then by priority and age.

        Runs that were passed are left out, and those that cannot start now: their schedule has no room, a resource of
        theirs is held, or their tenant is halted.
        """
        ...

    def lease_runs(
        self, offers: Sequence[Offer], recheck: Callable[[RunRow, Standing], Reason | None]
    ) -> list[LeasedRun]:
        """Lease each of these runs that may start, with a lease and a fence of its own, all in one transaction.

        A run that must not start any more is ended. One that another worker has, or whose resources are held or being
        looked at, is left out: nothing is waited for. Asking again after an unknown answer returns what was granted.
        """
        ...

    def start_runs(self, starting: Sequence[Starting]) -> dict[str, str]:
        """Record that these agents are about to start, in one transaction.

        Returns the runs that are no longer ours, each as `lost` or `moved`; nothing is written about them.
        """
        ...

    def settle_runs(self, ended: Sequence[Ended]) -> dict[str, str]:
        """Write down how attempts ended and give their leases back, in one transaction.

        Returns the runs about which nothing was written: `lost`, `moved`, or `failed: WHY` for one that the store
        refuses; the others are settled all the same. A lease whose time is up, and that is still held, is settled. Asking
        again after an unknown answer finds an attempt settled, by its fence and its outcome.
        """
        ...

    def leave_runs(self, leases: Sequence[Lease], *, leave_for_seconds: float) -> dict[str, str]:
        """Leave leases to their guards until another worker adopts them.

        Returns the runs that are no longer ours, each as `lost` or `moved`. The others run out after this time, never earlier than they would have, and then count as drained, not as lost.
        """
        ...

    def adoptable(self, here: Host, *, besides: str = "") -> list[Adoptable]:
        """Return the runs that workers keep, or have kept, whose guard lives on this host, boot and pid namespace.

        `besides` is a keeper whose own are not wanted.
        """
        ...

    def adopt(self, lease: Lease, *, keeper: str, adopt_key: str | None = None) -> Lease | None:
        """Take custody of a lease from the keeper of its epoch, and return it with the next one; None: too late.

        A new `adopt_key` replaces the one that its guard was shown last.
        """
        ...

    def adopt_runs(
        self, leases: Sequence[Lease], *, keeper: str, adopt_keys: Mapping[str, str] | None = None
    ) -> dict[str, Lease]:
        """Take custody of many, and return those that we have now, each with its next epoch, by its id.

        One that another transaction has locked is left out: look at it again later.
        """
        ...

    def stops_asked_of(self, keeper: str) -> dict[str, str]:
        """Return which of the runs that a worker keeps shall stop, and why."""
        ...

    def start_run(self, leased: LeasedRun, *, session: str | None = None) -> None:
        """Record that the agent is about to start, with its session if that is known, or raise LeaseLost."""
        ...

    def settle(self, lease: Lease, settlement: Settlement, report: Report, *, clean: bool) -> None:
        """Write down how an attempt ended and give its lease back, or raise LeaseLost and change nothing."""
        ...

    def lost_runs(self, limit: int) -> list[RunRow]:
        """Return the runs that are marked running while nobody holds their lease."""
        ...

    def was_left(self, run: RunRow) -> bool:
        """Tell whether the keeper of a lost run has left it on purpose: then it was drained."""
        ...

    def reap(self, run: RunRow, settlement: Settlement, report: Report, *, started: bool) -> bool:
        """Settle a lost run if it is still as lost, and as (un)started, as when it was looked at."""
        ...

    def give_up_waiting(self, limit: int) -> int:
        """End the runs that have waited too long for their first start; return how many."""
        ...

    def stop_asked(self, lease: Lease) -> str | None:
        """Return why a running run shall stop, if somebody asked; raise LeaseLost if it is not ours any more."""
        ...

    def checkpoint(self, run_id: str) -> str | None:
        """Return what the run's last attempt left for the next."""
        ...

    def put_checkpoint(self, lease: Lease, content: str) -> None:
        """Keep what a resumed run shall get back, or raise LeaseLost."""
        ...

    def note_session(self, lease: Lease, session: str) -> None:
        """Record which conversation the agent is in, so that it can be taken up again, or raise LeaseLost."""
        ...

    def completion(self, run_id: str) -> Completion | None:
        """Return what was last heard of a run that is carried out elsewhere; its end before anything else."""
        ...

    def next_ready_us(self) -> int | None:
        """Return when the next run becomes ready."""
        ...

    def run(self, run_id: str, *, tenant: str) -> RunRow | None:
        """Return one run."""
        ...

    def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Return the tries at a run."""
        ...
