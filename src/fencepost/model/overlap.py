"""Who may join the runs of a schedule: one admission for every way to start a run.

Running, queued and deferred runs all count, each as a row of its own; there is no counter that could be wrong.
Admission bounds what waits. What runs at once is bounded by the lease (`lease_max`), on every path, so a run
that lines up or comes back after a loss cannot slip past the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import assert_never

from fencepost.model.errors import Busy, Invalid, QueueFull
from fencepost.model.nearest_name import nearest
from fencepost.model.run import RunId, TriggerKind

LINE_MAX = 1000  # how many runs may wait in line, of all kinds
WAITING_MAX = 10_000_000  # what an agent may raise that to for runs without a schedule
PARALLEL_MAX = 1000
PARALLEL_DEFAULT = 4


class OverlapRule(StrEnum):
    """What a new run does about earlier ones that have not ended."""

    FORBID = "forbid"
    QUEUE = "queue"
    ALLOW_PARALLEL = "allow_parallel"
    CANCEL_PREVIOUS = "cancel_previous"


@dataclass(frozen=True, slots=True)
class OverlapPolicy:
    """The rule, and how many may wait (`queue`) or be there at once (`allow_parallel`)."""

    rule: OverlapRule = OverlapRule.FORBID
    queue_max: int = 1
    parallel_max: int = PARALLEL_DEFAULT

    def __post_init__(self) -> None:
        _check("queue_max", self.queue_max, LINE_MAX)
        _check("parallel_max", self.parallel_max, PARALLEL_MAX)

    @property
    def lease_max(self) -> int:
        """How many runs of the schedule may be leased at once."""
        return self.parallel_max if self.rule is OverlapRule.ALLOW_PARALLEL else 1


def _check(name: str, value: int, maximum: int) -> None:
    if not 1 <= value <= maximum:
        raise Invalid(
            f'{name} is between 1 and {maximum}, not {value}; for one run and none that waits, write overlap = "forbid".'
        )


def parse_overlap(text: str, *, queue_max: int | None = None, parallel_max: int | None = None) -> OverlapPolicy:
    """Read a rule in our spelling, Temporal's or Kubernetes', in any case."""
    word = "".join(text.split()).lower().replace("_", "").replace("-", "").removeprefix("scheduleoverlappolicy")
    if word not in _SPELLINGS:
        raise Invalid(f"overlap = {text!r} is not known; {_suggestion(word)}")
    rule, waiting = _SPELLINGS[word]
    return OverlapPolicy(
        rule,
        queue_max=waiting if queue_max is None else queue_max,
        parallel_max=PARALLEL_DEFAULT if parallel_max is None else parallel_max,
    )


# Each spelling without case, blanks, - and _, with the rule that it means and how many may wait under it.
_SPELLINGS = {
    "forbid": (OverlapRule.FORBID, 1),
    "queue": (OverlapRule.QUEUE, 1),
    "allowparallel": (OverlapRule.ALLOW_PARALLEL, 1),
    "cancelprevious": (OverlapRule.CANCEL_PREVIOUS, 1),
    # Temporal
    "skip": (OverlapRule.FORBID, 1),
    "bufferone": (OverlapRule.QUEUE, 1),
    "bufferall": (OverlapRule.QUEUE, LINE_MAX),
    "cancelother": (OverlapRule.CANCEL_PREVIOUS, 1),
    "terminateother": (OverlapRule.CANCEL_PREVIOUS, 1),
    "allowall": (OverlapRule.ALLOW_PARALLEL, 1),
    # Kubernetes; its Forbid is ours
    "allow": (OverlapRule.ALLOW_PARALLEL, 1),
    "replace": (OverlapRule.CANCEL_PREVIOUS, 1),
}


def _suggestion(word: str) -> str:
    near = nearest(word, _SPELLINGS)
    if near:
        return f'did you mean "{_SPELLINGS[near][0]}"?'
    return f"there are {', '.join(OverlapRule)}."


class LiveStanding(StrEnum):
    """How a run that has not ended stands."""

    RUNNING = "running"
    QUEUED = "queued"  # never started
    DEFERRED = "deferred"  # started before; a retry, a resume or a hand-back waits for its time


@dataclass(frozen=True, slots=True)
class UnendedRun:
    """A run that has not ended, as admission sees it."""

    run_id: RunId
    trigger: TriggerKind
    standing: LiveStanding
    lines_up: bool = False  # one of a replay, which waits its turn


@dataclass(frozen=True, slots=True)
class Request:
    """What asks to be let in. `of_schedule` tells `run SCHEDULE` from `run AGENT`.

    `lines_up` is said for the ticks of a replay and for `exec --wait`; other triggers know it by themselves.
    """

    trigger: TriggerKind
    of_schedule: bool = True
    lines_up: bool = False


@dataclass(frozen=True, slots=True)
class Admitted:
    """Come in, and start once those before it have made room."""

    displaces: tuple[RunId, ...] = ()  # not running: cancel them in the same transaction
    stops: tuple[RunId, ...] = ()  # running: ask them to stop
    waits_for: tuple[RunId, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedTick:
    """A tick without a run: these were in its way."""

    behind: tuple[RunId, ...]


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Refused before anything was acknowledged."""

    behind: tuple[RunId, ...]
    message: str

    full: bool = False  # no run is in the way; the line is as long as it may be

    def error(self) -> Busy:
        """Return the error that says so to the caller."""
        return (QueueFull if self.full else Busy)(self.message)


