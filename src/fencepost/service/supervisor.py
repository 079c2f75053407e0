"""Guards one command: lease, fence, start, renew, and the end of the whole tree whatever happens."""

from __future__ import annotations

import gc
import os

from fencepost.host import cgroup
from fencepost.model import fast_signal as signal
from fencepost.model.errors import FencepostError, LeaseLost, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease import ASK_PART, Claim, Lease, kill_grace
from fencepost.ports.processes import KILL_SECONDS, Traces
from fencepost.service import exit_codes
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools, environment, new_id
from fencepost.service.custody import Custody, Term
from fencepost.service.exit_codes import NOTHING_STARTED, Ending
from fencepost.service.guard_start import GuardHandle, post_guard
from fencepost.service.last_resort import OVERDUE_PART, LastResort
from fencepost.service.message_pipe import readable
from fencepost.service.run_folder import PAYLOAD, RunFolder, plan_run_folder
from fencepost.service.run_socket import RunSocket
from fencepost.service.signals import ONLY_TO_AGENT, Mailbox, SignalledStop
from fencepost.service.terminal import Terminal, open_standard

if TYPE_CHECKING:
    from fencepost.ports.store import LeaseStore
    from fencepost.service.command_model import CommandModel
    from fencepost.service.message_pipe import Message
    from fencepost.service.run_socket import Handler


def guard_command(order: Order, tools: Tools) -> int:
    """Run one command under a lease and return the exit code to leave with."""
    open_standard()
    guard = post_guard(tools.clock, tools.processes)
    mailbox = Mailbox()
    try:
        store = tools.open_store()
        try:
            result = _Supervisor(order, tools, guard=guard, store=store, mailbox=mailbox).run()
        finally:
            store.close()
    except SignalledStop as interruption:
        return 128 + interruption.number
    finally:
        guard.dismiss()
        mailbox.close()
    if result.words:
        tools.say(result.words)  # last of all: the reader of our output may have left
    return result.code


