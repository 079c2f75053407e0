"""What we ask of an engine: how an agent is started, and how to read what it prints."""

from fencepost.model.definition import AgentDefinition
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple, Protocol
from fencepost.ports.runs import RunRow

if TYPE_CHECKING:
    from fencepost.model.output_rules import OutputRules

RESULT_GRACE_SECONDS = 60.0


class Setting(NamedTuple):
    """Where an attempt takes place, and what it goes on with."""

    folder: str  # private to the run; the files of the launch are put there
    session: str | None = None  # the conversation to take up again


class Manner(NamedTuple):
    """How to read an agent's output, and how to end it."""

    output: "OutputRules"
    resumes: str | None = None  # the session that it was asked to go on with
    can_resume: bool = False
    exit_codes: tuple[tuple[int, int], ...] = ()  # its code -> ours
    interrupt_seconds: float = 0.0  # how long SIGINT may take before SIGTERM; 0: no SIGINT
    result_grace_seconds: float = RESULT_GRACE_SECONDS  # how long it may take to leave once it has said that it is done


class Launch(NamedTuple):
    """A program to start."""

    argv: tuple[str, ...]
    env: dict[str, str]  # what the engine adds
    stdin: str | None = None  # None: the payload
    files: tuple[tuple[str, str], ...] = ()  # name in the run's folder, content
    session: str | None = None  # its conversation, where we choose the name
    manner: Manner | None = None  # None: any output is progress, and the exit code says how it ended


class Engine(Protocol):
    """One way to carry out an attempt."""

    def launch(self, agent: AgentDefinition, run: RunRow, setting: Setting) -> Launch:
        """Say what to start, or raise Misconfigured with what to fix."""
        ...
