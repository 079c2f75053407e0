"""A lane: leases runs of in-process agents in batches, has one process call them, and settles them in batches.

This is the keeper. Its guard is the parent of the process that calls the functions, and ends it when the keeper is gone
or a lease cannot be renewed in time. Whatever has not begun by then goes back into the queue, unharmed.
"""

import json
import os
import select
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from socket import socketpair
from typing import NoReturn

from fencepost.flow.leasing import recheck_for
from fencepost.host.logs import LogFile, last_lines, log_path
from fencepost.model.definition import AgentDefinition, agent_from_json, gate_targets, hash_of, retry_of, timeouts_of
from fencepost.model.errors import FencepostError, FenceRegress, LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.lease import Claim, Granted, Lease, kill_grace, renew_every
from fencepost.model.light import Protocol
from fencepost.model.moment import from_us
from fencepost.model.outcome import (
    Failed,
    Interrupted,
    Lost,
    NotStarted,
    Outcome,
    Settlement,
    Stopped,
    Succeeded,
    TimedOut,
)
from fencepost.model.retry import DrainStep, drain, settle
from fencepost.model.run import Reason, RunId, RunState
from fencepost.ports.runs import Ended, LaneStore, LeasedRun, Report, RunRow, RunStore, Wanted
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.agent_environment import PASSED, run_variables
from fencepost.service.answers import Answers
from fencepost.service.bench import Bench
from fencepost.service.guard import ASK_PART, GuardHandle, post_guard
from fencepost.service.hint import Hint
from fencepost.service.line import Line, Message
from fencepost.service.order import Order, new_id
from fencepost.service.output import Output
from fencepost.service.renewal import Renewal, Renewer, Term
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_folder import plan_run_folder
from fencepost.service.signals import Mailbox
from fencepost.service.stopwatch import Stopwatch

BATCH_MAX = 250
BATCH_SECONDS = 0.05  # how long a batch should take; what is known of a function decides how many that are
AT_ONCE_SECONDS = 0.002  # shorter ones have their start put on record with the lease, all of a batch together
FIRST_GUESS_SECONDS = 0.01
STUCK_SECONDS = 1.0  # a run that takes longer keeps nobody waiting: what stands behind it goes back
POLL_SECONDS = 0.5
IDLE_SECONDS = 600.0
FOREVER_NS = 1 << 62
AGAIN_SECONDS = 0.2
SUCCEEDED, QUIET = Settlement(RunState.SUCCEEDED), Report("succeeded", exit_code=0)


@lru_cache(maxsize=1000)
def _agent(manifest: str, manifest_hash: str) -> tuple[AgentDefinition, bool]:
    """Return what is to be called, and whether it is what was applied; a batch has few different ones."""
    return agent_from_json(manifest), hash_of(manifest) == manifest_hash


