"""Guards one command: lease, fence, start, renew, and the end of the whole tree whatever happens."""

import os
import select
import signal
from contextlib import suppress

from fencepost.host import cgroup, spawn
from fencepost.host.processes import become_subreaper
from fencepost.model.duration import format_duration
from fencepost.model.errors import LeaseLost, StoreUnavailable
from fencepost.model.lease import Claim, Lease, kill_grace, renew_every
from fencepost.ports.processes import Traces
from fencepost.ports.store import LeaseStore
from fencepost.service.admission import Admission
from fencepost.service.guard import KILL_SECONDS, GuardHandle, post_guard
from fencepost.service.line import Message
from fencepost.service.order import Order, Tools, environment, new_id
from fencepost.service.renewal import Renewal, Renewer, Term
from fencepost.service.run_folder import RunFolder, make_run_folder
from fencepost.service.run_socket import Answer, RunSocket

LOST, TIMED_OUT, FAILED, NOT_EXECUTABLE, NOT_FOUND = 76, 124, 1, 126, 127
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ONLY_TO_AGENT = (signal.SIGUSR1, signal.SIGUSR2)
NOTHING_STARTED: Message = {"ended": 0, "gone": True, "why": "not started"}
LEAVE_TRIES, LEAVE_SECONDS = 50, 0.01


