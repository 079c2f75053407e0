"""What workers, doors and the reaper ask of a store about runs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fencepost.model.budget import Counted
from fencepost.model.lease import Claim, Held, Lease
from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason
from fencepost.model.usage_figures import SoFar


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
    """What holds for a run's schedule when a worker is about to lease the run."""

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

    @property
    def run(self) -> RunRow:
        """The run that it was an attempt at."""
        return self.leased.run

    @property
    def lease_id(self) -> str:
        """The lease under which it ran."""
        return self.leased.lease.id

    @property
    def fence(self) -> int:
        """The fence of its lease."""
        return self.leased.lease.fence


class LaneRequest(NamedTuple):
    """What a lane asks for: up to so many runs under one lease, whose resources are all of theirs."""

    claim: Claim  # who asks; tenant and resources are those of the runs that are found
    limit: int
    starts: int  # how many of them may be put on record as started at once
    gates_of: Callable[[RunRow], tuple[str, ...]]
    recheck: Callable[[RunRow, Standing], Reason | None]
    again: bool = False  # the last answer was lost on the way: what it granted is ours


class Turned(NamedTuple):
    """The answer to a turn of a lane."""

    leased: Sequence[LeasedRun]
    lost: tuple[str, ...]  # runs of the ended attempts that were no longer ours; nothing was written about them
