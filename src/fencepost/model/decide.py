"""What becomes of the ticks that a schedule owes: missed, overlap and budget in one decision.

The ticker reads the facts, calls this, and commits what it returns, cursor included, in one transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from fencepost.model.budget import BudgetDenied, BudgetPolicy, Reservation, Spend, after, reserve
from fencepost.model.disposition import DispositionKind, Hold, Span
from fencepost.model.missed import Due, MissedPolicy, Passed, TickSource, plan
from fencepost.model.overlap import (
    Admitted,
    LiveStanding,
    OverlapPolicy,
    Request,
    SkippedTick,
    TurnedAway,
    UnendedRun,
    admit,
)
from fencepost.model.pause import SkipNext, skip, skipped
from fencepost.model.run import RunId, TriggerKind

BEHIND_MAX = 4  # so many runs in the way are recorded with a tick


def planned_id(tick: datetime) -> RunId:
    """Name the run of a tick that is decided at this very moment, and has no id yet."""
    return RunId(f"tick:{tick.isoformat()}")


@dataclass(frozen=True, slots=True)
class Policies:
    """What a schedule's owner has said about its ticks."""

    missed: MissedPolicy = field(default_factory=MissedPolicy)
    overlap: OverlapPolicy = field(default_factory=OverlapPolicy)
    budget: BudgetPolicy = field(default_factory=BudgetPolicy)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows about a schedule when its ticks are decided."""

    schedule: str
    trigger: TriggerKind
    cursor: datetime
    live: tuple[UnendedRun, ...] = ()  # oldest first
    spend: Spend = field(default_factory=Spend)
    holds: tuple[Hold, ...] = ()  # pauses since the cursor, blackouts since the later of cursor and catch-up horizon
    skip_next: SkipNext | None = None
    last_success: datetime | None = None  # the tick of the last success, not when it ended


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to be made for a tick."""

    tick: datetime
    ready_at: datetime  # before the schedule's jitter
    period_start: datetime
    backfill_from: datetime | None
    late: bool
    lines_up: bool
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Disposition:
    """What became of one tick or of a range of neighbours; `run` for exactly one tick."""

    slot: datetime
    slot_until: datetime
    count: int
    kind: DispositionKind
    run: PlannedRun | None = None
    into: datetime | None = None  # coalesced: the tick whose run covers these
    behind: tuple[RunId, ...] = ()  # overlap: the runs that were in the way, oldest first


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything to write down, in one transaction."""

    dispositions: tuple[Disposition, ...]  # oldest first, disjoint
    cursor: datetime
    displaces: tuple[RunId, ...] = ()  # cancel with reason `overlap`
    stops: tuple[RunId, ...] = ()  # ask to stop, with reason `overlap`
    skip_next: SkipNext | None = None
    waits: DispositionKind | None = None  # `every` only: due, and this is in its way
    denied: tuple[str, ...] = ()  # which limits of the budget were in the way, in sentences


def decide(source: TickSource, facts: Facts, policies: Policies, *, now: datetime) -> Decision:
    """Give every tick in (cursor, now] exactly one disposition."""
    skips = skip(source, facts.skip_next, cursor=facts.cursor, now=now) if facts.skip_next else []
    planned = plan(
        source,
        cursor=facts.cursor,
        now=now,
        policy=policies.missed,
        holds=(*facts.holds, *skips),
        last_success=facts.last_success,
        backlog=sum(run.lines_up and run.trigger.tick_born for run in facts.live),
        schedule=facts.schedule,
    )
    desk = _Desk(facts, policies)
    passed = [_disposition(item.span, item.kind) for item in planned.items if isinstance(item, Passed)]
    for item in planned.items:
        if isinstance(item, Due):
            desk.decide(item)
    return Decision(
        dispositions=_joined([*passed, *desk.runs(), *desk.refusals()]),
        cursor=planned.cursor,
        displaces=tuple(desk.displaced),
        stops=tuple(desk.stopped),
        skip_next=facts.skip_next and skipped(facts.skip_next, skips, cursor=planned.cursor),
        denied=tuple(desk.denied),
    )


def decide_every(facts: Facts, policies: Policies, *, due_at: datetime, now: datetime) -> Decision:
    """Decide the one tick that an `every` trigger owes; the cursor is its predecessor's tick.

    Late is not missed. And whatever is in its way only makes it wait: its successor is due after its run has
    ended, so a skipped tick would be the last one.
    """
    idle = Decision((), facts.cursor, skip_next=facts.skip_next)
    if now < due_at:
        return idle
    held = [hold.kind for hold in facts.holds if hold.window.start <= now < hold.window.end]
    if held:
        return replace(idle, waits=min(held, key=[DispositionKind.PAUSED, DispositionKind.CALENDAR].index))
    desk = _Desk(facts, policies)
    # Counted by its tick, which stands still while it waits, it would find its hour taken for ever.
    desk.decide(Due(due_at, ready_at=due_at, period_start=facts.cursor, made_at=now))
    if refusals := desk.refusals():
        return replace(idle, waits=refusals[0].kind, denied=tuple(desk.denied))
    return replace(
        idle,
        dispositions=_joined(desk.runs()),
        cursor=due_at,
        displaces=tuple(desk.displaced),
        stops=tuple(desk.stopped),
    )


class _Desk:
    """Decides due ticks one after the other, each knowing of those before it.

    A run that was planned a moment ago and is displaced by the next tick was never made: its tick has a
    disposition of its own instead.
    """

    def __init__(self, facts: Facts, policies: Policies) -> None:
        self._facts = facts
        self._policies = policies
        self._live = list(facts.live)
        self._planned: dict[RunId, tuple[Due, Reservation]] = {}
        self._refused: list[tuple[Due, DispositionKind, tuple[RunId, ...]]] = []
        self.denied: dict[str, None] = {}  # in order, each once
        self.displaced: list[RunId] = []
        self.stopped: list[RunId] = []

    def decide(self, due: Due) -> None:
        request = Request(self._facts.trigger, lines_up=due.lines_up)
        match admit(request, policy=self._policies.overlap, live=self._live):
            case SkippedTick(behind):
                self._refused.append((due, DispositionKind.OVERLAP, behind[:BEHIND_MAX]))
            case Admitted() as admitted:
                self._reserve(due, admitted)
            case TurnedAway():
                raise AssertionError("a tick is skipped, never turned away")

    def _reserve(self, due: Due, admitted: Admitted) -> None:
        """Find the money before another run is displaced: a tick without money must not stop another's run."""
        reservation = reserve(self._policies.budget, self._spend(without=admitted.displaces), at=due.counted_at)
        if isinstance(reservation, BudgetDenied):
            self._refused.append((due, DispositionKind.BUDGET, ()))
            self.denied[reservation.message] = None
            return
        self._make_room(admitted)
        run_id = planned_id(due.tick)
        self._planned[run_id] = (due, reservation)
        self._live.append(UnendedRun(run_id, self._facts.trigger, LiveStanding.QUEUED, lines_up=due.lines_up))

    def _spend(self, *, without: Sequence[RunId]) -> Spend:
        kept = [reservation for run_id, (_, reservation) in self._planned.items() if run_id not in without]
        return after(self._facts.spend, *kept)

    def _make_room(self, admitted: Admitted) -> None:
        for run_id in admitted.displaces:
            if run_id in self._planned:
                due, _ = self._planned.pop(run_id)
                self._refused.append((due, DispositionKind.OVERLAP, ()))  # it gave way to a newer tick
            else:
                self.displaced.append(run_id)
        self.stopped += [run_id for run_id in admitted.stops if run_id not in self.stopped]
        self._live = [run for run in self._live if run.run_id not in admitted.displaces]

    def runs(self) -> list[Disposition]:
        found = []
        for due, reservation in self._planned.values():
            run = _planned_run(due, reservation, self._facts.last_success)
            found.append(Disposition(due.tick, due.tick, 1, DispositionKind.RUN, run=run))
            found += [_disposition(span, DispositionKind.COALESCED, into=due.tick) for span in due.absorbs]
        return found

    def refusals(self) -> list[Disposition]:
        return [
            replace(_disposition(span, kind), behind=behind)
            for due, kind, behind in self._refused
            for span in (Span(due.tick, due.tick, 1), *due.absorbs)
        ]


def _planned_run(due: Due, reservation: Reservation, last_success: datetime | None) -> PlannedRun:
    return PlannedRun(
        tick=due.tick,
        ready_at=due.ready_at,
        period_start=due.period_start,
        backfill_from=last_success,
        late=due.late,
        lines_up=due.lines_up,
        reservation=reservation,
    )


def _disposition(span: Span, kind: DispositionKind, *, into: datetime | None = None) -> Disposition:
    return Disposition(span.slot, span.slot_until, span.count, kind, into=into)


def _joined(dispositions: Iterable[Disposition]) -> tuple[Disposition, ...]:
    """Put them in order, and make one of neighbours that say the same."""
    joined: list[Disposition] = []
    for one in sorted(dispositions, key=lambda one: one.slot):
        last = joined[-1] if joined else None
        if last and one.run is None and (last.kind, last.into, last.behind) == (one.kind, one.into, one.behind):
            joined[-1] = replace(last, slot_until=one.slot_until, count=last.count + one.count)
        else:
            joined.append(one)
    return tuple(joined)
