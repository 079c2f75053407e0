"""How an attempt ended, and what that makes of its run."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from fencepost.model.run import Reason, RunState

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The agent said that it is done, and it is."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent ended by itself with a code; `ambiguous` if an effect of it is neither done nor undone.

    `said`: by its own words it failed, whatever its code was. `refused`: why it was refused an effect just before.
    """

    exit_code: int
    ambiguous: bool = False
    said: bool = False
    refused: Reason | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """We ended it, because it took too long (`timeout`) or stood still (`stall_timeout`)."""

    reason: Reason

    def __post_init__(self) -> None:
        assert self.reason in {Reason.TIMEOUT, Reason.STALL_TIMEOUT}, self.reason


@dataclass(frozen=True, slots=True)
class OverBudget:
    """We ended it, because it had used up the budget of one run."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Its lease was not renewed. `started` is what was committed before the agent was spawned."""

    started: bool


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A drain ended it. `resumable`: it left a checkpoint, or its engine can take up the session again."""

    resumable: bool


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The agent was never spawned: a gate could not be raised, or something about it cannot work."""

    reason: Reason

    def __post_init__(self) -> None:
        assert self.reason in {Reason.GATE_UNREACHABLE, Reason.FENCE_REGRESS, Reason.MISCONFIGURED}, self.reason


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was asked to stop, by a person (`cancelled`) or by a newer run (`overlap`), and did."""

    reason: Reason

    def __post_init__(self) -> None:
        assert self.reason in {Reason.CANCELLED, Reason.OVERLAP}, self.reason


def refused_by(outcome: "Outcome", reason: Reason | None) -> "Outcome":
    """Add to a failure who refused the agent an effect: a gate and the ledger have one exit code."""
    return replace(outcome, refused=reason) if isinstance(outcome, Failed) else outcome


Outcome = Succeeded | Failed | TimedOut | OverBudget | Lost | Interrupted | NotStarted | Stopped


@dataclass(frozen=True, slots=True)
class Settlement:
    """A run's next state. The store only writes it down."""

    state: RunState
    reason: Reason | None = None
    ready_at: datetime | None = None
    resume: bool = False  # hand the checkpoint or the session over to the next attempt
    uses_attempt: bool = True
    alarm: bool = False  # a person should look, although it goes on by itself once that is mended


def outcome_to_json(outcome: Outcome) -> dict[str, object]:
    """Spell an outcome for a file or a message that another version of this program may read."""
    return {"kind": type(outcome).__name__, **{name: getattr(outcome, name) for name in outcome.__slots__}}


def outcome_from_json(values: dict[str, Any]) -> Outcome:
    """Read an outcome; one that only a newer program knows is a loss, which is never taken for a success."""
    facts = {name: value for name, value in values.items() if name != "kind"}
    for name in ("reason", "refused"):
        if facts.get(name):
            facts[name] = Reason(facts[name])
    kinds: dict[str, Callable[..., Outcome]] = {kind.__name__: kind for kind in get_args(Outcome)}
    made = kinds.get(str(values["kind"]))
    return made(**facts) if made else Lost(started=True)
