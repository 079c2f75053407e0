"""Who stands between a run and its agent: the renewer's thread, and the guard. The supervisors are elsewhere."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from fencepost.model.lease import Lease, kill_grace, renew_every
from fencepost.ports.processes import Traces
from fencepost.ports.store import LeaseStore
from fencepost.service.custody import Custody, Term
from tests.simulation.checker import Checker
from tests.simulation.faults import Faults, Knobs
from tests.simulation.hosts import Process
from tests.simulation.ports import Agent, SimProcesses
from tests.simulation.world import Mailbox, World

LOOK_SECONDS = 1.0  # as the guard does where leases run on during sleep


class TargetScene(Protocol):
    """What a guard has to know of the world."""

    @property
    def world(self) -> World: ...

    @property
    def knobs(self) -> Knobs: ...

    @property
    def faults(self) -> Faults: ...

    @property
    def checker(self) -> Checker: ...


class Supervised(Protocol):
    """A supervisor, as its guard and its renewer see it."""

    @property
    def stage(self) -> TargetScene: ...

    @property
    def process(self) -> Process: ...

    @property
    def mail(self) -> Mailbox: ...

    @property
    def run_id(self) -> str: ...

    def open_store(self) -> LeaseStore: ...

    def work_of(self, agent: Agent) -> Callable[[], None]: ...


class Renewing:
    """The renewer's own thread of the supervisor."""

    def __init__(self, run: Supervised, lease: Lease, term: Term) -> None:
        self.custody = Custody(run.open_store, run.process.clock, counts_sleep=term.counts_sleep)
        self.kept = self.custody.keep(lease, term)
        self.term = term
        self.stopped = False
        self._run = run
        self._first_seconds = renew_every(lease.ttl_seconds)
        run.process.spawn("renew", self._loop)

    def _loop(self) -> None:
        pause = self._first_seconds
        while not self.kept.lost:
            self._run.process.clock.sleep(pause)
            if self.stopped:
                return
            pause = self.custody.step()
            self._run.mail.put("news")
        if "not renewed in time" in self.kept.lost:
            self._run.stage.world.totals["self-fences on silence"] += 1


class Start(NamedTuple):
    """What the guard is told."""

    lease: Lease
    deadline_ns: int


class Guard:
    """The process between supervisor and agent that outlives neither its deadline nor the supervisor."""

    def __init__(self, run: Supervised) -> None:
        self.agent: Agent | None = None
        self._run = run
        self._world = run.stage.world
        self.process = Process(run.process.host, f"{run.process.name}.guard")
        self.mail = Mailbox(self._world)
        self._deadline_ns = 0
        self._grace = kill_grace(run.stage.knobs.ttl_seconds)
        self._counts_sleep = run.stage.knobs.many_hosts
        self.process.at_death.append(lambda: run.mail.put("guard gone"))
        self.process.spawn("main", self._main)

    def hang_up(self) -> None:
        """Close the supervisor's end of the line, as its death does."""
        self.mail.put("hang up")

    def _main(self) -> None:
        closed = False
        while not closed:
            closed = self._receive(None)
            while self.agent is not None and self.agent.alive:
                closed = self._receive(self._patience_ns()) or closed
                if closed:
                    self._end("supervisor gone")
                elif self._now_ns() >= self._deadline_ns:
                    self._world.totals["ended by the guard at the deadline"] += 1
                    self._end("deadline")
            if self.agent is not None:
                self._run.mail.put("ended", self.agent.exit_code == 0)
                self.agent = None
        self.process.kill("exit")

    def _receive(self, ns: int | None) -> bool:
        """Obey what has come; that the line is closed shows only when nothing else is left to read."""
        self.mail.wait(ns)
        said = [item for item in self.mail.items if item[0] != "hang up"]
        hung_up = self._hung_up()
        self.mail.items[:] = [("hang up", None)] if said and hung_up else []
        for subject, body in said:
            self._obey(subject, body)
        return hung_up and not said

    def _obey(self, subject: str, body: object) -> None:
        if subject == "start":
            assert isinstance(body, Start)
            self._deadline_ns = body.deadline_ns
            self._start(body.lease)
        elif subject == "deadline":
            assert isinstance(body, int)
            self._deadline_ns = body
        elif subject == "end":
            self._end("lost")

    def _start(self, lease: Lease) -> None:
        if self._hung_up() or self._now_ns() >= self._deadline_ns:
            self._world.log(self.process.name, "comes too late to start")
            self._world.totals["starts that came too late"] += 1
            self._run.mail.put("ended", False)
            return
        if self._world.chance(self._run.stage.knobs.worst / 2) and not self._world.quiet:
            self._run.process.kill("kill -9 as the agent is about to start")
        self._run.stage.faults.freeze(self.process)
        obeys = not self._world.chance(self._run.stage.knobs.stubborn)
        self.agent = Agent(self.process.host, f"{self._run.process.name}.agent", lease, guard=self.process, obeys=obeys)
        self.agent.run_id = self._run.run_id  # by which its processes are found; in a lane, that of the lane
        self.agent.at_death.append(lambda: self.mail.put("child"))
        self._world.log(self.agent.name, f"starts with {lease.fence}")
        self._run.stage.checker.started(self.agent)
        self.agent.spawn("main", self._run.work_of(self.agent))

    def _hung_up(self) -> bool:
        return any(subject == "hang up" for subject, _ in self.mail.items)

    def _end(self, why: str) -> None:
        self._world.log(self.process.name, f"ends the tree: {why}")
        if self.agent is not None and self.agent.alive:
            self.agent.why_ended = why
        traces = Traces(self._run.run_id, self.process.id, None)
        SimProcesses(self.process).end(traces, grace_seconds=self._grace, kill_seconds=10)

    def _patience_ns(self) -> int:
        left = max(0.0, (self._deadline_ns - self._now_ns()) / 1e9)
        return self.process.host.time.true_ns(min(left, LOOK_SECONDS) if self._counts_sleep else left)

    def _now_ns(self) -> int:
        return self.process.clock.boot_ns() if self._counts_sleep else self.process.clock.awake_ns()
