"""Watches an agent from its start to the end of its tree: output, limits, requests to stop, and the lease above all."""

import os
import select
import signal
from contextlib import suppress
from datetime import timedelta

from fencepost.model.definition import AgentDefinition, retry_of, timeouts_of
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import kill_grace
from fencepost.model.light import NamedTuple
from fencepost.model.moment import from_us
from fencepost.model.outcome import Outcome
from fencepost.model.retry import DrainStep, drain
from fencepost.ports.engine import Launch
from fencepost.ports.processes import Traces
from fencepost.ports.runs import LeasedRun
from fencepost.service.bench import AttemptStore, Bench
from fencepost.service.ending import Ending, not_started
from fencepost.service.ends import INTERRUPTS, LOSSES, outcome_of, shown_code
from fencepost.service.guard import ASK_PART, KILL_SECONDS, GuardHandle
from fencepost.service.line import Message
from fencepost.service.listening import DONE, Listening
from fencepost.service.output import Output
from fencepost.service.renewal import Renewal, Term
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_socket import RunSocket
from fencepost.service.settling import End
from fencepost.service.signals import Mailbox
from fencepost.service.stopwatch import Stopwatch

OVERDUE_PART = 0.8


class Seat(NamedTuple):
    """What an attempt's process has before it knows its run."""

    bench: Bench
    store: AttemptStore
    guard: GuardHandle
    mailbox: Mailbox
    output: Output
    worker_alive: int  # readable once the worker is gone
    term: Term


class Watching:
    """One agent, from its start on."""

    def __init__(
        self,
        seat: Seat,
        found: LeasedRun,
        agent: AgentDefinition,
        *,
        renewal: Renewal,
        listening: Listening | None,
        cgroup: str | None,
    ) -> None:
        self._seat, self._found, self._agent = seat, found, agent
        self._tools, self._store, self._term = seat.bench.tools, seat.store, seat.term
        self._guard, self._output = seat.guard, seat.output
        self._renewal = renewal
        self._listening = listening
        self._cgroup = cgroup
        self._grace = kill_grace(seat.bench.ttl_seconds)
        self._why: str | None = None  # why we are ending it
        self._overdue_ns = 0
        self._told_deadline_ns = 0
        self._ended: Message | None = None
        self._drain_ns: int | None = None
        self._ask_ns: int | None = None  # when an interrupted agent that is still there is asked to stop
        self._exit_code = 0

    def start(self, launch: Launch, env: dict[str, str], folder: str | None) -> Ending | None:
        """Put the start on record and have the guard spawn the agent; return why it could not be run, or None."""
        self._store.start_run(self._found, session=launch.session)
        self._told_deadline_ns = self._term.deadline_ns
        self._guard.line.send(
            start={
                "argv": launch.argv,
                "env": env,
                "terminal": None,
                "folder": folder,
                "errors": self._listening.path if self._listening else None,
                "deadline_ns": self._term.deadline_ns,
                "counts_sleep": self._store.facts().counts_sleep,
                "grace_seconds": self._grace * ASK_PART,
            }
        )
        group = 0
        while not group and not self._guard.line.closed:
            for message in self._guard.line.receive():
                if "spawned" in message:
                    group = message["spawned"]
                elif "failed" in message:
                    return not_started(launch.argv, message["failed"])
                elif "late" in message:
                    raise LeaseLost("the lease ran out before the start.")
                elif "ended" in message:
                    self._ended = message
        return None

    def is_ending(self) -> bool:
        """Tell whether the agent is being ended, or has lost the right to go on."""
        return bool(self._why or self._renewal.lost)

    @property
    def was_killed(self) -> bool:
        """Whether somebody else has killed the agent."""
        return self._why is None and self._exit_code == 128 + signal.SIGKILL

    def until_the_end(self, answering: RunSocket, answers: RunAnswers) -> End:
        """Wait for everything at once until the guard reports the end of the tree."""
        line, mailbox, worker_alive = self._guard.line.fd, self._seat.mailbox.fd, self._seat.worker_alive
        clock = Stopwatch(self._tools.clock.awake_ns, timeouts_of(self._agent))
        fds = {line, mailbox, self._output.fd, worker_alive}
        if self._listening:
            fds.add(self._listening.errors.fd)
        while self._ended is None:
            ready, _, _ = select.select([*fds, *answering.fds()], [], [], self._patience(clock))
            if self._output.fd in ready and not self._output.drain():
                fds.discard(self._output.fd)
            self._note_progress(clock, answers, ready)
            if worker_alive in ready:
                fds.discard(worker_alive)
                self._end("worker gone", self._grace * ASK_PART)
            if mailbox in ready and signal.SIGTERM in self._seat.mailbox.collect():
                self._drain_ns = self._drain_ns or self._tools.clock.awake_ns()
            self._hear_renewal()
            answering.serve(ready)
            if line in ready:
                self._hear_guard()
            if self._renewal.first_in_seconds() == 0:
                self._renewal.start()
            self._look(clock, resumable=self._is_resumable(answers))
            if self._why and self._term.now_ns() >= self._overdue_ns:
                self._guard.kill()
        return self._conclude(self._ended, answers)

    def _conclude(self, ended: Message, answers: RunAnswers) -> End:
        self._output.finish()
        if self._listening:
            self._listening.finish()
        cut_off = self._why not in (None, DONE) or os.WIFSIGNALED(ended["ended"])
        told = answers.told() if self._listening is None else self._listening.told(cut_off=cut_off)
        told = told._replace(summary=self._output.hide(told.summary) if told.summary else None)
        outcome = self._outcome(ended, resumable=self._is_resumable(answers))
        return End(outcome, started=True, exit_code=self._exit_code, told=told, gone=bool(ended["gone"]))

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
            traces = Traces(self._found.run.id, self._tools.processes.myself(), self._cgroup)
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

    def _look(self, clock: Stopwatch, *, resumable: bool) -> None:
        """See whether a limit is reached, a drain is due, or somebody asked us to stop."""
        over = clock.exceeded()
        if over is not None:
            self._end(over.reason.value, self._grace * ASK_PART)
        if self._listening is not None:
            self._attend(self._listening)
        if self._drain_ns is not None and self._drained(self._drain_ns, resumable=resumable):
            self._end("drain", self._grace * ASK_PART)
        if self._ask_ns is not None and self._term.now_ns() >= self._ask_ns:
            self._ask(self._grace * ASK_PART)
        if clock.is_time_to_look() and not self._why:
            try:
                asked = self._store.stop_asked(self._found.lease)
            except (LeaseLost, StoreUnavailable):
                return  # the renewal finds out, and says so
            if asked:
                self._end(f"stop {asked}", self._grace * ASK_PART)

    def _attend(self, listening: Listening) -> None:
        """Write down which conversation it is in, as soon as that is known; end it when its words give reason to."""
        session = listening.unnoted_session()
        if session is not None:
            with suppress(LeaseLost, StoreUnavailable):  # the renewal finds out; or it is tried again
                self._store.note_session(self._found.lease, session)
                listening.noted(session)
        due = listening.due()
        if due is not None:
            self._end(due, self._grace * ASK_PART)

    def _drained(self, drain_ns: int, *, resumable: bool) -> bool:
        now = from_us(self._tools.clock.wall_us())
        waited = timedelta(microseconds=(self._tools.clock.awake_ns() - drain_ns) / 1000)
        deadline_at = now + self._seat.bench.drain_timeout - waited
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
