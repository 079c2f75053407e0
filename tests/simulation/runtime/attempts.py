"""One attempt at a run: the order of work of the product's own, with the product's own decisions."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.settler import Settler
from fencepost.model.definition import agent_from_json, gate_targets, hash_of, retry_of, timeouts_of
from fencepost.model.errors import (
    FencepostError,
    FenceRefused,
    FenceRegress,
    LeaseLost,
    Misconfigured,
    StoreUnavailable,
)
from fencepost.model.gate import proof_of
from fencepost.model.instants import from_us
from fencepost.model.lease import Claim, Granted
from fencepost.model.outcome import Failed, Interrupted, Lost, NotStarted, Outcome, Stopped, Succeeded, TimedOut
from fencepost.model.retry import DrainStep, drain
from fencepost.model.run import Reason
from fencepost.ports.processes import Traces
from fencepost.ports.runs import Ended, LeasedRun, Report, RunRow
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order
from fencepost.service.custody import Term
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.hosts import Process
from tests.simulation.keepers import Guard, Renewing, Start
from tests.simulation.ports import Agent, SimProcesses
from tests.simulation.runtime.effects import Habit, answer
from tests.simulation.runtime.grounds import Ground
from tests.simulation.runtime.stage import Stage
from tests.simulation.world import Mailbox

if TYPE_CHECKING:
    from tests.simulation.runtime.stations import Station

EXIT_CODES = (0, 0, 0, 0, 1, 1, 3, 77, 137)
SETTLE_AGAIN_SECONDS = 0.5
LOOK_PART = 0.5  # of a ttl, between two looks whether somebody asked us to stop


class Attempt:
    """A supervisor process with its guard, from the lease to the settlement."""

    PATIENT = True  # an end is tried to be written down for as long as it takes

    def __init__(self, stage: Stage, station: "Station", name: str) -> None:
        self.stage = stage
        self.run_id = ""
        self.process = Process(station.process.host, name)
        self.mail = Mailbox(stage.world)
        self.guard = Guard(self)
        self.found: LeasedRun | None = None
        self.draining = station.draining
        self._station = station
        self._store: RuntimeStore = stage.runtime(self.process)
        self._term = Term(self.process.clock, counts_sleep=stage.knobs.many_hosts)
        self._why: str | None = None
        self._has_checkpoint = False
        self._drain_ns: int | None = None
        self._agent: Agent | None = None
        self._ground = Ground(stage.plot)
        self.process.at_death.append(self.guard.hang_up)
        station.process.at_death.append(lambda: self.mail.put("worker gone"))
        self.process.spawn("main", self._main)

    def open_store(self) -> RuntimeStore:
        return self.stage.runtime(self.process)

    def drain(self) -> None:
        """Be told that the worker stops."""
        self.mail.put("drain")

    def _main(self) -> None:
        try:
            self._run()
        except (LeaseLost, StoreUnavailable) as error:
            self.stage.world.log(self.process.name, f"ends without a word: {type(error).__name__}")
        self.process.kill("exit")

    def _run(self) -> None:
        asked_ns = self._term.now_ns()
        found = self._store.lease_run(self._claim, recheck_for, places=self._ground.places())
        if found is None:
            self._station.came_in_vain()
            return
        self.found, self.run_id = found, found.run.id
        self.stage.observer.leased(found)
        self._term.extend(self.stage.knobs.ttl_seconds, asked_ns=asked_ns)
        self._definition = agent_from_json(found.run.manifest)
        outcome, started = self._carry_out(found)
        self._settle(found, outcome, started=started)

    def _claim(self, run: RunRow) -> Claim | None:
        project = agent_from_json(run.manifest).project
        here = self._ground.find(project) if project else None
        if project and here is None:
            return None
        return claim_for(
            run,
            lease_id=self.stage.new_id("lease"),
            supervisor=self.process.id,
            guard=self.guard.process.id,
            ttl_seconds=self.stage.knobs.ttl_seconds,
            gates=gate_targets(agent_from_json(run.manifest)),
            label=run.schedule or run.agent,
            also=(here.resource,) if here else (),
            slots=here.slots if here else 1,
        )

    def _carry_out(self, found: LeasedRun) -> tuple[Outcome, bool]:
        """Return how it ended, and whether the agent was started."""
        if hash_of(found.run.manifest) != found.run.manifest_hash:
            return NotStarted(Reason.MISCONFIGURED), False
        try:
            self._prepare(found)
        except FenceRegress as error:
            self.stage.world.fail("no regress", str(error))
        except LeaseLost:
            return Lost(started=False), False
        except FencepostError:
            return NotStarted(Reason.GATE_UNREACHABLE), False
        return self._work(found)

    def _prepare(self, found: LeasedRun) -> None:
        order = Order(
            (), found.run.tenant, found.lease.resources, "", self.stage.knobs.ttl_seconds, gates=found.lease.gates
        )
        admission = Admission(order, self.stage.tools(self.process), self._store, wait=self.process.clock.sleep)
        admission.prepare(Granted(found.lease, found.predecessors))

    def _work(self, found: LeasedRun) -> tuple[Outcome, bool]:
        self._has_checkpoint = self._store.checkpoint(found.run.id) is not None
        self.stage.faults.freeze(self.process)
        self._store.start_run(found)
        renewing = Renewing(self, found.lease, self._term)
        self.guard.mail.put("start", Start(found.lease, self._term.deadline_ns))
        try:
            return self._watch(found, renewing)
        finally:
            renewing.stopped = True

    def _watch(self, found: LeasedRun, renewing: Renewing) -> tuple[Outcome, bool]:
        began_ns, looked_ns = self.process.clock.awake_ns(), self.process.clock.awake_ns()
        look_seconds = LOOK_PART * self.stage.knobs.ttl_seconds
        while True:
            self.mail.wait(self.process.host.time.true_ns(look_seconds))
            items, self.mail.items[:] = list(self.mail.items), []
            for subject, body in items:
                if subject in ("ended", "guard gone"):
                    return self._ended(subject)
                self._hear(subject, body, renewing)
            self._look_at_limits(began_ns)
            now_ns = self.process.clock.awake_ns()
            if self._why is None and now_ns - looked_ns >= look_seconds * 1e9:
                looked_ns = now_ns
                self._look_for_stop(found)

    def _hear(self, subject: str, body: object, renewing: Renewing) -> None:
        if subject == "news" and renewing.kept.lost:
            self._end("lost")
        elif subject == "news":
            self.guard.mail.put("deadline", self._term.deadline_ns)
        elif subject == "worker gone":
            self._end("worker gone")
        elif subject == "drain":
            self._drain_ns = self._drain_ns or self.process.clock.awake_ns()
        elif subject == "ask":
            assert self.found is not None
            trusted = self._why is None and not self._term.over and not renewing.kept.lost
            self._dawdle()
            answer(body, self.found.lease, self._store, trusted=trusted)
        elif subject == "checkpoint":
            assert isinstance(body, str)
            self._keep(body)

    def _keep(self, content: str) -> None:
        """Answer the agent's socket: only while the lease can be trusted."""
        assert self.found is not None
        if self._why or self._term.over:
            return
        self._dawdle()
        try:
            self._store.put_checkpoint(self.found.lease, content)
        except (LeaseLost, StoreUnavailable):
            return
        self._has_checkpoint = True
        self.stage.observer.kept(self.found, content)

    def _dawdle(self) -> None:
        """Be frozen, now and then, between the look at the lease and the word to the store that rests on it."""
        if self.stage.world.chance(0.3):
            self.stage.faults.freeze(self.process)

    def _look_at_limits(self, began_ns: int) -> None:
        ran_for = timedelta(microseconds=(self.process.clock.awake_ns() - began_ns) / 1000)
        over = timeouts_of(self._definition).exceeded(ran_for=ran_for, silent_for=timedelta(0))
        if self._term.over:
            self._end("lost")
        if over is not None:
            self._end(over.reason.value)
        if self._drain_ns is not None and self._drained():
            self._end("drain")

    def _drained(self) -> bool:
        assert self._drain_ns is not None
        now = from_us(self.process.clock.wall_us())
        waited = timedelta(microseconds=(self.process.clock.awake_ns() - self._drain_ns) / 1000)
        deadline_at = now + timedelta(seconds=self.stage.plot.drain_seconds) - waited
        step = drain(retry_of(self._definition), resumable=self._has_checkpoint, now=now, deadline_at=deadline_at)
        return step is not DrainStep.KEEP

    def _look_for_stop(self, found: LeasedRun) -> None:
        try:
            asked = self._store.stops_asked(found.lease).get(self.run_id)
        except StoreUnavailable:
            return  # the renewal finds out, and says so
        if asked:
            self._end(f"stop {asked}")

    def _end(self, why: str) -> None:
        if self._why is None:
            self._why = why
            self.stage.world.log(self.process.name, f"ends its agent: {why}")
            self.guard.mail.put("end")

    def _ended(self, how: str) -> tuple[Outcome, bool]:
        if how == "guard gone":
            traces = Traces(self.run_id, self.guard.process.id, None)
            SimProcesses(self.process).end(traces, grace_seconds=0, kill_seconds=10)
            return Lost(started=True), True
        if self._agent is None:  # the guard found itself too late
            raise LeaseLost("the lease ran out before the start.")
        why = self._why or self._agent.why_ended
        code = self._agent.exit_code
        if why in ("lost", "deadline", "worker gone"):
            return Lost(started=True), True
        if why == Reason.TIMEOUT.value:
            return TimedOut(Reason.TIMEOUT), True
        if why == "drain":
            return Interrupted(resumable=self._has_checkpoint), True
        if why.startswith("stop "):
            return Stopped(Reason(why.removeprefix("stop "))), True
        return (Succeeded() if code == 0 else Failed(137 if code is None else code)), True

    def _settle(self, found: LeasedRun, outcome: Outcome, *, started: bool) -> None:
        """Write the end down; a known end is never given up because the store was away, however long that lasts."""
        self.stage.faults.freeze(self.process)
        told = type(outcome).__name__.lower()
        code = outcome.exit_code if isinstance(outcome, Failed) else 0 if isinstance(outcome, Succeeded) else None
        settler = Settler(lambda: from_us(self._store.clock_us()), self._store.attempts)
        while True:
            try:
                settlement = settler.decide(found.run, outcome)
                end = Ended(found, settlement, Report(told, code), began=started)
                if not self._store.settle_runs([end]):
                    self.stage.observer.settled_as(found, told)
            except StoreUnavailable:
                if not self.PATIENT:
                    self.stage.world.fail("kept", f"the end of {found.run.id} was given up")
                self.process.clock.sleep(SETTLE_AGAIN_SECONDS)
            else:
                return

    def work_of(self, agent: Agent) -> Callable[[], None]:
        assert self.found is not None
        self._agent = agent
        self.stage.observer.started(agent, self.found)
        return Labour(self, agent, self.found).do


