"""Tries an agent's gates before its first run: whether a git remote can move two refs at once. Writes nothing."""

from collections.abc import Iterator

from fencepost.model.definition import AgentDefinition, gate_targets
from fencepost.model.errors import FencepostError
from fencepost.model.target import parse_target
from fencepost.operations.gate_kinds import open_gate


def gate_problems(agent: AgentDefinition) -> Iterator[str]:
    """Yield what would keep its runs from starting, or its pushes from landing."""
    for name, target in zip(agent.gates, gate_targets(agent), strict=True):
        if parse_target(target).kind == "git":
            try:
                _probe(target)
            except FencepostError as error:
                yield f"gate {name}: {error}"


def _probe(target: str) -> None:
    from fencepost.gates.git.gate import GitGate

    gate = open_gate(target)
    assert isinstance(gate, GitGate)
    gate.probe()