Admission = Admitted | SkippedTick | TurnedAway


class _Manner(Enum):
    """How a request takes a no."""

    YIELDS = auto()  # a tick: skipped, or displaces older ticks
    ASKS = auto()  # a caller is there to be told no
    LINES_UP = auto()  # accepted means kept, in order


def admit_to_line(waiting: int, *, more: int, line_max: int) -> Admitted | TurnedAway:
    """Decide whether so many more may wait for an agent that runs what it is asked for, one after the other."""
    if waiting + more <= line_max:
        return Admitted()
    return TurnedAway((), f"{_no_room(waiting, more, line_max)}, or raise waiting_max of the agent.", full=True)


def _no_room(waiting: int, more: int, line_max: int) -> str:
    if more > line_max:
        return (
            f"{more:,} runs at once are too many: at most {line_max:,} of this agent may wait. Ask for fewer at a time"
        )
    if more == 1:
        return (
            f"{waiting:,} runs of this agent wait already, and at most {line_max:,} may. Try again when some have run"
        )
    room = max(0, line_max - waiting)
    return (
        f"{waiting:,} runs of this agent wait already, and at most {line_max:,} may: there is room for {room:,}, not for "
        f"{more:,}. Try again when some have run"
    )


def admit(request: Request, *, policy: OverlapPolicy, live: Sequence[UnendedRun]) -> Admission:
    """Decide whether a run may be made, given those of its schedule (or agent) that have not ended, oldest first."""
    if not live:
        return Admitted()
    match _manner(request):
        case _Manner.LINES_UP:
            return _line_up(request, live)
        case _Manner.ASKS if request.trigger.attended:
            return _turned_away(OverlapRule.FORBID, live)
        case _Manner.YIELDS | _Manner.ASKS as manner:
            return _apply(manner, policy, live)


def _manner(request: Request) -> _Manner:
    match request.trigger:
        case TriggerKind.CRON | TriggerKind.EVERY | TriggerKind.AT:
            return _Manner.LINES_UP if request.lines_up else _Manner.YIELDS
        case TriggerKind.WEBHOOK | TriggerKind.REPLAY | TriggerKind.BACKFILL:
            return _Manner.LINES_UP
        case TriggerKind.MANUAL:
            return _Manner.ASKS if request.of_schedule else _Manner.LINES_UP
        case TriggerKind.EXEC | TriggerKind.SESSION:
            return _Manner.LINES_UP if request.lines_up else _Manner.ASKS
        case _:
            assert_never(request.trigger)


