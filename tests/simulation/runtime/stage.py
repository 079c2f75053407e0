"""Everything that the players of one seed share."""

import os
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from fencepost.ports.gate import Gate
from fencepost.service.command_order import Tools
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.checker import Checker
from tests.simulation.faults import Faults, Knobs
from tests.simulation.gates.targets import TargetScene
from tests.simulation.hosts import Host, Process
from tests.simulation.ports import SimGate, SimProcesses
from tests.simulation.runtime.fleet import Fleet, Plot
from tests.simulation.runtime.place import Place
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.runtime.chores import Archive
    from tests.simulation.runtime.effects import Outside
    from tests.simulation.runtime.observer import Observer


@dataclass(slots=True)
class Stage:
    """Everything that the players share."""

    world: World
    plot: Plot
    faults: Faults
    checker: Checker
    place: Place
    folder: str
    hosts: list[Host]
    fleet: Fleet
    observer: "Observer"
    outside: "Outside"
    archive: "Archive"
    ticking: bool = True
    _numbers: "Iterator[int]" = field(default_factory=lambda: count(1))

    @property
    def knobs(self) -> Knobs:
        return self.plot.base

    def new_id(self, kind: str = "run") -> str:
        """Name something: the same name in every process that plays this seed."""
        return f"{kind}{next(self._numbers):05d}"

    def runtime(self, process: Process, *, reliable: bool = False) -> RuntimeStore:
        return self.place.runtime(process, self.faults.none() if reliable else self.faults)

    def registry(self, process: Process, *, reliable: bool = False) -> SqlRegistry:
        return self.place.registry(process, self.faults.none() if reliable else self.faults)

    def gate(self, target: str, process: Process) -> SimGate:
        scene = TargetScene(target.removeprefix("file:"), process, self.faults, {}, self.knobs.ttl_seconds)
        return SimGate(scene, "", self.checker)

    def target(self, name: str) -> str:
        return "file:" + os.path.join(os.path.realpath(self.folder), name)

    def tools(self, process: Process) -> Tools:
        def open_gate(target: str, _: str) -> Gate:
            return self.gate(target, process)

        return Tools(process.clock, SimProcesses(process), lambda: self.runtime(process), open_gate, lambda _: None)
