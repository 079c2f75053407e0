"""One guard as its worker sees it."""

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.host import cgroup as cgroups
from fencepost.model.process import Fate, ProcessId
from fencepost.ports.processes import Processes, Traces
from fencepost.service.answers import SocketAnswers
from fencepost.service.channel import Channel, Message
from fencepost.service.run_answers import RunAnswers
from fencepost.service.run_order import GuardPlace

if TYPE_CHECKING:
    from fencepost.ports.runs import LeasedRun
    from fencepost.service.custody import Kept
    from fencepost.service.end_record import EndRecord
    from fencepost.service.tool_calls import State
    from fencepost.stores.runtime import RuntimeStore


class Guarded:
    """A guard, idle or with a run."""

    def __init__(self, place: GuardPlace, process: ProcessId, channel: Channel, *, full: bool = True) -> None:
        self.place, self.process, self.channel = place, process, channel
        self.full = full  # it carries out any run; else plain commands only
        self.leased: LeasedRun | None = None
        self.kept: Kept | None = None
        self.cgroup: str | None = None
        self.agent: ProcessId | None = None  # once it was spawned
        self.session: str | None = None  # the agent's conversation, where it is known before the start
        self.tool_state: State = {}  # how far the calls of each tool are
        self.started = False  # on record
        self.adopted = False
        self.stopping = False  # it was told to end
        self.told_deadline_ns = 0
        self.end: EndRecord | None = None

    def answer(self, request: Message, store: "RuntimeStore") -> Message:
        """Answer what the guard relays, for as long as the lease is held."""
        leased, kept = self.leased, self.kept
        assert leased is not None
        assert kept is not None
        basics = SocketAnswers(leased.lease, kept.term, lambda: self.stopping, store, self.tool_state)
        handlers = RunAnswers(basics, store, leased.lease, {}, leased.checkpoint).handlers()
        verb = str(request.get("verb"))
        if verb not in handlers:
            return {"ok": False, "code": "invalid", "message": f"this run does not know the verb {verb!r}."}
        content = handlers[verb](request)
        name = str(request.get("name", ""))
        return {**content, "tools": {name: self.tool_state[name]}} if name in self.tool_state else content

    def tell_deadline(self) -> None:
        """Move the guard's deadline after a renewal."""
        if self.kept is not None and self.told_deadline_ns != self.kept.term.deadline_ns:
            self.told_deadline_ns = self.kept.term.deadline_ns
            self.channel.send(deadline_ns=self.told_deadline_ns)

    def stop(self, why: str, grace_seconds: float | None = None) -> None:
        """Have the guard end its agent; once is enough."""
        if not self.stopping:
            self.stopping = True
            self.channel.send(end=why, grace_seconds=grace_seconds)

    def kill(self, processes: Processes) -> None:
        """End the tree and the guard at once, without waiting for anything; what escapes is found by a later look.

        The agent is killed first: as long as its guard has not waited for it, no other process gets its number. A guard that
        lives and has hung up has another keeper, and is none of our business any more.
        """
        if self.channel.hung_up and processes.fate(self.process) is Fate.ALIVE:
            return
        run_id = self.leased.run.id if self.leased else ""
        if self.cgroup and cgroups.belongs_to(self.cgroup, run_id):
            cgroups.kill(self.cgroup)
        processes.signal_process(self.process, signal.SIGSTOP)
        if self.agent is not None and processes.identify(self.agent.pid) == self.agent:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.agent.pid, signal.SIGKILL)  # noqa: TID251  # its guard is stopped, so it is still there
        processes.signal_process(self.process, signal.SIGKILL)

    def traces(self) -> Traces:
        """Return what is left to find its processes by."""
        return Traces(self.leased.run.id if self.leased else "", self.process, self.cgroup)
