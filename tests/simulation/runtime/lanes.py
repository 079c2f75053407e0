"""A lane: leases runs in batches, has them called one after the other, and settles them in batches, in one verb.

The keeper's order of work is an imitation of `service.lane`; its verb, its decisions and its renewals are the product's.
The runner is played as one process after the other, because a function that ends its process takes the runner along.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from fencepost.flow.run_recheck import recheck_for
from fencepost.model.definition import agent_from_json, gate_targets, retry_of, timeouts_of
from fencepost.model.errors import FencepostError, FenceRegress, LeaseLost, StoreUnavailable
from fencepost.model.instants import from_us
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.outcome import Failed, Lost, NotStarted, Outcome, Stopped, Succeeded, TimedOut
from fencepost.model.retry import settle
from fencepost.model.run import Reason, RunId
from fencepost.ports.alike_runs import AlikeEnds, AlikeRuns
from fencepost.ports.processes import Traces
from fencepost.ports.runs import Ended, LaneRequest, LeasedRun, Report, RunRow, Turned
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order
from fencepost.service.custody import Term
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.hosts import Process
from tests.simulation.keepers import Guard, Renewing, Start
from tests.simulation.ports import Agent, SimProcesses
from tests.simulation.runtime.stage import Stage
from tests.simulation.world import Mailbox

if TYPE_CHECKING:
    from tests.simulation.runtime.stations import Station

AGAIN_SECONDS = 0.2
TURNS_MAX = 12  # then the lane ends, and the worker starts another if there is work
PATIENCE_PART = 0.5


class Lane:
    """The keeper with its guard."""

    def __init__(self, stage: Stage, station: "Station", name: str) -> None:
        self.stage = stage
        self.run_id = name
        self.process = Process(station.process.host, name)
        self.mail = Mailbox(stage.world)
        self.guard = Guard(self)
        self.draining = station.draining
        self._store: RuntimeStore = stage.runtime(self.process)
        self._agent: Agent | None = None
        self._called: LeasedRun | None = None
        self._why: str | None = None
        self._done: list[Ended] = []
        self._leased: Sequence[LeasedRun] = ()
        self._batch: tuple[Lease, Term, Renewing] | None = None
        self.process.at_death.append(self.guard.hang_up)
        station.process.at_death.append(lambda: self.mail.put("worker gone"))
        self.process.spawn("main", self._main)

    def open_store(self) -> RuntimeStore:
        return self.stage.runtime(self.process)

    def drain(self) -> None:
        """Be told that the worker stops."""
        self.draining = True

    def work_of(self, agent: Agent) -> Callable[[], None]:
        assert self._called is not None
        self._agent = agent
        self.stage.observer.started(agent, self._called)
        return lambda: self._function(agent)

    def _function(self, agent: Agent) -> None:
        world = self.stage.world
        agent.clock.sleep(world.rng.choice((0.0, 0.01, 0.2 * self.stage.knobs.ttl_seconds)) * world.rng.random())
        agent.exit_code = 0 if world.quiet else world.rng.choice((0, 0, 0, 1, 137))
        agent.kill("exit")

    def _main(self) -> None:
        try:
            for _ in range(TURNS_MAX):
                leased = self._turn(lease=not self.draining and self._why is None)
                if not leased:
                    break
                self._batch_of(leased)
            self._turn(lease=False)
        except (LeaseLost, StoreUnavailable) as error:
            self.stage.world.log(self.process.name, f"ends without a word: {type(error).__name__}")
        self.process.kill("exit")

    def _turn(self, *, lease: bool) -> Sequence[LeasedRun]:
        """Settle what is done, close its lease, and lease the next; ask until there is an answer or the time is up."""
        term = Term(self.process.clock, counts_sleep=self.stage.knobs.many_hosts)
        plot = self.stage.plot
        claim = Claim(
            self.stage.new_id("lease"),
            "",
            (),
            self.run_id,
            self.stage.knobs.ttl_seconds,
            self.process.id,
            guard=self.guard.process.id,
            label="lane",
        )
        wanted = LaneRequest(claim, plot.lane_batch, plot.lane_starts, _gates_of, recheck_for) if lease else None
        closing = [self._batch[0]] if self._batch else []
        if self._done:
            self.stage.faults.freeze(self.process)
        turned, asked_ns = self._ask(closing, wanted, term)
        done, self._done = self._done, []
        if self._batch:
            self._batch[2].stopped = True
            self._batch = None
        for one in done:
            if one.leased.run.id not in turned.lost:
                self.stage.observer.settled_as(one.leased, one.report.outcome)
        if turned.leased:
            term.extend(self.stage.knobs.ttl_seconds, asked_ns=asked_ns)
            whole = turned.leased[0].lease
            self._batch = (whole, term, Renewing(self, whole, term))
            self.stage.world.totals["runs leased by lanes"] += len(turned.leased)
        self._leased = turned.leased
        return turned.leased

    def _ask(self, closing: list[Lease], wanted: LaneRequest | None, term: Term) -> tuple[Turned, int]:
        while True:
            asked_ns = term.now_ns()
            try:
                return self._store.turn(_together(self._leased, self._done), closing, wanted), asked_ns
            except StoreUnavailable:
                if self._batch is None or self._batch[1].over:
                    raise
                self._store = self.stage.runtime(self.process)
                self.process.clock.sleep(AGAIN_SECONDS)
                wanted = wanted._replace(again=True) if wanted else None

    def _batch_of(self, leased: Sequence[LeasedRun]) -> None:
        for one in leased:
            self.stage.observer.leased(one)
            if self._why is not None or self.draining or self._is_late():
                self._finish(one, Lost(started=False), began=False)
            elif one.started or self._make_ready(one):
                self._call(one)

    def _make_ready(self, one: LeasedRun) -> bool:
        """End predecessors, raise the gates, put the start on record; or say why it cannot start."""
        ttl = self.stage.knobs.ttl_seconds
        order = Order((), one.run.tenant, one.lease.resources, "", ttl, gates=one.lease.gates)
        try:
            admission = Admission(order, self.stage.tools(self.process), self._store, wait=self.process.clock.sleep)
            admission.prepare(Granted(one.lease, one.predecessors))
            self._store.start_run(one)
        except LeaseLost:
            self._finish(one, Lost(started=False), began=False)
        except FenceRegress as error:
            self.stage.world.fail("no regress", str(error))
        except FencepostError:
            self._finish(one, NotStarted(Reason.GATE_UNREACHABLE), began=False)
        else:
            return True
        return False

    def _call(self, one: LeasedRun) -> None:
        """Have one run called under the guard, whose deadline is that of the batch's lease."""
        assert self._batch is not None
        self._called, self._agent = one, None
        self.guard.mail.put("start", Start(one.lease, self._batch[1].deadline_ns))
        began_ns = self.process.clock.awake_ns()
        limit = timeouts_of(agent_from_json(one.run.manifest))
        patience_ns = self.process.host.time.true_ns(PATIENCE_PART * self.stage.knobs.ttl_seconds)
        while True:
            self.mail.wait(patience_ns)
            items, self.mail.items[:] = list(self.mail.items), []
            subjects = [subject for subject, _ in items]
            if "ended" in subjects or "guard gone" in subjects:
                self._ended(one, guard_gone="guard gone" in subjects)
                return
            if "worker gone" in subjects:
                self._end("worker gone")
            if self._is_late():
                self._end("lost")
            ran_for = timedelta(microseconds=(self.process.clock.awake_ns() - began_ns) / 1000)
            if limit.exceeded(ran_for=ran_for, silent_for=timedelta(0)) is not None:
                self._end(Reason.TIMEOUT.value)
            self.guard.mail.put("deadline", self._batch[1].deadline_ns)
            self._look_for_stop(one)

    def _look_for_stop(self, one: LeasedRun) -> None:
        try:
            asked = self._store.stops_asked(one.lease)
        except (LeaseLost, StoreUnavailable):
            return
        if one.run.id in asked:
            self._end(f"stop {asked[one.run.id]}")

    def _end(self, why: str) -> None:
        if self._why is None:
            self._why = why
            self.guard.mail.put("end")

    def _ended(self, one: LeasedRun, *, guard_gone: bool) -> None:
        if guard_gone:
            self._why = "guard gone"
            traces = Traces(self.run_id, self.guard.process.id, None)
            SimProcesses(self.process).end(traces, grace_seconds=0, kill_seconds=10)
        if self._agent is None:  # too late to start, or the guard died before
            self._why = self._why or "lost"
            self._finish(one, Lost(started=False), began=False)
            return
        why = self._why or self._agent.why_ended
        code = self._agent.exit_code
        if why in ("lost", "deadline", "worker gone", "guard gone", "supervisor gone"):
            self._finish(one, Lost(started=True))
        elif why == Reason.TIMEOUT.value:
            self._finish(one, TimedOut(Reason.TIMEOUT))
        elif why.startswith("stop "):
            self._finish(one, Stopped(Reason(why.removeprefix("stop "))))
        else:
            self._finish(one, Succeeded() if code == 0 else Failed(137 if code is None else code))

    def _finish(self, one: LeasedRun, outcome: Outcome, *, began: bool = True) -> None:
        run, retry = one.run, retry_of(agent_from_json(one.run.manifest))
        now = from_us(self.process.clock.wall_us() if isinstance(outcome, Succeeded) else self._store_us())
        settlement = settle(outcome, run_id=RunId(run.id), attempt=run.attempt, retry=retry, now=now)
        code = outcome.exit_code if isinstance(outcome, Failed) else 0 if isinstance(outcome, Succeeded) else None
        report = Report(outcome=type(outcome).__name__.lower(), exit_code=code if began else None)
        self._done.append(Ended(one, settlement, report, began=began))

    def _store_us(self) -> int:
        while True:
            try:
                return self._store.clock_us()
            except StoreUnavailable:
                if self._is_late():
                    raise
                self.process.clock.sleep(AGAIN_SECONDS)

    def _is_late(self) -> bool:
        return self._batch is not None and (self._batch[1].over or self._batch[2].kept.lost is not None)


def _gates_of(run: RunRow) -> tuple[str, ...]:
    return gate_targets(agent_from_json(run.manifest))


def _together(leased: Sequence[LeasedRun], done: Sequence[Ended]) -> Sequence[Ended]:
    """Say the same of all at once where runs that were taken together simply succeeded, as a lane does."""
    if not isinstance(leased, AlikeRuns) or len(done) != len(leased) or not all(map(_is_plain, done)):
        return done
    return AlikeEnds(leased, done[0].settlement, done[0].report)


def _is_plain(one: Ended) -> bool:
    return one.began and one.clean and one.report == Report("succeeded", exit_code=0)
