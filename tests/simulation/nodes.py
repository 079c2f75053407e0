"""Supervisors, guards and agents. Admission, term and renewer are the product's own; the rest imitates its processes."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.model.errors import (
    FencepostError,
    FenceRefused,
    FenceRegress,
    LeaseLost,
    Misconfigured,
    StoreUnavailable,
)
from fencepost.model.gate import Proof, proof_of
from fencepost.model.lease import Claim, Lease
from fencepost.ports.processes import Traces
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools
from fencepost.service.custody import Term
from tests.simulation.checker import Checker
from tests.simulation.faults import Faults, Knobs
from tests.simulation.gates.kinds import spelled
from tests.simulation.gates.targets import TargetScene
from tests.simulation.hosts import Host, Process
from tests.simulation.keepers import Guard, Renewing, Start
from tests.simulation.ports import Agent, SimGate, SimProcesses, SimStore, Site
from tests.simulation.world import SECOND, Mailbox, World

TENANT = "tenant"
GATES_OF = {"lock:a": ("a.json", "x.json"), "lock:b": ("b.json",)}
REFUSALS = 4  # after so many, a stubborn agent makes no further plans


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that the players share."""

    world: World
    knobs: Knobs
    faults: Faults
    checker: Checker
    site: Site
    folder: str
    hosts: list[Host]
    kind: str = ""  # of all gates
    servers: dict[str, Any] = field(default_factory=dict)  # of gates, by path

    def gate(self, target: str, process: Process) -> SimGate:
        path = target.partition(":")[2]
        scene = TargetScene(path, process, self.faults, self.servers, self.knobs.ttl_seconds)
        return SimGate(scene, self.kind, self.checker)

    def target(self, name: str) -> str:
        return spelled(self.kind, os.path.join(os.path.realpath(self.folder), name))


