"""Tries gates before the first run: whether a target can be a gate at all, and where it is weaker. Lifts no mark."""

from collections.abc import Iterator, Mapping

from fencepost.model.definition import AgentDefinition, gate_targets
from fencepost.model.errors import FencepostError
from fencepost.model.target import parse_target
from fencepost.operations.gate_kinds import open_gate

TRIED = ("git", "s3", "redis", "http", "sql")  # kinds whose server may be unable, or too forgetful, to keep a gate


def gate_problems(agent: AgentDefinition) -> Iterator[str]:
    """Yield what would keep its runs from starting or its writes from landing, and which gates are best effort."""
    for name, target in zip(agent.gates, gate_targets(agent), strict=True):
        yield from (f"gate {name}: {problem}" for problem in target_problems(target))


def ways_around(agent: AgentDefinition, place: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield where a plain `git push` from an agent's folder would go around its git gates."""
    for name, target in zip(agent.gates, gate_targets(agent), strict=True):
        if parse_target(target).kind == "git":
            yield from (f"gate {name}: {problem}" for problem in _git_ways_around(target, place, environ))


def _git_ways_around(target: str, place: str, environ: Mapping[str, str]) -> Iterator[str]:
    from fencepost.gates.git.detours import detours
    from fencepost.gates.git.gate import GitGate

    try:
        gate = open_gate(target)
    except FencepostError:
        return  # told where the gate itself is tried
    assert isinstance(gate, GitGate), "its kind says so"
    yield from (detour.words(place) for detour in detours(place, gate.remote, environ))


def standing_problems(target: str) -> Iterator[str]:
    """Yield what is wrong with one gate, and where a client that passes it by would not be stopped."""
    found = list(target_problems(target))
    yield from found
    if parse_target(target).kind == "sql" and not found:
        yield from _unguarded(target)


def _unguarded(target: str) -> Iterator[str]:
    from fencepost.gates.sql.gate import SqlGate

    gate = open_gate(target)
    if isinstance(gate, SqlGate) and not gate.guarded_tables():
        yield (
            "no table is guarded, so a program that connects to this database by itself, an agent that knows its URL "
            "for example, is not refused; guard those that matter: fencepost gate sql-guard --help"
        )


def target_problems(target: str) -> Iterator[str]:
    """Yield what is wrong with one gate; nothing for kinds that are tried when they are raised."""
    if parse_target(target).kind not in TRIED:
        return
    try:
        gate = open_gate(target)
        probe = getattr(gate, "probe", None)
        if probe is not None:
            probe()
        else:
            yield from gate.status().warnings
    except FencepostError as error:
        yield str(error)
