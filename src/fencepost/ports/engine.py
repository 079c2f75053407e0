"""What we ask of an engine: how an agent is started, and what its end means."""

from fencepost.model.definition import AgentDefinition
from fencepost.model.light import NamedTuple, Protocol
from fencepost.ports.runs import RunRow


class Launch(NamedTuple):
    """A program to start."""

    argv: tuple[str, ...]
    env: dict[str, str]  # what the engine adds


class Engine(Protocol):
    """One way to carry out an attempt."""

    def launch(self, agent: AgentDefinition, run: RunRow) -> Launch:
        """Say what to start, or raise Misconfigured with what to fix."""
        ...
