"""One attempt at a run, in a process of its own: lease, raise the gates, start, watch, settle.

The process belongs to one worker and ends with it. Its standard descriptors are the agent's: the payload to read,
and a pipe to the log to write, so that guard and agent inherit them without further ado.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.flow.leasing import claim_for, recheck_for, understood
from fencepost.host import cgroup
from fencepost.host.logs import LogFile, log_path
from fencepost.host.memory import kills_for_memory
from fencepost.host.project import merge_gate
from fencepost.model.budget import parse_usd
from fencepost.model.definition import AgentDefinition, agent_from_json, gate_targets, hash_of
from fencepost.model.errors import FencepostError, FenceRegress, Invalid, LeaseLost, Misconfigured, Withheld
from fencepost.model.lease import Claim, Granted, renew_every
from fencepost.model.outcome import Lost, NotStarted, OverBudget, Succeeded
from fencepost.model.run import Reason
from fencepost.ports.engine import Launch, Setting
from fencepost.ports.runs import LeasedRun, RunRow
from fencepost.service.admission import Admission
from fencepost.service.agent_environment import build_environment
from fencepost.service.answers import Answers
from fencepost.service.bench import Bench
from fencepost.service.guard import post_guard
from fencepost.service.handing import Given, given_to
from fencepost.service.listening import Listening
from fencepost.service.order import Order
from fencepost.service.output import fill_standard_input, let_go_of_standard, take_standard
from fencepost.service.renewal import Renewal, Renewer, Term
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_folder import plan_run_folder
from fencepost.service.run_socket import RunSocket
from fencepost.service.settling import End, Settling
from fencepost.service.signals import Mailbox
from fencepost.service.watching import Seat, Watching

if TYPE_CHECKING:
    from fencepost.model.project import Project

NOTHING_TO_DO, WORKED = 75, 0


def attempt(bench: Bench, *, worker_alive: int, leased: Callable[[bool], None]) -> int:
    """Carry out one attempt at whatever run is next; `worker_alive` is readable once the worker is gone."""
    os.setsid()  # a terminal's signals are the worker's business
    os.chdir(bench.folder)
    errors = os.dup(2)  # the worker's, to tell of the end; no agent inherits it
    output = take_standard()
    guard = post_guard(bench.tools.clock, bench.tools.processes)
    let_go_of_standard(errors)
    mailbox = Mailbox()
    try:
        store = bench.open_runtime()
        try:
            term = Term(bench.tools.clock, counts_sleep=store.facts().counts_sleep)
            return _Attempt(Seat(bench, store, guard, mailbox, output, worker_alive, term)).run(leased)
        finally:
            store.close()
    finally:
        guard.dismiss()
        mailbox.close()


class _Attempt:
    """From lease to settlement."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._bench, self._tools = seat.bench, seat.bench.tools
        self._store, self._term, self._guard, self._output = seat.store, seat.term, seat.guard, seat.output
        self._cgroup: str | None = None
        self._project: Project | None = None  # of the run that was claimed last
        self._trigger = ""
        self._folder: str | None = None  # where the agent works, if not where we do
        self._listening: Listening | None = None
        self._given = Given({}, {})  # what the worker hands over to the agent

    def run(self, leased: Callable[[bool], None]) -> int:
        asked_ns = self._term.now_ns()
        found = self._store.lease_run(self._claim, recheck_for, places=self._bench.grounds.places())
        leased(found is not None)
        if found is None:
            return NOTHING_TO_DO
        self._term.extend(self._bench.ttl_seconds, asked_ns=asked_ns)
        began_us = self._tools.clock.wall_us()
        self._agent = agent_from_json(found.run.manifest)
        self._trigger = found.run.trigger
        self._folder = self._project.path if self._project else None
        folder = plan_run_folder(found.run.id)
        self._guard.line.send(place=found.run.id, cgroup=self._cgroup, folder=folder.path)
        log = LogFile(log_path(self._bench.log_folder, found.run.id, found.lease.fence), self._agent.log_max)
        try:
            end = self._carry_out(found, log)
            Settling(self._bench, self._store, self._term).settle(found, self._agent, end, began_us=began_us)
        finally:
            log.close()
            if log.dropped:
                self._tools.say(f"run {found.run.id}: {log.dropped} bytes of its output could not be kept: {log.why}.")
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
            gates=(*self._gates(agent, run.tenant), *self._merge_gates(run.trigger)),
            label=run.schedule or run.agent,
            also=(shared.resource,) if shared else (),
            slots=shared.slots if shared else 1,
        )

    def _gates(self, agent: AgentDefinition, tenant: str) -> tuple[str, ...]:
        """Spell each gate the one canonical way; one that this worker does not know is refused at its raise."""
        try:
            return tuple(self._tools.open_gate(target, tenant).target for target in gate_targets(agent))
        except FencepostError:
            return gate_targets(agent)

    def _merge_gates(self, trigger: str) -> tuple[str, ...]:
        """Keep an earlier attempt from merging once this one has started, whether this one will merge or not."""
        project = self._project
        if project is None or not project.isolates(trigger) or project.merge == "keep":
            return ()
        gate = merge_gate(project.path)
        return (gate,) if gate else ()

    def _carry_out(self, found: LeasedRun, log: LogFile) -> End:
        """Start it if it may start, and return how it ended."""
        try:
            if hash_of(found.run.manifest) != found.run.manifest_hash:
                raise Misconfigured("the manifest is not the one that was applied.")
            if self._is_used_up(found.run):
                return End(OverBudget(), started=False)
            self._given = given_to(self._agent, found.run.tenant, self._bench.rights, os.environ)
            setting = Setting(plan_run_folder(found.run.id).path, found.session)
            launch = self._bench.engine_of(self._agent.engine).launch(self._agent, found.run, setting)
            self._output.keep(log, list(self._given.secrets.values()))
        except FencepostError as error:
            return self._not_started(log, error, Reason.MISCONFIGURED)
        try:
            self._prepare(found, launch)
        except (FenceRegress, Invalid, Withheld) as error:
            reason = Reason.FENCE_REGRESS if isinstance(error, FenceRegress) else Reason.MISCONFIGURED
            return self._not_started(log, error, reason)
        except LeaseLost:
            return End(Lost(started=False), started=False)
        except FencepostError as error:
            return self._not_started(log, error, Reason.GATE_UNREACHABLE)
        renewer = Renewer(found.lease, self._term, self._bench.open_runtime)
        first = renew_every(found.lease.ttl_seconds)
        self._renewal = Renewal(renewer, first_in_seconds=first, term=self._term, tell=self._seat.mailbox.nudge)
        try:
            return self._work_apart(found, launch, log) if self._isolated else self._work(found, launch, log)
        finally:
            self._renewal.stop()

    def _work_apart(self, found: LeasedRun, launch: Launch, log: LogFile) -> End:
        """Work in a worktree of the run's own, and see to what is left in it, as long as the lease is ours."""
        from fencepost.service.workplace import Workplace  # others never need it

        assert self._project is not None
        self._renewal.start()  # a checkout may take longer than a lease lasts
        workplace = Workplace(self._tools, self._project, found.lease, self._check)
        try:
            worktree = workplace.enter()
        except LeaseLost:
            return End(Lost(started=False), started=False)
        except FencepostError as error:
            return self._not_started(log, error, Reason.MISCONFIGURED)
        self._folder = worktree.path
        end = self._work(found, launch, log)
        if isinstance(end.outcome, Lost) or not end.gone:
            return end  # its successor sees to it, or a person
        try:
            for line in workplace.leave(worktree, succeeded=isinstance(end.outcome, Succeeded)):
                log.write(f"fencepost: {line}\n".encode(errors="replace"))
        except LeaseLost:
            return end._replace(outcome=Lost(started=end.started))
        return end

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
        admission = Admission(order, self._tools, self._store, wait=self._seat.mailbox.wait)
        admission.prepare(Granted(found.lease, found.predecessors))

    def _not_started(self, log: LogFile, error: FencepostError, reason: Reason) -> End:
        log.write(f"fencepost: not started: {error}\n".encode())
        return End(NotStarted(reason), started=False)

    def _work(self, found: LeasedRun, launch: Launch, log: LogFile) -> End:
        folder = plan_run_folder(found.run.id)
        folder.make(found.run.payload)
        if found.run.resume:
            folder.put_checkpoint(found.checkpoint or "null")
        for name, text in launch.files:
            folder.put(name, text)
        fill_standard_input(found.run.payload if launch.stdin is None else launch.stdin)
        self._listen(found, launch, folder.path, log)
        key = os.urandom(24).hex()
        watching = Watching(
            self._seat, found, self._agent, renewal=self._renewal, listening=self._listening, cgroup=self._cgroup
        )
        basics = Answers(found.lease, self._term, watching.is_ending, self._store)
        gates = dict(zip(self._agent.gates, self._gates(self._agent, found.run.tenant), strict=True))
        answers = RunAnswers(basics, self._store, found.lease, gates)
        answering = RunSocket(folder.socket, key, answers.handlers())
        try:
            env = build_environment(
                os.environ, self._agent, self._given, found.run, found.lease, folder=folder, key=key
            )
            failed = watching.start(launch, {**env, **launch.env}, self._folder)
            if failed is not None:
                log.write(f"fencepost: {failed.words}\n".encode())
                return End(NotStarted(Reason.MISCONFIGURED), started=False, exit_code=failed.code)
            kills = kills_for_memory()
            end = watching.until_the_end(answering, answers)
            if watching.was_killed and kills_for_memory() > kills:
                log.write(b"fencepost: killed, while the kernel of this machine ended processes for want of memory.\n")
            return end
        finally:
            answering.close()

    def _listen(self, found: LeasedRun, launch: Launch, folder: str, log: LogFile) -> None:
        """Listen to an agent whose output is understood."""
        if launch.manner is None:
            return
        self._listening = Listening(
            launch,
            launch.manner,
            folder=folder,
            output=self._output,
            now_ns=self._tools.clock.awake_ns,
            budget_micro=self._left_micro(found.run),
            so_far=found.so_far,
        )
        self._listening.keep(log, list(self._given.secrets.values()))