class Interrupted(Exception):
    """A signal asked us to stop before the agent had started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def guard_command(order: Order, tools: Tools) -> int:
    """Run one command under a lease and return the exit code to leave with."""
    guard = post_guard(tools.clock, tools.processes)
    mailbox = Mailbox()
    try:
        store = tools.open_store()
        try:
            return _Supervisor(order, tools, guard=guard, store=store, mailbox=mailbox).run()
        finally:
            store.close()
    except Interrupted as interruption:
        return 128 + interruption.number
    finally:
        _leave(guard)
        mailbox.close()


def _leave(guard: GuardHandle) -> None:
    """Hang up and see the guard off; one that is frozen is not waited for, it leaves when it wakes."""
    guard.line.close()
    with suppress(ChildProcessError):  # somebody killed it, and we have reaped it already
        for _ in range(LEAVE_TRIES):
            if os.waitpid(guard.process.pid, os.WNOHANG)[0]:
                return
            select.select([], [], [], LEAVE_SECONDS)


class Mailbox:
    """Collects the signals that are meant for the agent, so that they can be waited for with everything else."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._before = {
            number: signal.signal(number, lambda *_: None)
            for number in FORWARDED
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def collect(self) -> list[int]:
        """Return the signals that have come."""
        try:
            return [number for number in os.read(self.fd, 4096) if number in FORWARDED]
        except BlockingIOError:
            return []

    def wait(self, seconds: float) -> None:
        """Pause before the start; a signal ends it all."""
        select.select([self.fd], [], [], seconds)
        for number in self.collect():
            raise Interrupted(number)

    def close(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._writer)


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
        self._terminal = spawn.foreground_terminal()
        self._run_id = new_id(tools.clock)
        self._cgroup = cgroup.make(self._run_id)
        self._group = 0
        self._asked: str | None = None
        self._ended: Message | None = None

    def run(self) -> int:
        """Lease, start, watch, release."""
        try:
            lease = Admission(self._order, self._tools, self._store, wait=self._mailbox.wait).admit(
                self._claim(), self._term
            )
            folder = make_run_folder(self._run_id)
            try:
                return self._supervise(lease, folder)
            finally:
                folder.remove()
        finally:
            if self._cgroup:
                cgroup.remove(self._cgroup)

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
        )

    def _supervise(self, lease: Lease, folder: RunFolder) -> int:
        key = os.urandom(24).hex()
        answering = RunSocket(folder.socket, key, {"check": self._check, "gate": self._declared})
        self._lease = lease
        renewer = Renewer(lease, self._term, self._tools.open_store)
        self._renewal = Renewal(renewer, first_in_seconds=renew_every(lease.ttl_seconds), term=self._term)
        try:
            folder.write_payload("{}\n")
            env = environment(os.environ, self._order, lease, folder=folder, key=key)
            code = self._start(lease, env, folder)
            return self._settle(lease, self._watch(answering) if code is None else code)
        finally:
            self._renewal.stop()
            answering.close()
            if self._terminal is not None:
                spawn.take_terminal(self._terminal, os.getpgrp())

    def _start(self, lease: Lease, env: dict[str, str], folder: RunFolder) -> int | None:
        """Start the agent through the guard; return an exit code if it did not start."""
        self._store.start(lease)
        self._guard.line.send(
            start={
                "argv": self._order.argv,
                "env": env,
                "run_id": self._run_id,
                "cgroup": self._cgroup,
                "folder": folder.path,
                "terminal": self._terminal,
                "deadline_ns": self._term.deadline_ns,
                "counts_sleep": self._store.facts().counts_sleep,
                "grace_seconds": self._grace,
            }
        )
        while not self._group and not self._guard.line.closed:
            for message in self._guard.line.receive():
                if "spawned" in message:
                    self._group = message["spawned"]
                elif "failed" in message:
                    return self._not_started(message["failed"])
                elif "late" in message:
                    self._ended = NOTHING_STARTED
                    return self._say_lost()
                else:
                    self._hear(message)
        return None

    def _not_started(self, number: int) -> int:
        from errno import ENOENT, ENOTDIR

        self._ended = NOTHING_STARTED
        self._tools.say(f"cannot run {self._order.argv[0]!r}: {os.strerror(number)}.")
        return NOT_FOUND if number in (ENOENT, ENOTDIR) else NOT_EXECUTABLE

    def _watch(self, answering: RunSocket) -> int:
        """Wait for everything at once until the guard reports the end of the tree."""
        line, mailbox, news = self._guard.line.fd, self._mailbox.fd, self._renewal.news
        give_up_ns = self._timeout_ns()
        while self._ended is None:
            fds = [line, mailbox, news, *answering.fds()]
            ready, _, _ = select.select(fds, [], [], self._patience(give_up_ns))
            if news in ready:
                self._hear_renewal()
            if mailbox in ready:
                self._forward(self._mailbox.collect())
            answering.serve(ready)
            if line in ready:
                for message in self._guard.line.receive():
                    self._hear(message)
            if self._guard.line.closed and self._ended is None:
                self._replace_guard()
            if self._renewal.first_in_seconds() == 0:
                self._renewal.start()
            if give_up_ns is not None and self._tools.clock.awake_ns() >= give_up_ns:
                self._end("timeout")
        return self._exit_code(self._ended)

    def _timeout_ns(self) -> int | None:
        seconds = self._order.timeout_seconds
        return None if seconds is None else self._tools.clock.awake_ns() + round(seconds * 1e9)

    def _patience(self, give_up_ns: int | None) -> float | None:
        waits = []
        first = self._renewal.first_in_seconds()
        if first is not None:
            waits.append(first)
        if give_up_ns is not None and self._asked is None:
            waits.append(max(0.0, (give_up_ns - self._tools.clock.awake_ns()) / 1e9))
        return min(waits) if waits else None

    def _hear(self, message: Message) -> None:
        if "ended" in message:
            self._ended = message
        elif "stopped" in message:
            self._suspend(message["stopped"])

    def _hear_renewal(self) -> None:
        self._renewal.hear()
        if self._renewal.lost:
            self._end("lost")
        else:
            self._guard.line.send(deadline_ns=self._term.deadline_ns)

    def _forward(self, signals: list[int]) -> None:
        for number in signals:
            self._guard.line.send(signal=number, group=number not in ONLY_TO_AGENT)

    def _end(self, why: str) -> None:
        if self._asked is None:
            self._asked = why
            self._guard.line.send(end=why)

    def _suspend(self, number: int) -> None:
        """Stop as well when the agent was stopped from its terminal (Ctrl-Z), so that the shell gets its prompt back."""
        if self._terminal is None or number not in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            return
        left = max(0.0, (self._term.deadline_ns - self._term.now_ns()) / 1e9)
        self._tools.say(f"suspended; without 'fg' the lease runs out and the run is ended in {left:.0f} s.")
        spawn.take_terminal(self._terminal, os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)  # noqa: TID251  # ourselves
        if not self._term.over:
            spawn.take_terminal(self._terminal, self._group)
            self._guard.line.send(signal=int(signal.SIGCONT), group=True)

    def _replace_guard(self) -> None:
        """Somebody killed the guard: its orphans came to us, and they end here."""
        become_subreaper()
        traces = Traces(self._run_id, self._guard.process, self._cgroup)
        gone = self._tools.processes.end(traces, grace_seconds=0, kill_seconds=KILL_SECONDS)
        self._tools.say("the guard process was killed, so the run was ended.")
        self._ended = {"ended": FAILED << 8, "gone": gone, "why": "guard gone"}

    def _exit_code(self, ended: Message) -> int:
        why = self._asked or ended["why"]
        if why in ("lost", "deadline") or self._renewal.lost:
            return self._say_lost()
        if why == "timeout":
            self._tools.say(f"timed out after {format_duration(self._order.timeout_seconds or 0)}; the run was ended.")
            return TIMED_OUT
        status: int = ended["ended"]
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _say_lost(self) -> int:
        reason = self._renewal.lost or self._renewal.trouble or "it could not be renewed in time."
        self._tools.say(f"lease lost, the run was ended: {reason}")
        return LOST

    def _settle(self, lease: Lease, code: int) -> int:
        """Give the lease back; finding it in other hands outranks whatever the agent said."""
        gone = bool(self._ended and self._ended["gone"])
        try:
            self._store.release(lease, clean=gone)
        except LeaseLost:
            if gone:
                self._store.bury(lease)
            return code if code == LOST else self._say_lost()
        except StoreUnavailable as error:
            self._tools.say(f"the lease could not be given back and will run out by itself: {error}")
        return code

    def _check(self, _: Answer) -> Answer:
        """Answer whether the agent may still act."""
        if self._term.over or self._renewal.lost or self._asked:
            return {"ok": False, "code": "lease_lost", "message": "the lease of this run is lost: stop."}
        left = (self._term.deadline_ns - self._term.now_ns()) / 1e9
        return {"ok": True, "fence": self._lease.fence, "resources": self._lease.resources, "trusted_seconds": left}

    def _declared(self, request: Answer) -> Answer:
        """Answer whether the run has named this target, so that its fence was raised there before the start."""
        answer = self._check(request)
        target = str(request.get("gate", ""))
        if not answer["ok"] or any(_covers(gate, target) for gate in self._lease.gates):
            return answer
        message = f"this run did not declare {target}; add --gate {target} to fencepost exec."
        return {"ok": False, "code": "undeclared", "message": message}


def _covers(gate: str, target: str) -> bool:
    return gate == target or (gate.endswith("/") and target.startswith(gate))
