"""One seed: sets the stage, lets it run, and returns what happened."""

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass

from fencepost.service import admission
from tests.simulation.checker import Checker
from tests.simulation.faults import Faults, Knobs
from tests.simulation.gates.kinds import made_up_servers
from tests.simulation.hosts import Host
from tests.simulation.nemesis import Nemesis
from tests.simulation.nodes import Node, Stage
from tests.simulation.ports import Site
from tests.simulation.world import SECOND, Violation, World

MEMORY = "/dev/shm"
RAGE_TTLS = 12


@dataclass(frozen=True, slots=True)
class Result:
    """What one seed came to."""

    seed: int
    digest: str
    trace: list[str]
    totals: Counter[str]
    simulated_seconds: float
    violation: Violation | None
    strikes: dict[int, str]  # every fault that was done, by its number
    command: str = "python -m tests.simulation.run"

    def report(self) -> str:
        """Say what went wrong, and how to see it again."""
        return "\n".join(
            [
                f"seed {self.seed}: {self.violation}",
                *self.trace[-40:],
                f"replay: {self.command} --seed {self.seed} --trace",
            ]
        )


def simulate(
    seed: int,
    *,
    profile: str | None = None,
    compares: bool = True,
    spared: frozenset[int] = frozenset(),
    gates: str = "",
) -> Result:
    """Run one seed from beginning to end, of any profile or of a given one, with the reference or without.

    Gates are files, or of the kind that is named; then writers are also frozen between their check and their write.
    """
    folder = tempfile.mkdtemp(prefix="simulation-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    world = World(seed, spared)
    poll_max = admission.POLL_MAX_SECONDS
    try:
        with made_up_servers():
            _play(world, folder, profile=profile, compares=compares, gates=gates)
    except Violation as violation:
        world.violation = world.violation or violation
    finally:
        admission.POLL_MAX_SECONDS = poll_max
        shutil.rmtree(folder)
    world.totals["seeds"] += 1
    world.totals["events"] += len(world.trace)
    seconds = world.now_ns / SECOND
    return Result(seed, world.digest(), world.trace, world.totals, seconds, world.violation, world.strikes)


def _play(world: World, folder: str, *, profile: str | None, compares: bool, gates: str) -> None:
    knobs = Knobs.draw(world, profile)
    world.log("world", str(knobs))
    checker = Checker(world, knobs)
    site = Site(world, knobs, folder, checker)
    site.compares = compares
    hosts = [Host(world, f"h{n}", rate_ppm=rate, pid_max=knobs.pid_max) for n, rate in enumerate(knobs.rates_ppm)]
    stage = Stage(world, knobs, Faults(world, knobs), checker, site, folder, hosts, gates)
    nodes = [Node(stage, f"n{n}", hosts[n % len(hosts)]) for n in range(knobs.nodes)]
    closer = Node(stage, "closer", hosts[0])
    admission.POLL_MAX_SECONDS = knobs.poll_max_seconds
    rage_ns = int(RAGE_TTLS * knobs.ttl_seconds * SECOND)
    try:
        for node in nodes:
            world.spawn(node.name, None, node.live)
        world.spawn("closer", None, lambda: closer.close_after(nodes))
        world.spawn("nemesis", None, lambda: Nemesis(stage, nodes, hosts).rage(rage_ns))
        world.run()
        _finish(stage, [*nodes, closer])
    finally:
        world.close()
        site.close()


def _finish(stage: Stage, nodes: list[Node]) -> None:
    late = [node.name for node in nodes if not node.done]
    if late:
        stage.world.fail("progress", f"not done long after the last fault: {late}")
    store = stage.site.connection("end", nodes[0].host)
    counters = {}
    for name in ("a.json", "b.json", "x.json"):
        gate = stage.gate(stage.target(name), nodes[0].run.process)  # type: ignore[union-attr]  # it has run
        counters[gate.target] = gate.read()
    stage.checker.finished(store.leases(), counters)
