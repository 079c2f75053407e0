"""One attempt at a run, in a process of its own: lease, raise the gates, start, watch, settle.

The process belongs to one worker and ends with it. Its standard descriptors are the agent's: the payload to read,
and a pipe to the log to write, so that guard and agent inherit them without further ado.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencepost.flow.leasing import claim_for, recheck_for, understood
from fencepost.host import cgroup
from fencepost.host.logs import LogFile, last_lines, log_path
from fencepost.host.project import merge_gate
from fencepost.model.budget import parse_usd
from fencepost.model.definition import AgentDefinition, agent_from_json, gate_targets, hash_of, retry_of, timeouts_of
from fencepost.model.errors import FencepostError, FenceRegress, Invalid, LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.lease import Claim, Granted, kill_grace, renew_every
from fencepost.model.light import NamedTuple, Protocol
from fencepost.model.moment import from_us
from fencepost.model.outcome import Lost, NotStarted, Outcome, OverBudget, Settlement, Succeeded, TimedOut
from fencepost.model.retry import DrainStep, drain, settle
from fencepost.model.run import Reason, RunId
from fencepost.ports.engine import Engine, Launch, Setting
from fencepost.ports.processes import Traces
from fencepost.ports.runs import LeasedRun, Report, RunRow, RunStore
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.agent_environment import build_environment, secrets_of
from fencepost.service.answers import Answers
from fencepost.service.ends import INTERRUPTS, LOSSES, outcome_of, shown_code
from fencepost.service.guard import ASK_PART, KILL_SECONDS, GuardHandle, post_guard
from fencepost.service.line import Message
from fencepost.service.listening import DONE, Listening, Told
from fencepost.service.order import Order, Tools
from fencepost.service.output import Output, fill_standard_input, let_go_of_standard, take_standard
from fencepost.service.projects import Grounds
from fencepost.service.renewal import Renewal, Renewer, Term
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_folder import plan_run_folder
from fencepost.service.run_socket import RunSocket
from fencepost.service.signals import Mailbox
from fencepost.service.spans import Told as ToldSpan
from fencepost.service.spans import tell_span, wants_spans
from fencepost.service.stopwatch import Stopwatch

if TYPE_CHECKING:
    from fencepost.model.project import Project

NOTHING_TO_DO, WORKED = 75, 0
OVERDUE_PART = 0.8
SETTLE_AGAIN_SECONDS = 0.5


class Bench(NamedTuple):
    """What an attempt needs of its worker."""

    tools: Tools
    open_runtime: Callable[[], "AttemptStore"]
    engine_of: Callable[[str], Engine]
    folder: str  # the agent's working directory
    log_folder: str
    ttl_seconds: float
    drain_timeout: timedelta
    grounds: Grounds = Grounds()


class AttemptStore(RunStore, LeaseStore, Protocol):
    """The verbs that an attempt uses."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...


def attempt(bench: Bench, *, worker_alive: int, leased: Callable[[bool], None]) -> int:
    """Carry out one attempt at whatever run is next; `worker_alive` is readable once the worker is gone."""
    os.setsid()  # a terminal's signals are the worker's business
    os.chdir(bench.folder)
    output = take_standard()
    guard = post_guard(bench.tools.clock, bench.tools.processes)
    let_go_of_standard()
    mailbox = Mailbox()
    try:
        store = bench.open_runtime()
        try:
            return _Attempt(bench, store, guard=guard, mailbox=mailbox, output=output, worker_alive=worker_alive).run(
                leased
            )
        finally:
            store.close()
    finally:
        guard.dismiss()
        mailbox.close()