def _apply(manner: _Manner, policy: OverlapPolicy, live: Sequence[UnendedRun]) -> Admission:
    match policy.rule:
        case OverlapRule.FORBID:
            return _no(manner, policy.rule, live)
        case OverlapRule.ALLOW_PARALLEL:
            return Admitted() if len(live) < policy.parallel_max else _no(manner, policy.rule, live)
        case OverlapRule.QUEUE:
            return _queue(manner, policy, live)
        case OverlapRule.CANCEL_PREVIOUS:
            return _cancel_previous(manner, policy.rule, live)
        case _:
            assert_never(policy.rule)


def _queue(manner: _Manner, policy: OverlapPolicy, live: Sequence[UnendedRun]) -> Admission:
    """Let the newest wait: a tick takes the place of the oldest waiting ticks, a person is told that it is full."""
    surplus = _queued(live) + 1 - policy.queue_max
    if surplus <= 0:
        return Admitted(waits_for=_ids(live))
    older = [run for run in live if _displaceable(run)]
    if manner is _Manner.ASKS or len(older) < surplus:
        return _no(manner, policy.rule, live)
    return _make_room(live, displaced=older[:surplus])


def _cancel_previous(manner: _Manner, rule: OverlapRule, live: Sequence[UnendedRun]) -> Admission:
    """Supersede what the policy may touch: waiting ticks, and runs that have started and are not attended.

    A webhook or a person's run that still waits was accepted and is kept; a second person is told so.
    """
    started = [run for run in live if run.standing is not LiveStanding.QUEUED and not run.trigger.attended]
    stops = [run for run in started if run.standing is LiveStanding.RUNNING]
    deferred = [run for run in started if run.standing is LiveStanding.DEFERRED]
    waiting = [run for run in live if run.standing is LiveStanding.QUEUED and run.trigger.tick_born]
    if manner is _Manner.ASKS and _queued(live) > len(waiting):
        return _no(manner, rule, live)
    return _make_room(live, displaced=[*waiting, *deferred], stops=stops)


def _make_room(
    live: Sequence[UnendedRun], *, displaced: Sequence[UnendedRun], stops: Sequence[UnendedRun] = ()
) -> Admitted:
    gone = {run.run_id for run in displaced}
    rest = [run for run in live if run.run_id not in gone]
    return Admitted(displaces=_ids(displaced), stops=_ids(stops), waits_for=_ids(rest))


def _displaceable(run: UnendedRun) -> bool:
    return run.standing is LiveStanding.QUEUED and run.trigger.tick_born and not run.lines_up


def _line_up(request: Request, live: Sequence[UnendedRun]) -> Admission:
    if _queued(live) < LINE_MAX:
        return Admitted(waits_for=_ids(live))
    if request.trigger.tick_born:
        return SkippedTick(_ids(live))
    return TurnedAway(_ids(live), f"{LINE_MAX} runs wait in line already; try again when some have run.", full=True)


def _no(manner: _Manner, rule: OverlapRule, live: Sequence[UnendedRun]) -> Admission:
    return SkippedTick(_ids(live)) if manner is _Manner.YIELDS else _turned_away(rule, live)


def _turned_away(rule: OverlapRule, live: Sequence[UnendedRun]) -> TurnedAway:
    first, others = live[0], len(live) - 1
    also = f" and {others} more" if others else ""
    return TurnedAway(
        _ids(live),
        f'overlap = "{rule}" leaves no room beside run {first.run_id} ({first.trigger}, {first.standing}){also}; '
        f"wait for it, or cancel it: fencepost cancel {first.run_id}",
    )


def _queued(live: Sequence[UnendedRun]) -> int:
    return sum(run.standing is LiveStanding.QUEUED for run in live)


def _ids(live: Sequence[UnendedRun]) -> tuple[RunId, ...]:
    return tuple(run.run_id for run in live)
