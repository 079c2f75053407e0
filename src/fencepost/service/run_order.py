"""What a worker hands to a guard: one run, with all that its attempt takes but the store."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING, Any, NamedTuple
from fencepost.model.lease import Lease

if TYPE_CHECKING:
    from typing import Self

    from fencepost.model.lease import Held
    from fencepost.model.project import Project
    from fencepost.model.usage_figures import SoFar
    from fencepost.ports.engine import Manner
    from fencepost.service.model_gate_client import ModelOrder


class RunOrder(NamedTuple):
    """One attempt, in plain values that the worker has worked out: work left to the guards would be done once for each of them."""

    lease: Lease
    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str  # the run's own, with its socket and its payload
    workdir: str  # where the agent works
    files: dict[str, str]  # what is laid out in the run's folder
    stdin: str
    log: str
    log_max: int
    key: str  # what the agent shows at the run's socket
    limits: tuple[float | None, ...] = (None, None, None)  # seconds that it may work, stand still, and wait for a tool
    secrets: tuple[str, ...] = ()  # values that are blotted out of the log
    cgroup: str | None = None
    gates: dict[str, str] = {}  # noqa: RUF012  # by the name that the agent's definition uses: the target that was raised
    checkpoint: str | None = None
    session: str | None = None  # its conversation, where the name is known before the start
    additions: str | None = None  # `Additions`, spelled; a plain guard cannot carry them out

    def to_json(self) -> dict[str, Any]:
        """Spell it for a guard of the same version."""
        return {**self._asdict(), "lease": list(self.lease)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read it."""
        return cls(**{**values, "lease": Lease(*values["lease"])})


class Additions(NamedTuple):
    """What an order has beyond that of a plain command: output to understand, gates to raise, a worktree, a model's pass."""

    manner: Manner | None
    predecessors: tuple[Held, ...]
    apart: Project | None  # in a worktree of whose repository the agent works
    gate_env: dict[str, str]  # what references of the gates lead to
    so_far: SoFar
    budget_micro: int | None  # what it may still cost
    model: ModelOrder | None  # its pass at the model gate


class GuardPlace(NamedTuple):
    """Where a guard is found by workers, in the state folder, where agents do not look."""

    folder: str
    name: str

    @classmethod
    def of(cls, socket: str) -> Self:
        """Return the place that has this socket."""
        folder, name = os.path.split(socket)
        return cls(folder, name.removesuffix(".sock"))

    @property
    def socket(self) -> str:
        """Where it listens for a keeper."""
        return os.path.join(self.folder, f"{self.name}.sock")

    @property
    def end(self) -> str:
        """Where it writes down how the attempt ended."""
        return os.path.join(self.folder, f"{self.name}.end.json")