class _Supervisor:
    """One guarded command, from claim to release."""

    def __init__(self, order: Order, tools: Tools, *, guard: GuardHandle, store: LeaseStore, mailbox: Mailbox) -> None:
        self._order = order
        self._tools = tools
        self._guard = guard
        self._store = store
        self._mailbox = mailbox
        self._term = Term(tools.clock, counts_sleep=store.facts().counts_sleep)
        self._grace = kill_grace(order.ttl_seconds)
        self._terminal = Terminal()
        self._run_id = new_id(tools.clock)
        self._folder = plan_run_folder(self._run_id)
        self._cgroup = cgroup.plan(self._run_id)
        self._started = False
        self._group = 0
        self._asked: str | None = None
        self._overdue_ns = 0
        self._told_deadline_ns = 0
        self._ended: Message | None = None
        self._give_up_ns: int | None = None  # when its time or its budget is over, and then why
        self._give_up_why = "timeout"
        self._model = self._model_of(order)

    def run(self) -> Ending:
        """Lease, start, watch, release; the guard knows what to clear away if we are killed meanwhile."""
        self._guard.line.send(place=self._run_id, cgroup=self._cgroup, folder=self._folder.path)
        try:
            if self._model is not None:
                self._model.await_gate()
            admission = Admission(self._order, self._tools, self._store, wait=self._mailbox.wait)
            lease = self._admitted(admission)
            try:
                return self._settle(lease, self._supervise(lease, self._folder))
            except BaseException:
                if not self._started:
                    admission.give_back(lease)
                raise
        finally:
            self._folder.remove()
            if self._cgroup:
                cgroup.remove(self._cgroup)

    def _admitted(self, admission: Admission) -> Lease:
        try:
            return admission.admit(self._claim(), self._term)
        except StoreUnavailable:
            if self._order.tick is not None and self._tools.keep_unheard is not None:
                self._tools.keep_unheard(self._order.tick.job, self._run_id)  # the grant may have landed, or land yet
            raise

    def _model_of(self, order: Order) -> CommandModel | None:
        if order.model is None:
            return None
        from fencepost.service.command_model import CommandModel

        return CommandModel(order.model, self._tools, wait=self._mailbox.wait)

    def _claim(self) -> Claim:
        return Claim(
            id=os.urandom(16).hex(),
            tenant=self._order.tenant,
            resources=self._order.resources,
            run_id=self._run_id,
            ttl_seconds=self._order.ttl_seconds,
            supervisor=self._tools.processes.myself(),
            guard=self._guard.process,
            cgroup=self._cgroup,
            holder=self._order.holder,
            label=self._order.label,
            gates=self._order.gates,
            starts=True,
            slots=self._order.slots,
            tick=self._order.tick,
            is_command=True,
            waits=self._order.wait_seconds is not None,
        )

    def _supervise(self, lease: Lease, folder: RunFolder) -> Ending:
        """Start the agent and stay with it to the end of its tree, renewing meanwhile."""
        if lease.tick is not None and lease.tick.warning:
            self._tools.say(f"warning: {lease.tick.warning}")
        folder.make({PAYLOAD: "{}\n"})
        key = os.urandom(24).hex()
        self._custody = Custody(
            self._tools.open_store,
            self._tools.clock,
            counts_sleep=self._term.counts_sleep,
            tell=self._mailbox.nudge,
        )
        self._kept = self._custody.keep(lease, self._term)
        self._last_resort = LastResort(self._grace)
        self._last_resort.watch(self._kept, self._guard.kill)
        answering = RunSocket(folder.socket, key, lambda: self._handlers(lease))
        try:
            env = environment(os.environ, self._order, lease, folder=folder, key=key)
            if self._model is not None:
                self._model.open(self._run_id, self._order.argv[0], self._term)
                env = self._model.environment(env)
            self._start(lease, self._led_to_gates(lease, env))
            return self._watch(answering)
        finally:
            self._last_resort.close()
            self._custody.close()
            self._close_pass()
            answering.close()
            self._terminal.take_back()

    def _handlers(self, lease: Lease) -> dict[str, Handler]:
        from fencepost.service.answers import SocketAnswers

        return SocketAnswers(lease, self._term, self._is_ending, self._store).handlers()

    def _led_to_gates(self, lease: Lease, env: dict[str, str]) -> dict[str, str]:
        if not lease.gates:
            return env
        from fencepost.service.git_push_route import led_to_gates

        return led_to_gates(env, lease.gates, self._order.tenant, self._tools, os.path.basename(self._order.argv[0]))

    def _start(self, lease: Lease, env: dict[str, str]) -> None:
        """Let the guard start the agent; its answer is waited for with everything else, in case it is frozen now."""
        if not lease.started:
            self._store.start(lease)
        self._told_deadline_ns = self._term.deadline_ns
        self._started = True
        self._guard.line.send(
            start={
                "argv": self._order.argv if self._model is None else self._model.argv(self._order.argv),
                "env": env,
                "terminal": self._terminal.offer(),
                "deadline_ns": self._term.deadline_ns,
                "counts_sleep": self._store.facts().counts_sleep,
                "grace_seconds": self._grace * ASK_PART,
            }
        )

    def _watch(self, answering: RunSocket) -> Ending:
        """Wait for everything at once until the guard reports the end of the tree."""
        gc.freeze()  # all that there is by now stays to the end: looking through it would cost more than the start did
        gc.enable()  # it was off for a quick start; from here on it may take days
        line, mailbox = self._guard.line.fd, self._mailbox.fd
        self._give_up_ns = self._timeout_ns()
        while self._ended is None:
            thinking = self._model.fds() if self._model is not None else []
            waited = [line, mailbox, *answering.fds(), *thinking]
            ready = readable(waited, self._patience())
            if self._model is not None:
                self._hear_model_gate(self._model)
            if mailbox in ready:
                self._forward(self._mailbox.collect())
            self._heed_lease()
            answering.serve(ready)
            if line in ready:
                for message in self._guard.line.receive():
                    self._hear(message)
            if self._guard.line.closed and self._ended is None:
                self._replace_guard()
            if self._custody.first_in_seconds() == 0 and self._last_resort.start():
                self._custody.start()
            self._custody.look()
            if self._give_up_ns is not None and self._tools.clock.awake_ns() >= self._give_up_ns:
                self._end(self._give_up_why, self._grace * ASK_PART)
            if self._asked and self._term.now_ns() >= self._overdue_ns:
                self._guard.kill()  # which closes the line, and we take its place
        return self._ending(self._ended)

    def _timeout_ns(self) -> int | None:
        seconds = self._order.timeout_seconds
        return None if seconds is None else self._tools.clock.awake_ns() + round(seconds * 1e9)

    def _hear_model_gate(self, model: CommandModel) -> None:
        """Take note that the budget is spent; the command gets a moment to say so, and is ended then."""
        if model.hears_of_the_end():
            soon_ns = self._tools.clock.awake_ns() + round(model.MOMENT_SECONDS * 1e9)
            if self._give_up_ns is None or soon_ns < self._give_up_ns:
                self._give_up_ns, self._give_up_why = soon_ns, "budget"

    def _patience(self) -> float:
        if self._asked:
            return max(0.0, (self._overdue_ns - self._term.now_ns()) / 1e9)
        waits = [self._term.left_seconds]
        first = self._custody.first_in_seconds()
        if first is not None:
            waits.append(first)
        if self._give_up_ns is not None:
            waits.append(max(0.0, (self._give_up_ns - self._tools.clock.awake_ns()) / 1e9))
        if self._model is not None:
            waits.append(self._model.left_seconds())
        return min(waits)

    def _hear(self, message: Message) -> None:
        if "spawned" in message:
            self._group = message["spawned"]
        elif "failed" in message or "late" in message:
            self._ended = {**NOTHING_STARTED, **message}
        elif "ended" in message:
            self._ended = message
            self._guard.has_reported = True
        elif "stopped" in message:
            self._suspend(message["stopped"])

    def _heed_lease(self) -> None:
        if self._kept.lost:
            self._end("lost", 0)  # another process may have it already
        elif self._term.over:
            self._end("deadline", self._grace * ASK_PART)
        elif self._told_deadline_ns != self._term.deadline_ns:
            self._told_deadline_ns = self._term.deadline_ns
            self._guard.line.send(deadline_ns=self._told_deadline_ns)
            if self._model is not None:
                self._model.extend(self._told_deadline_ns)

    def _forward(self, signals: list[int]) -> None:
        for number in signals:
            self._guard.line.send(signal=number, group=number not in ONLY_TO_AGENT)

    def _end(self, why: str, grace_seconds: float) -> None:
        if self._asked is None:
            self._asked = why
            self._overdue_ns = self._term.now_ns() + round(self._grace * OVERDUE_PART * 1e9)
            self._guard.line.send(end=why, grace_seconds=grace_seconds)
            if why in ("lost", "deadline"):
                self._close_pass()

    def _close_pass(self) -> None:
        if self._model is not None:
            self._model.close()

    def _is_ending(self) -> bool:
        return bool(self._asked or self._kept.lost)

    def _suspend(self, number: int) -> None:
        """Stop as well when the agent was stopped from its terminal (Ctrl-Z), so that the shell gets its prompt back."""
        if self._terminal.wants(number):
            self._terminal.give(self._group)
        elif not self._terminal.is_given or number not in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            return
        else:
            self._tools.say(
                f"suspended; without 'fg' the lease runs out and the run is ended in {self._term.left_seconds:.0f} s."
            )
            self._terminal.take_back()
            held_off = self._custody.hold_off()
            os.kill(os.getpid(), signal.SIGSTOP)  # noqa: TID251  # ourselves
            if held_off:
                self._custody.go_on()
            self._terminal.give(self._group)
        if not self._term.over:
            self._guard.line.send(signal=int(signal.SIGCONT), group=True)

    def _replace_guard(self) -> None:
        """Do the work of a guard that was killed: its orphans came to us, and they end here."""
        traces = Traces(self._run_id, self._tools.processes.myself(), self._cgroup)
        gone = self._tools.processes.end(traces, grace_seconds=0, kill_seconds=KILL_SECONDS)
        self._ended = {"ended": 0, "gone": gone, "why": "guard gone"}

    def _ending(self, ended: Message) -> Ending:
        if "failed" in ended:
            return exit_codes.not_started(self._order.argv, ended["failed"])
        why = self._asked or ended["why"]
        if why in ("lost", "deadline") or "late" in ended or self._kept.lost:
            return self._lost()
        over_budget = self._model is not None and self._model.is_over
        return exit_codes.ended(self._order, why, ended["ended"], over_budget=over_budget)

    def _lost(self) -> Ending:
        return exit_codes.lost(self._kept.lost or self._kept.trouble)

    def _settle(self, lease: Lease, end: Ending) -> Ending:
        """Give the lease back; finding it in other hands outranks what the agent said."""
        gone = bool(self._ended and self._ended["gone"])
        try:
            self._store.release(lease, clean=gone, answered=end.code == 0, code=end.code)
        except LeaseLost as error:
            self._bury(lease, gone=gone)
            return end if end.code == exit_codes.LOST else exit_codes.lost(str(error))
        except StoreUnavailable as error:
            words = f"{end.words} The lease could not be given back: {error}"
            if lease.tick is not None and self._tools.keep_end is not None:
                words = f"{words} {self._tools.keep_end(lease, end.code == 0)}"
            return end._replace(words=words.strip())
        return end

    def _bury(self, lease: Lease, *, gone: bool) -> None:
        try:
            if gone:
                self._store.bury(lease)
        except FencepostError:
            return  # the next holder finds nothing left of it, and forgets it then