class Node:
    """Somebody who starts one run after another on one host."""

    def __init__(self, stage: Stage, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.done = False
        self.run: Run | None = None
        self._stage = stage
        self._runs = 0

    def live(self) -> None:
        """Start runs while there are faults, and one more when it is quiet: that one must get its turn."""
        world = self._stage.world
        for _ in range(self._stage.knobs.jobs):
            world.pause(int(world.rng.random() * self._stage.knobs.ttl_seconds * SECOND))
            if world.quiet:
                break
            self._one_run(last=False)
        while not world.quiet or not all(host.usable for host in self._stage.hosts):
            world.pause(int(self._stage.knobs.ttl_seconds * SECOND))
        self._one_run(last=True)
        self.done = True

    def close_after(self, nodes: list["Node"]) -> None:
        """Ask for everything when all the others are done: what the dead still hold is taken over and given back."""
        while not all(node.done for node in nodes):
            self._stage.world.pause(int(self._stage.knobs.ttl_seconds * SECOND))
        self._one_run(last=True, resources=tuple(GATES_OF))
        self.done = True

    def _one_run(self, *, last: bool, resources: tuple[str, ...] | None = None) -> None:
        world = self._stage.world
        while not self.host.usable:
            world.pause(SECOND)
        self._runs += 1
        self.run = Run(self._stage, self, f"{self.name}r{self._runs}", last=last, resources=resources)
        over = Mailbox(world)
        self.run.process.at_death.append(lambda: over.put("over"))
        over.wait(None)
        if last and not self.run.served:
            world.fail("progress", f"{self.run.process.name} was not served although nothing failed any more")


class Run:
    """One supervisor process with its guard, from the claim to the release."""

    def __init__(self, stage: Stage, node: Node, name: str, *, last: bool, resources: tuple[str, ...] | None) -> None:
        self.served = False
        self.stage = stage
        self.node = node
        self.process = Process(node.host, name)
        self.mail = Mailbox(stage.world)
        self.guard = Guard(self)
        self.process.at_death.append(self.guard.hang_up)
        self.lease: Lease | None = None
        self._last = last
        self._since = stage.site.generation
        self._order = _draw_order(stage, last=last, resources=resources)
        self._claim = Claim(
            id=f"{name}-claim",
            tenant=TENANT,
            resources=self._order.resources,
            run_id=name,
            ttl_seconds=self._order.ttl_seconds,
            supervisor=self.process.id,
            guard=self.guard.process.id,
            gates=self._order.gates,
        )
        stage.checker.supervisors[name] = self.process
        self.process.spawn("main", self._main)

    @property
    def run_id(self) -> str:
        return self.process.name

    def work_of(self, agent: Agent) -> Callable[[], None]:
        return Work(self.stage, agent).do

    def open_store(self, *, reliable: bool = False) -> SimStore:
        faults = self.stage.faults.none() if reliable else self.stage.faults
        return SimStore(self.stage.site, self.node.name, self.process, faults, since=self._since)

    def _main(self) -> None:
        """Try, and by the seed's temper ask again with the same claim after an unknown answer or a first end."""
        knobs, world = self.stage.knobs, self.stage.world
        for _ in range(1000 if self._last else 3):
            try:
                self._once()
                again = knobs.same_claim and not self._last
            except FenceRegress as error:
                world.fail("no regress", str(error))
            except StoreUnavailable:
                again = self.lease is None and (knobs.ask_again or self._last)
            except (LeaseLost, FencepostError) as error:
                world.log(self.process.name, f"gives up: {type(error).__name__}")
                if self._last:
                    self._claim = self._claim._replace(id=f"{self._claim.id}+")  # what was lost is asked for anew
                again = self._last or (knobs.same_claim and isinstance(error, LeaseLost))
            if not again or not self.guard.process.alive:
                break
            self.process.clock.sleep(knobs.ttl_seconds * world.rng.random())
        self.process.kill("exit")

    def _once(self) -> None:
        """Lease, start, watch, release, in the order of the product's supervisor."""
        store = self.open_store()
        term = Term(self.process.clock, counts_sleep=store.facts().counts_sleep)
        tools = Tools(self.process.clock, SimProcesses(self.process), self.open_store, self._open_gate, lambda _: None)
        self.mail.items[:] = [item for item in self.mail.items if item[0] == "guard gone"]
        lease = Admission(self._order, tools, store, wait=self.process.clock.sleep).admit(self._claim, term)
        self.lease = lease
        store.start(lease)
        renewing = Renewing(self, lease, term)
        self.guard.mail.put("start", Start(lease, term.deadline_ns))
        gone, answered = self._watch(renewing)
        renewing.stopped = True
        self.served = True
        try:
            store.release(lease, clean=gone, answered=answered)
        except LeaseLost:
            if gone:
                store.bury(lease)
            raise

    def _watch(self, renewing: "Renewing") -> tuple[bool, bool]:
        """Wait until the guard reports the end of the tree; return whether nothing of it is left, and it ended well."""
        while True:
            self.mail.wait(None)
            subject, body = self.mail.items.pop(0)
            if subject == "ended":
                return True, bool(body)
            if subject == "guard gone":
                traces = Traces(self._claim.run_id, self.guard.process.id, None)
                return SimProcesses(self.process).end(traces, grace_seconds=0, kill_seconds=10), False
            if subject == "news" and renewing.kept.lost:
                self.guard.mail.put("end")
            elif subject == "news":
                self.guard.mail.put("deadline", renewing.term.deadline_ns)

    def _open_gate(self, target: str, _: str) -> SimGate:
        gate = self.stage.gate(target, self.process)
        gate.owed = target not in self._order.gates
        return gate


class Work:
    """What an agent does: reads counters and writes them back, one higher, through their gates."""

    def __init__(self, stage: Stage, agent: Agent) -> None:
        self._stage = stage
        self._agent = agent
        names = [name for resource in agent.lease.resources for name in GATES_OF[resource]]
        targets = [target for target in map(stage.target, names) if target in agent.lease.gates]
        self._gates = [stage.gate(target, agent) for target in targets]
        self._refusals = 0
        self._proof: Proof = proof_of(agent.lease, agent.host.name)

    def do(self) -> None:
        """Work; a stubborn agent is not put off by a refusal, which must not help it."""
        world, knobs = self._stage.world, self._stage.knobs
        left = world.rng.choice((8, 20) if knobs.long_lives else (1, 4, 8))
        while left > 0:
            left -= 1
            try:
                self._increment()
            except FenceRefused:
                left = 0 if self._agent.obeys else left + max(0, REFUSALS - self._refusals)
                self._refusals += 1
            except Misconfigured:
                world.totals["writes with unknown outcome"] += 1
            else:
                world.totals["writes acknowledged"] += 1
        self._agent.exit_code = 0
        self._agent.kill("exit")

    def _increment(self) -> None:
        """Read, think, write: whatever comes between must not be overwritten."""
        world, knobs = self._stage.world, self._stage.knobs
        gate = world.rng.choice(self._gates)
        value = gate.read()
        part = world.rng.choice((0.01, 0.6) if knobs.long_lives else (0.0, 0.01, 0.3))
        self._agent.clock.sleep(part * knobs.ttl_seconds * world.rng.random())
        gate.write(self._proof, value + 1)


def _draw_order(stage: Stage, *, last: bool, resources: tuple[str, ...] | None) -> Order:
    rng = stage.world.rng
    resources = resources or _draw_resources(stage)
    names = [GATES_OF[resource][0] for resource in resources]
    if "lock:a" in resources and stage.world.chance(0.4):
        names.append("x.json")
    waits = (10.0,) if stage.knobs.patient else (None, 2.0, 10.0) if stage.knobs.waits else (None,)
    wait = float("inf") if last else rng.choice(waits)
    return Order(
        argv=(),
        tenant=TENANT,
        resources=resources,
        label="",
        ttl_seconds=stage.knobs.ttl_seconds,
        wait_seconds=wait if wait is None else wait * stage.knobs.ttl_seconds,
        gates=tuple(map(stage.target, names)),
    )


def _draw_resources(stage: Stage) -> tuple[str, ...]:
    return stage.world.rng.choice((("lock:a",), ("lock:a",), ("lock:a",), ("lock:b",), ("lock:a", "lock:b")))