class Labour:
    """What an agent does: it works for a while, leaves checkpoints, writes through its gates, and ends somehow."""

    def __init__(self, attempt: Attempt, agent: Agent, found: LeasedRun) -> None:
        self._attempt = attempt
        self._agent = agent
        self._stage = attempt.stage
        self._gates = [self._stage.gate(target, agent) for target in found.lease.gates]
        self._proof = proof_of(found.lease, agent.host.name)
        self._done = int(found.checkpoint or 0) if found.run.resume else 0
        self._habit = Habit(self._stage.world, self._stage.outside, agent, attempt.mail, found.run.id)

    def do(self) -> None:
        world, ttl = self._stage.world, self._stage.knobs.ttl_seconds
        steps = self._done + world.rng.choice((1, 2, 4))
        keeps = world.chance(0.6)
        pace = world.rng.choice((0.05, 0.3, 1.0)) * ttl
        while self._done < steps:
            self._agent.clock.sleep(pace * world.rng.random())
            self._done += 1
            if self._gates and not self._increment():
                break
            if world.chance(self._stage.plot.effects) and not self._habit.have(self._done):
                break
            if keeps and self._attempt.process.alive:
                self._attempt.mail.put("checkpoint", str(self._done))
        self._agent.exit_code = 0 if world.quiet else world.rng.choice(EXIT_CODES)
        self._agent.kill("exit")

    def _increment(self) -> bool:
        """Read, think, write; return whether to go on."""
        gate = self._stage.world.rng.choice(self._gates)
        value = gate.read()
        self._agent.clock.sleep(0.1 * self._stage.knobs.ttl_seconds * self._stage.world.rng.random())
        try:
            gate.write(self._proof, value + 1)
        except FenceRefused:
            return not self._agent.obeys
        except Misconfigured:
            self._stage.world.totals["writes with unknown outcome"] += 1
        else:
            self._stage.world.totals["writes acknowledged"] += 1
        return True
