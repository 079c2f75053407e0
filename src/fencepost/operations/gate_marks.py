"""What the gates of a run remember of it: each gate is asked at its target, and one that does not answer says why."""

from typing import NamedTuple

from fencepost.model.definition import agent_from_json, gate_targets
from fencepost.model.errors import FencepostError
from fencepost.operations.gate_kinds import open_gate
from fencepost.operations.queue_positions import keys_in
from fencepost.ports.gate import Fetch
from fencepost.ports.runs import RunRow


class Marked(NamedTuple):
    """The mark of one resource at one gate."""

    resource: str
    fence: int
    run_id: str
    at_us: int
    standing: str  # ours, newer or older


class GateMarks(NamedTuple):
    """One gate, with its marks for the run's resources; or what is wrong with it."""

    name: str
    marks: tuple[Marked, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""


def marks_of(run: RunRow, fetch: Fetch) -> list[GateMarks]:
    """Ask every gate of a run; this may take as long as its targets take. `fetch` decides for the run's tenant."""
    agent = agent_from_json(run.manifest)
    return [_asked(name, target, run, fetch) for name, target in zip(agent.gates, gate_targets(agent), strict=True)]


def _asked(name: str, target: str, run: RunRow, fetch: Fetch) -> GateMarks:
    try:
        status = open_gate(target, fetch).status()
    except (FencepostError, OSError) as error:
        return GateMarks(name, problem=str(error))
    ours = {f"{tenant} {resource}": resource for tenant, resource in keys_in(run)}
    found = [
        Marked(ours[key], mark.fence, mark.run_id, mark.at_us, _standing(mark.fence, run.fence))
        for key, mark in sorted(status.marks.items())
        if key in ours
    ]
    return GateMarks(name, tuple(found), status.warnings)


def _standing(mark: int, fence: int | None) -> str:
    if fence is None or mark > fence:
        return "newer"
    return "ours" if mark == fence else "older"