class LaneRuntime(LaneStore, RunStore, LeaseStore, Protocol):
    """The verbs that a lane uses."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...


class _Batch:
    """A lease on many runs, until when it may be trusted, and how many of them are not settled."""

    def __init__(self, lease: Lease, term: Term, renewal: Renewal, left: int) -> None:
        self.lease = lease
        self.term = term
        self.renewal = renewal
        self.left = left


def lane(bench: Bench, hint: Hint, *, worker_alive: int) -> int:
    """Keep a lane until there has been nothing to do for long, or until the worker is gone or drains."""
    os.setsid()
    os.chdir(bench.folder)
    permits_reader, permits_writer = os.pipe()
    for descriptor in (permits_reader, permits_writer):
        os.set_blocking(descriptor, False)
    ours, theirs = (end.detach() for end in socketpair())
    output_reader, output_writer = os.pipe()
    for descriptor, standard in ((permits_reader, 0), (theirs, 1), (output_writer, 2)):
        os.dup2(descriptor, standard)
    guard = post_guard(bench.tools.clock, bench.tools.processes)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in (theirs, output_writer, null):
        os.close(descriptor)
    mailbox = Mailbox()
    store = bench.open_runtime()
    try:
        permits = (permits_reader, permits_writer)
        keeper = _Keeper(bench, store, guard=guard, mailbox=mailbox, line=Line(ours), permits=permits)  # type: ignore[arg-type]
        return keeper.serve(Output(output_reader), hint, worker_alive)
    finally:
        guard.dismiss()
        hint.close()
        mailbox.close()
        store.close()


class _Keeper:
    """From lease to settlement, for many runs."""

    def __init__(
        self,
        bench: Bench,
        store: LaneRuntime,
        *,
        guard: GuardHandle,
        mailbox: Mailbox,
        line: Line,
        permits: tuple[int, int],
    ) -> None:
        self._bench, self._tools, self._store = bench, bench.tools, store
        self._guard, self._mailbox, self._line = guard, mailbox, line
        self._permits = permits
        self._id = new_id(bench.tools.clock)
        self._folder = plan_run_folder(self._id)
        self._log_path = os.path.join(bench.log_folder, f"lane-{self._id}.log")
        self._grace = kill_grace(bench.ttl_seconds)
        self._counts_sleep = store.facts().counts_sleep
        self._batches: dict[str, _Batch] = {}
        self._hand: list[LeasedRun] = []  # leased, and not yet given to the runner
        self._given: list[LeasedRun] = []  # to the runner, and not yet reported by it
        self._done: list[Ended] = []
        self._stops: dict[str, str] = {}
        self._watch = Stopwatch(bench.tools.clock.awake_ns, timeouts_of(agent_from_json('{"name":""}')))
        self._moved_ns = self._busy_ns = self._looked_ns = bench.tools.clock.awake_ns()
        self._mean = FIRST_GUESS_SECONDS
        self._given_number = 0
        self._why: str | None = None
        self._drain_ns: int | None = None
        self._ended: Message | None = None
        self._answers: RunAnswers | None = None
        self._deadline_ns = 0

    def serve(self, output: Output, hint: Hint, worker_alive: int) -> int:
        if not self._start_runner(output):
            return 1
        fds = [self._line.fd, self._guard.line.fd, self._mailbox.fd, output.fd, worker_alive]
        while self._ended is None:
            self._advance()
            if self._is_over():
                break
            ready, _, _ = select.select([*fds, *hint.fds()], [], [], self._patience(hint))
            if output.fd in ready and not output.drain():
                fds.remove(output.fd)
            if worker_alive in ready:
                fds.remove(worker_alive)
                self._end("worker gone")
            if self._mailbox.fd in ready and signal.SIGTERM in self._mailbox.collect():
                self._drain_ns = self._drain_ns or self._now()
            if hint.heard(ready):
                self._looked_ns = 0
            if self._line.fd in ready:
                self._hear_runner()
            if self._guard.line.fd in ready:
                self._hear_guard()
            self._keep_leases()
            self._look()
        self._wind_up()
        return 0

    def _now(self) -> int:
        return self._tools.clock.awake_ns()

    def _start_runner(self, output: Output) -> bool:
        output.keep(LogFile(self._log_path, 1_000_000), [])
        self._guard.line.send(place=self._id, cgroup=None, folder=self._folder.path)
        names = [name for name in os.environ if name in PASSED or name.startswith("LC_")]
        env = {name: os.environ[name] for name in names}
        env |= {"FENCEPOST_RUN_ID": self._id, "PYTHONUNBUFFERED": "1"}
        argv = (sys.executable, "-m", "fencepost.lane_runner")
        self._guard.line.send(
            start={
                "argv": argv,
                "env": env,
                "terminal": None,
                "deadline_ns": FOREVER_NS,
                "counts_sleep": self._counts_sleep,
                "grace_seconds": 0,
            }
        )
        return any("spawned" in message for message in self._guard.line.receive())

    def _advance(self) -> None:
        """Give the runner the next runs, then settle what is done and lease what comes after."""
        if self._why or self._ended is not None:
            return
        if not self._given and self._hand:
            self._give()
        ahead = self._mean < AT_ONCE_SECONDS and not self._hand
        idle = not self._given and not self._hand
        may_look = self._drain_ns is None and (ahead or idle) and (self._done or self._now() >= self._looked_ns)
        if self._done or may_look:
            self._turn(lease=may_look and not self._hand)
            if not self._given and self._hand:
                self._give()

    def _turn(self, *, lease: bool) -> None:
        limit = max(1, min(BATCH_MAX, int(BATCH_SECONDS / self._mean)))
        starts = limit if self._mean < AT_ONCE_SECONDS else 0
        term = Term(self._tools.clock, counts_sleep=self._counts_sleep)
        claim = Claim(
            id=os.urandom(16).hex(),
            tenant="",
            resources=(),
            run_id=self._id,
            ttl_seconds=self._bench.ttl_seconds,
            supervisor=self._tools.processes.myself(),
            guard=self._guard.process,
            label="lane",
        )
        wanted = Wanted(claim, limit if starts else 1, starts, self._gates_of, recheck_for) if lease else None
        self._take(wanted, term)

    def _take(self, wanted: Wanted | None, term: Term) -> None:
        """Ask until there is an answer or our time is up: what was granted in silence must not be forgotten."""
        done, closing = self._done, self._closing()
        while True:
            asked_ns = term.now_ns()
            try:
                turned = self._store.turn(done, closing, wanted)
                break
            except StoreUnavailable:
                if self._is_late():
                    self._end("lost")
                    return
                self._tools.clock.sleep(AGAIN_SECONDS)
                wanted = wanted._replace(again=True) if wanted else None
        self._done = []
        for lease in closing:
            self._batches.pop(lease.id).renewal.stop()
        if turned.leased:
            term.extend(self._bench.ttl_seconds, asked_ns=asked_ns)
            self._hand = list(turned.leased)
            self._add_batch(turned.leased, term)
        elif wanted is not None:
            self._looked_ns = self._now() + round(POLL_SECONDS * 1e9)
        if turned.leased or done:
            self._busy_ns = self._now()

    def _add_batch(self, leased: tuple[LeasedRun, ...], term: Term) -> None:
        lease = leased[0].lease
        renewer = Renewer(lease, term, self._bench.open_runtime)
        first = renew_every(lease.ttl_seconds)
        renewal = Renewal(renewer, first_in_seconds=first, term=term, tell=self._mailbox.nudge)
        self._batches[lease.id] = _Batch(lease, term, renewal, len(leased))

    def _closing(self) -> list[Lease]:
        """Return the leases that have no run left once `done` is settled."""
        left = {one.lease.id for one in (*self._hand, *self._given)}
        return [batch.lease for batch in self._batches.values() if batch.lease.id not in left]

    def _is_late(self) -> bool:
        return any(batch.term.over or batch.renewal.lost for batch in self._batches.values())

    def _gates_of(self, run: RunRow) -> tuple[str, ...]:
        targets = gate_targets(_agent(run.manifest, run.manifest_hash)[0])
        try:
            return tuple(self._tools.open_gate(target).target for target in targets)
        except FencepostError:
            return targets

    def _give(self) -> None:
        """Give the runner what has its start on record, or make one other run ready and give it that."""
        started = [one for one in self._hand if one.started]
        chunk = started or self._hand[:1]
        self._hand = [one for one in self._hand if not one.started] if started else self._hand[1:]
        chunk = [one for one in chunk if one.started or self._make_ready(one)]
        if not chunk:
            return
        self._tell_deadline()
        messages = [self._message(one) for one in chunk]
        os.write(self._permits[1], b"." * len(chunk))
        self._given, self._given_number = chunk, len(chunk)
        self._moved_ns = self._now()
        self._answers = None
        self._watch_next()
        self._line.post(json.dumps({"runs": messages}))

    def _make_ready(self, one: LeasedRun) -> bool:
        """End predecessors, raise the gates, put the start on record; or say why it cannot start."""
        order = Order((), one.run.tenant, one.lease.resources, "", self._bench.ttl_seconds, gates=one.lease.gates)
        try:
            admission = Admission(order, self._tools, self._store, wait=self._mailbox.wait)
            admission.prepare(Granted(one.lease, one.predecessors))
            self._store.start_run(one)
        except LeaseLost:
            self._finish(one, Lost(started=False), began=False)
        except FencepostError as error:
            reason = Reason.FENCE_REGRESS if isinstance(error, FenceRegress) else Reason.GATE_UNREACHABLE
            self._finish(one, NotStarted(reason), began=False)
        else:
            return True
        return False

    def _message(self, one: LeasedRun) -> Message:
        run = one.run
        agent, fine = _agent(run.manifest, run.manifest_hash)
        return {
            "id": run.id,
            "function": agent.function if fine else "",
            "payload": run.payload,
            "env": run_variables(run, one.lease, folder=self._folder, key=""),
            "log": log_path(self._bench.log_folder, run.id, one.lease.fence),
            "log_max": agent.log_max,
        }

    def _hear_runner(self) -> None:
        for message in self._line.receive():
            if "ask" in message:
                self._line.send(answer=self._answer(message))
                continue
            for one, (run_id, code, wrote) in zip(self._given, message["results"], strict=False):
                assert one.run.id == run_id, "runs end in the order in which they were given"
                self._finish(one, Succeeded() if code == 0 else Failed(code), exit_code=code, wrote=wrote)
            del self._given[: len(message["results"])]
            self._moved_ns = self._now()
            self._answers = None
            self._watch_next()
            if message.get("idle"):
                took = message["spent_ns"] / 1e9 / max(1, self._given_number)
                self._mean = max(1e-5, (self._mean + 3 * took) / 4)

    def _watch_next(self) -> None:
        """Time the run that is being called now."""
        if self._given:
            run = self._given[0].run
            limits = timeouts_of(_agent(run.manifest, run.manifest_hash)[0])
            self._watch = Stopwatch(self._tools.clock.awake_ns, limits)

    def _answer(self, request: Message) -> Message:
        one = self._given[0]
        if self._answers is None:
            term = self._batches[one.lease.id].term
            basics = Answers(one.lease, term, lambda: bool(self._why or self._stops.get(one.run.id)), self._no_ledger)
            gates = dict(zip(agent_from_json(one.run.manifest).gates, self._gates_of(one.run), strict=True))
            self._answers = RunAnswers(basics, self._store, one.lease, gates)
        handler = self._answers.handlers().get(str(request["ask"]))
        try:
            answer = handler(request) if handler else {"ok": False, "message": "a lane does not answer that."}
        except FencepostError as error:
            answer = {"ok": False, "code": error.code, "message": str(error)}
        self._watch.progress(self._answers.progressed)
        return answer

    def _no_ledger(self) -> NoReturn:
        """Refuse: the ledger knows a run by its lease, and here many share one."""
        raise Misconfigured("a run in a lane cannot record effects; take in_process from the agent.")

    def _finish(
        self, one: LeasedRun, outcome: Outcome, *, began: bool = True, exit_code: int | None = None, wrote: bool = False
    ) -> None:
        if isinstance(outcome, Succeeded) and not wrote:
            self._done.append(Ended(one, SUCCEEDED, QUIET))  # nothing to decide about most of them
            return
        run, (agent, _) = one.run, _agent(one.run.manifest, one.run.manifest_hash)
        now = from_us(self._tools.clock.wall_us() if isinstance(outcome, Succeeded) else self._store.clock_us())
        settlement = settle(outcome, run_id=RunId(run.id), attempt=run.attempt, retry=retry_of(agent), now=now)
        path = log_path(self._bench.log_folder, run.id, one.lease.fence) if wrote else None
        report = Report(
            outcome=type(outcome).__name__.lower(),
            exit_code=exit_code,
            log=path,
            last_log=last_lines(path) if path else None,
        )
        clean = self._ended is None or bool(self._ended["gone"])
        self._done.append(Ended(one, settlement, report, began=began, clean=clean))

    def _keep_leases(self) -> None:
        for batch in self._batches.values():
            if batch.renewal.first_in_seconds() == 0:
                batch.renewal.start()
        if self._is_late():
            self._end("lost")
        self._tell_deadline()

    def _tell_deadline(self) -> None:
        """Let the guard end the runner before the first of our leases can be given away."""
        deadline = min((batch.term.deadline_ns for batch in self._batches.values()), default=FOREVER_NS)
        if deadline != self._deadline_ns:
            self._deadline_ns = deadline
            self._guard.line.send(deadline_ns=deadline)

    def _look(self) -> None:
        """See whether a limit is reached, somebody asked to stop, or a slow run keeps others waiting."""
        if not self._given or self._why:
            return
        over = self._watch.exceeded()
        if over is not None:
            self._end(over.reason.value)
        if (self._now() - self._moved_ns) / 1e9 >= STUCK_SECONDS or self._drain_ns is not None:
            self._take_back()
        if self._drain_ns is not None and self._drained():
            self._end("drain")
        if self._watch.is_time_to_look() and not self._why:
            self._look_for_stops()

    def _look_for_stops(self) -> None:
        try:
            lease = self._given[0].lease
            self._stops = self._store.stops_asked(lease) if self._given else {}
        except StoreUnavailable:
            return  # the renewal finds out
        reason = self._stops.get(self._given[0].run.id)
        if reason and (self._now() - self._moved_ns) / 1e9 > self._grace:
            self._end(f"stop {reason}")

    def _drained(self) -> bool:
        assert self._drain_ns is not None
        agent = agent_from_json(self._given[0].run.manifest)
        now = from_us(self._tools.clock.wall_us())
        waited = timedelta(microseconds=(self._now() - self._drain_ns) / 1000)
        deadline_at = now + self._bench.drain_timeout - waited
        resumable = self._store.checkpoint(self._given[0].run.id) is not None
        return drain(retry_of(agent), resumable=resumable, now=now, deadline_at=deadline_at) is not DrainStep.KEEP

    def _take_back(self) -> None:
        """Take back what has not begun: the permits that are left, and what was not given at all."""
        number = self._unused_permits()
        back = self._given[len(self._given) - number :] if number else []
        self._given = self._given[: len(self._given) - number]
        for one in (*back, *self._hand):
            self._finish(one, Lost(started=False), began=False)
        self._hand = []

    def _unused_permits(self) -> int:
        try:
            return len(os.read(self._permits[0], BATCH_MAX))
        except BlockingIOError:
            return 0

    def _end(self, why: str) -> None:
        if self._why is None:
            self._why = why
            self._guard.line.send(end=why, grace_seconds=self._grace * ASK_PART)

    def _hear_guard(self) -> None:
        for message in self._guard.line.receive():
            if "ended" in message:
                self._ended = message
                self._guard.has_reported = True
        if self._guard.line.closed and self._ended is None:
            self._ended = {"ended": 1 << 8, "gone": False, "why": "guard gone"}

    def _is_over(self) -> bool:
        if self._given or self._hand or self._done or self._why:
            return False
        return self._drain_ns is not None or (self._now() - self._busy_ns) / 1e9 > IDLE_SECONDS

    def _patience(self, hint: Hint) -> float:
        waits = [hint.poll_seconds(), self._watch.left_seconds() if self._given else POLL_SECONDS]
        if not self._given and not self._hand:
            waits.append((self._looked_ns - self._now()) / 1e9)
        waits += [batch.renewal.first_in_seconds() or POLL_SECONDS for batch in self._batches.values()]
        return max(0.0, min(waits))

    def _wind_up(self) -> None:
        """Settle the rest when the runner is gone: what began by how it ended, what did not goes back."""
        if self._ended is None:
            self._line.close()
            with suppress(FileNotFoundError):  # in order: what the runner said beside its functions is of no more use
                os.unlink(self._log_path)
            return
        while select.select([self._line.fd], [], [], 0)[0] and not self._line.closed:
            self._hear_runner()
        self._take_back()
        for one in self._given:
            wrote = os.path.exists(log_path(self._bench.log_folder, one.run.id, one.lease.fence))
            self._finish(one, self._outcome(one), exit_code=self._exit_code(), wrote=wrote)
        self._given = []
        self._take(None, Term(self._tools.clock, counts_sleep=self._counts_sleep))

    def _exit_code(self) -> int:
        status = int(self._ended["ended"]) if self._ended else 0
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _outcome(self, one: LeasedRun) -> Outcome:
        """Say how a run ended with whose process everything ended; of several, nobody can tell."""
        assert self._ended is not None
        why = self._why or str(self._ended["why"])
        if why in ("lost", "deadline", "worker gone", "guard gone", "supervisor gone") or len(self._given) > 1:
            return Lost(started=True)
        if why in (Reason.TIMEOUT.value, Reason.STALL_TIMEOUT.value):
            return TimedOut(Reason(why))
        if why == "drain":
            return Interrupted(resumable=self._store.checkpoint(one.run.id) is not None)
        if why.startswith("stop "):
            return Stopped(Reason(why.removeprefix("stop ")))
        return Failed(self._exit_code() or 1)
