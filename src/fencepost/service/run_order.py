"""What a worker hands to a guard: one run, with all that its attempt takes but the store."""

import os
from typing import Self

from fencepost.model.figures import SoFar
from fencepost.model.lease import Held, Lease
from fencepost.model.light import NamedTuple
from fencepost.model.project import Project
from fencepost.ports.engine import Launch
from fencepost.ports.runs import RunRow
from fencepost.service.model_line import ModelOrder


class RunOrder(NamedTuple):
    """One attempt."""

    run: RunRow
    lease: Lease
    launch: Launch
    env: dict[str, str]
    secrets: tuple[str, ...]  # values that are blotted out of the log
    key: str  # what the agent shows at the run's socket
    log: str
    cgroup: str | None = None
    folder: str = "/"  # where the agent works
    gates: dict[str, str] = {}  # noqa: RUF012  # by the name that the agent's definition uses: the target that was raised
    gate_env: dict[str, str] = {}  # noqa: RUF012  # what references of the gates lead to
    predecessors: tuple[Held, ...] = ()
    apart: Project | None = None  # in a worktree of whose repository the agent works
    checkpoint: str | None = None
    so_far: SoFar = SoFar()
    budget_micro: int | None = None  # what it may still cost
    model: ModelOrder | None = None  # its pass at the model gate


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