class _Attempt:
    """From lease to settlement."""

    def __init__(
        self,
        bench: Bench,
        store: AttemptStore,
        *,
        guard: GuardHandle,
        mailbox: Mailbox,
        output: Output,
        worker_alive: int,
    ) -> None:
        self._bench = bench
        self._tools = bench.tools
        self._store = store
        self._guard = guard
        self._mailbox = mailbox
        self._output = output
        self._worker_alive = worker_alive
        self._term = Term(bench.tools.clock, counts_sleep=store.facts().counts_sleep)
        self._grace = kill_grace(bench.ttl_seconds)
        self._run_id = ""
        self._cgroup: str | None = None
        self._project: Project | None = None  # of the run that was claimed last
        self._trigger = ""
        self._folder: str | None = None  # where the agent works, if not where we do
        self._group = 0
        self._why: str | None = None  # why we are ending it
        self._overdue_ns = 0
        self._told_deadline_ns = 0
        self._ended: Message | None = None
        self._drain_ns: int | None = None
        self._listening: Listening | None = None
        self._told = Told()
        self._ask_ns: int | None = None  # when an interrupted agent that is still there is asked to stop

    def run(self, leased: Callable[[bool], None]) -> int:
        asked_ns = self._term.now_ns()
        found = self._store.lease_run(self._claim, recheck_for, places=self._bench.grounds.places())
        leased(found is not None)
        if found is None:
            return NOTHING_TO_DO
        self._term.extend(self._bench.ttl_seconds, asked_ns=asked_ns)
        self._run_id = found.run.id
        self._began_us = self._tools.clock.wall_us()
        self._agent = agent_from_json(found.run.manifest)
        self._trigger = found.run.trigger
        self._folder = self._project.path if self._project else None
        folder = plan_run_folder(found.run.id)
        self._guard.line.send(place=found.run.id, cgroup=self._cgroup, folder=folder.path)
        log = LogFile(log_path(self._bench.log_folder, found.run.id, found.lease.fence), self._agent.log_max)
        try:
            outcome, started = self._carry_out(found, log)
            self._settle(found, outcome, started=started)
        finally:
            log.close()
            folder.remove()
            if self._cgroup:
                cgroup.remove(self._cgroup)
        return WORKED

    def _claim(self, run: RunRow) -> Claim | None:
        """Claim what the run wants and its project; None if it works in one that is not here, or speaks of news."""
        if not understood(run):
            return None
        agent = agent_from_json(run.manifest)
        self._project = self._bench.grounds.find(run.tenant, agent.project) if agent.project else None
        if agent.project and self._project is None:
            return None
        shared = self._project if self._project and not self._project.isolates(run.trigger) else None
        self._cgroup = cgroup.plan(run.id)
        return claim_for(
            run,
            lease_id=os.urandom(16).hex(),
            supervisor=self._tools.processes.myself(),
            guard=self._guard.process,
            cgroup=self._cgroup,
            ttl_seconds=self._bench.ttl_seconds,
            gates=(*self._gates(agent), *self._merge_gates(run.trigger)),
            label=run.schedule or run.agent,
            also=(shared.resource,) if shared else (),
            slots=shared.slots if shared else 1,
        )

    def _gates(self, agent: AgentDefinition) -> tuple[str, ...]:
        """Spell each gate the one canonical way; one that this worker does not know is refused at its raise."""
        try:
            return tuple(self._tools.open_gate(target).target for target in gate_targets(agent))
        except FencepostError:
            return gate_targets(agent)

    def _merge_gates(self, trigger: str) -> tuple[str, ...]:
        """Keep an earlier attempt from merging once this one has started, whether this one will merge or not."""
        project = self._project
        if project is None or not project.isolates(trigger) or project.merge == "keep":
            return ()
        gate = merge_gate(project.path)
        return (gate,) if gate else ()

    def _carry_out(self, found: LeasedRun, log: LogFile) -> tuple[Outcome, bool]:
        """Return how it ended, and whether the agent was started."""
        try:
            if hash_of(found.run.manifest) != found.run.manifest_hash:
                raise Misconfigured("the manifest is not the one that was applied.")
            if self._is_used_up(found.run):
                return OverBudget(), False
            setting = Setting(plan_run_folder(found.run.id).path, found.session)
            launch = self._bench.engine_of(self._agent.engine).launch(self._agent, found.run, setting)
            self._output.keep(log, list(secrets_of(self._agent, os.environ).values()))
        except FencepostError as error:
            return self._not_started(log, error, Reason.MISCONFIGURED), False
        try:
            self._prepare(found, launch)
        except (FenceRegress, Invalid) as error:
            reason = Reason.FENCE_REGRESS if isinstance(error, FenceRegress) else Reason.MISCONFIGURED
            return self._not_started(log, error, reason), False
        except LeaseLost:
            return Lost(started=False), False
        except FencepostError as error:
            return self._not_started(log, error, Reason.GATE_UNREACHABLE), False
        renewer = Renewer(found.lease, self._term, self._bench.open_runtime)
        first = renew_every(found.lease.ttl_seconds)
        self._renewal = Renewal(renewer, first_in_seconds=first, term=self._term, tell=self._mailbox.nudge)
        try:
            return self._work_apart(found, launch, log) if self._isolated else self._work(found, launch, log)
        finally:
            self._renewal.stop()

    def _work_apart(self, found: LeasedRun, launch: Launch, log: LogFile) -> tuple[Outcome, bool]:
        """Work in a worktree of the run's own, and see to what is left in it, as long as the lease is ours."""
        from fencepost.service.workplace import Workplace  # others never need it

        assert self._project is not None
        self._renewal.start()  # a checkout may take longer than a lease lasts
        workplace = Workplace(self._tools, self._project, found.lease, self._check)
        try:
            worktree = workplace.enter()
        except LeaseLost:
            return Lost(started=False), False
        except FencepostError as error:
            return self._not_started(log, error, Reason.MISCONFIGURED), False
        self._folder = worktree.path
        outcome, started = self._work(found, launch, log)
        if isinstance(outcome, Lost) or not (self._ended is None or self._ended["gone"]):
            return outcome, started  # its successor sees to it, or a person
        try:
            for line in workplace.leave(worktree, succeeded=isinstance(outcome, Succeeded)):
                log.write(f"fencepost: {line}\n".encode(errors="replace"))
        except LeaseLost:
            return Lost(started=started), started
        return outcome, started

    @property
    def _isolated(self) -> bool:
        return self._project is not None and self._project.isolates(self._trigger)

    def _check(self) -> None:
        """Raise LeaseLost unless the run is ours for certain."""
        if self._renewal.lost or self._term.over:
            raise LeaseLost(self._renewal.lost or "it was not renewed in time.")

    def _is_used_up(self, run: RunRow) -> bool:
        """Tell whether earlier attempts have spent what one run may cost."""
        return bool(run.cost_micro) and self._left_micro(run) == 0

    def _left_micro(self, run: RunRow) -> int | None:
        """Return what the run may still cost; None: any amount."""
        if not self._agent.budget_usd:
            return None
        return max(0, parse_usd(self._agent.budget_usd) - (run.cost_micro or 0))

    def _prepare(self, found: LeasedRun, launch: Launch) -> None:
        """Raise every gate, then end what predecessors left here."""
        order = Order(
            launch.argv,
            found.run.tenant,
            found.lease.resources,
            label="",
            ttl_seconds=self._bench.ttl_seconds,
            gates=found.lease.gates,
        )
        admission = Admission(order, self._tools, self._store, wait=self._mailbox.wait)
        admission.prepare(Granted(found.lease, found.predecessors))

    def _not_started(self, log: LogFile, error: FencepostError, reason: Reason) -> Outcome:
        log.write(f"fencepost: not started: {error}\n".encode())
        return NotStarted(reason)

    def _work(self, found: LeasedRun, launch: Launch, log: LogFile) -> tuple[Outcome, bool]:
        folder = plan_run_folder(found.run.id)
        folder.make(found.run.payload)
        if found.run.resume:
            folder.put_checkpoint(found.checkpoint or "null")
        for name, text in launch.files:
            folder.put(name, text)
        fill_standard_input(found.run.payload if launch.stdin is None else launch.stdin)
        self._listen(found.run, launch, folder.path, log)
        key = os.urandom(24).hex()
        basics = Answers(found.lease, self._term, self._is_ending, self._store.ledger)
        gates = dict(zip(self._agent.gates, self._gates(self._agent), strict=True))
        answers = RunAnswers(basics, self._store, found.lease, gates)
        answering = RunSocket(folder.socket, key, answers.handlers())
        try:
            env = build_environment(os.environ, self._agent, found.run, found.lease, folder=folder, key=key)
            if not self._start(found, launch, {**env, **launch.env}, log):
                return NotStarted(Reason.MISCONFIGURED), False
            return self._watch(found, answering, answers), True
        finally:
            answering.close()

    def _listen(self, run: RunRow, launch: Launch, folder: str, log: LogFile) -> None:
        """Listen to an agent whose output is understood."""
        if launch.manner is None:
            return
        self._listening = Listening(
            launch,
            launch.manner,
            folder=folder,
            output=self._output,
            now_ns=self._tools.clock.awake_ns,
            budget_micro=self._left_micro(run),
        )
        self._listening.keep(log, list(secrets_of(self._agent, os.environ).values()))

    def _start(self, found: LeasedRun, launch: Launch, env: dict[str, str], log: LogFile) -> bool:
        self._store.start_run(found, session=launch.session)
        self._told_deadline_ns = self._term.deadline_ns
        self._guard.line.send(
            start={
                "argv": launch.argv,
                "env": env,
                "terminal": None,
                "folder": self._folder,
                "errors": self._listening.path if self._listening else None,
                "deadline_ns": self._term.deadline_ns,
                "counts_sleep": self._store.facts().counts_sleep,
                "grace_seconds": self._grace * ASK_PART,
            }
        )
        while not self._group and not self._guard.line.closed:
            for message in self._guard.line.receive():
                if "spawned" in message:
                    self._group = message["spawned"]
                elif "failed" in message:
                    log.write(f"fencepost: cannot run {launch.argv[0]!r}: {os.strerror(message['failed'])}.\n".encode())
                    return False
                elif "late" in message:
                    raise LeaseLost("the lease ran out before the start.")
                elif "ended" in message:
                    self._ended = message
        return True

    def _watch(self, found: LeasedRun, answering: RunSocket, answers: RunAnswers) -> Outcome:
        """Wait for everything at once until the guard reports the end of the tree."""
        line, mailbox = self._guard.line.fd, self._mailbox.fd
        clock = Stopwatch(self._tools.clock.awake_ns, timeouts_of(self._agent))
        fds = {line, mailbox, self._output.fd, self._worker_alive}
        if self._listening:
            fds.add(self._listening.errors.fd)
        while self._ended is None:
            ready, _, _ = select.select([*fds, *answering.fds()], [], [], self._patience(clock))
            if self._output.fd in ready and not self._output.drain():
                fds.discard(self._output.fd)
            self._note_progress(clock, answers, ready)
            if self._worker_alive in ready:
                fds.discard(self._worker_alive)
                self._end("worker gone", self._grace * ASK_PART)
            if mailbox in ready and signal.SIGTERM in self._mailbox.collect():
                self._drain_ns = self._drain_ns or self._tools.clock.awake_ns()
            self._hear_renewal()
            answering.serve(ready)
            if line in ready:
                self._hear_guard()
            if self._renewal.first_in_seconds() == 0:
                self._renewal.start()
            self._look(found, clock, resumable=self._is_resumable(answers))
            if self._why and self._term.now_ns() >= self._overdue_ns:
                self._guard.kill()
        self._output.finish()
        if self._listening:
            self._listening.finish()
        told = answers.told() if self._listening is None else self._listening.told()
        self._told = told._replace(summary=self._output.hide(told.summary) if told.summary else None)
        return self._outcome(self._ended, resumable=self._is_resumable(answers))

    def _note_progress(self, clock: Stopwatch, answers: RunAnswers, ready: list[int]) -> None:
        """Count signs of work: those in the output if it is understood, else any output."""
        if self._listening is None:
            clock.progress(self._output.seen + answers.progressed)
            return
        if self._listening.errors.fd in ready:
            self._listening.errors.drain()
        clock.progress(self._listening.work + answers.progressed)
        clock.calls(self._listening.open_calls)

    def _is_resumable(self, answers: RunAnswers) -> bool:
        return answers.has_checkpoint or (self._listening is not None and self._listening.resumable)

    def _patience(self, clock: Stopwatch) -> float:
        waits = [clock.left_seconds()]
        first = self._renewal.first_in_seconds()
        if first is not None:
            waits.append(first)
        if not self._why:
            waits.append(self._term.left_seconds)
            waits.append(self._listening.left_seconds() if self._listening else clock.left_seconds())
        if self._ask_ns is not None:
            waits.append((self._ask_ns - self._term.now_ns()) / 1e9)
        return max(0.0, min(waits))

    def _hear_guard(self) -> None:
        for message in self._guard.line.receive():
            if "ended" in message:
                self._ended = message
        if self._guard.line.closed and self._ended is None:
            traces = Traces(self._run_id, self._tools.processes.myself(), self._cgroup)
            gone = self._tools.processes.end(traces, grace_seconds=0, kill_seconds=KILL_SECONDS)
            self._ended = {"ended": 1 << 8, "gone": gone, "why": "guard gone"}

    def _hear_renewal(self) -> None:
        if self._renewal.lost:
            self._ask_ns = self._term.now_ns() if self._ask_ns is not None else None
            self._end("lost", 0)
        elif self._term.over:
            self._end("lost", self._grace * ASK_PART)
        elif self._told_deadline_ns != self._term.deadline_ns:
            self._told_deadline_ns = self._term.deadline_ns
            self._guard.line.send(deadline_ns=self._told_deadline_ns)

    def _look(self, found: LeasedRun, clock: Stopwatch, *, resumable: bool) -> None:
        """See whether a limit is reached, a drain is due, or somebody asked us to stop."""
        over = clock.exceeded()
        if over is not None:
            self._end(over.reason.value, self._grace * ASK_PART)
        if self._listening is not None:
            self._attend(self._listening, found)
        if self._drain_ns is not None and self._drained(resumable=resumable):
            self._end("drain", self._grace * ASK_PART)
        if self._ask_ns is not None and self._term.now_ns() >= self._ask_ns:
            self._ask(self._grace * ASK_PART)
        if clock.is_time_to_look() and not self._why:
            try:
                asked = self._store.stop_asked(found.lease)
            except (LeaseLost, StoreUnavailable):
                return  # the renewal finds out, and says so
            if asked:
                self._end(f"stop {asked}", self._grace * ASK_PART)

    def _attend(self, listening: Listening, found: LeasedRun) -> None:
        """Write down which conversation it is in, as soon as that is known; end it when its words give reason to."""
        session = listening.unnoted_session()
        if session is not None:
            with suppress(LeaseLost, StoreUnavailable):  # the renewal finds out; or it is tried again
                self._store.note_session(found.lease, session)
                listening.noted(session)
        due = listening.due()
        if due is not None:
            self._end(due, self._grace * ASK_PART)

    def _drained(self, *, resumable: bool) -> bool:
        assert self._drain_ns is not None
        now = from_us(self._tools.clock.wall_us())
        waited = timedelta(microseconds=(self._tools.clock.awake_ns() - self._drain_ns) / 1000)
        deadline_at = now + self._bench.drain_timeout - waited
        step = drain(retry_of(self._agent), resumable=resumable, now=now, deadline_at=deadline_at)
        return step is not DrainStep.KEEP

    def _end(self, why: str, grace_seconds: float) -> None:
        if self._why is None:
            self._why = why
            if self._listening and self._listening.interrupt_seconds and why in INTERRUPTS:
                self._guard.line.send(signal=int(signal.SIGINT), group=False)
                self._ask_ns = self._term.now_ns() + round(self._listening.interrupt_seconds * 1e9)
                self._overdue_ns = self._ask_ns + round(KILL_SECONDS * 1e9)
            else:
                self._ask(grace_seconds)

    def _ask(self, grace_seconds: float) -> None:
        """Let the guard end the tree."""
        self._ask_ns = None
        self._overdue_ns = self._term.now_ns() + round((self._grace * OVERDUE_PART + KILL_SECONDS) * 1e9)
        self._guard.line.send(end=self._why, grace_seconds=grace_seconds)

    def _is_ending(self) -> bool:
        return bool(self._why or self._renewal.lost)

    def _outcome(self, ended: Message, *, resumable: bool) -> Outcome:
        why = self._why or str(ended["why"])
        status: int = ended["ended"]
        self._exit_code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if self._listening is not None and why not in LOSSES:
            judged = self._listening.outcome(self._exit_code, ended_by_us=why not in ("exit", DONE))
            if judged is not None:
                self._exit_code = shown_code(judged, self._exit_code, why)
                return judged
        return outcome_of(why, self._exit_code, resumable=resumable)

    def _settle(self, found: LeasedRun, outcome: Outcome, *, started: bool) -> None:
        """Write the end down; whoever took the lease meanwhile has the last word."""
        run = found.run
        now: datetime = from_us(self._store.clock_us())
        settlement = settle(
            outcome,
            run_id=RunId(run.id),
            attempt=run.attempt,
            retry=retry_of(self._agent),
            now=now,
            waited_for=now - from_us(run.waiting_us),
        )
        path = log_path(self._bench.log_folder, run.id, found.lease.fence)
        report = Report(
            outcome=type(outcome).__name__.lower(),
            exit_code=getattr(self, "_exit_code", None) if started else None,
            log=path,
            last_log=last_lines(path),
            stalled=outcome == TimedOut(Reason.STALL_TIMEOUT),
            **self._told._asdict(),
        )
        self._write_down(found, settlement, report, gone=self._ended is None or bool(self._ended["gone"]))
        if wants_spans(os.environ):
            told = ToldSpan(found, self._agent, settlement, report, self._began_us, self._tools.clock.wall_us())
            tell_span(told, os.environ, self._tools.say)

    def _write_down(self, found: LeasedRun, settlement: Settlement, report: Report, *, gone: bool) -> None:
        """Try until it is written or the lease is over; a store that is away for a moment costs nobody's work."""
        while True:
            try:
                self._store.settle(found.lease, settlement, report, clean=gone)
            except LeaseLost:
                if gone:
                    self._store.bury(found.lease)
                return
            except StoreUnavailable:
                if self._term.over:
                    raise
                self._tools.clock.sleep(SETTLE_AGAIN_SECONDS)
            else:
                return
