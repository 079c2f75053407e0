"""What a guard has done in a child of its own, because it may block: gates, checkout, merge.

A dead mount or a hanging server holds up one run and not its guard, which ends the child at the deadline like an agent.
"""

import json
import os
import select
import signal
from _socket import socket, socketpair
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from fencepost.host.libc import die_with_parent
from fencepost.host.spawn import close_others
from fencepost.host.worktree import Worktree
from fencepost.model.errors import FencepostError, FenceRegress, Invalid, LeaseLost, Misconfigured, Withheld
from fencepost.model.lease import Granted
from fencepost.model.run import Reason
from fencepost.ports.store import StoreFacts
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools
from fencepost.service.model_gate_client import open_pass
from fencepost.service.relay_store import RelayStore
from fencepost.service.run_order import Additions, RunOrder
from fencepost.service.workplace import RunWorktree

Message = dict[str, Any]
Work = Callable[[Tools], Message]


class GuardChild:
    """The guard's end of it."""

    def __init__(self, connection: socket, pid: int) -> None:
        self._connection = connection
        self._pid = pid
        self._rest = b""
        self.fd = connection.fileno()
        self.result: Message | None = None

    def hear(self, *, relay: Callable[[Message], None], say: Callable[[str], None]) -> None:
        """Pass on what the child asks and says; its last word, or its silence, is the result."""
        try:
            data = self._connection.recv(262_144)
        except OSError:
            data = b""
        if not data:
            self.result = self.result or {"failed": "error", "message": "what prepares or finishes it was killed."}
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for message in map(json.loads, lines):
            if "said" in message:
                say(str(message["said"]))
            elif "store" in message:
                relay(message)
            else:
                self.result = message

    def answer(self, answer: Message) -> None:
        """Answer the child, which waits for it."""
        try:
            self._connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            return  # it is gone, and so is its question

    def end(self) -> None:
        """Kill it with all that it has started; as our child it keeps its number until we have waited for it."""
        for number in (-self._pid, self._pid):  # its group, and itself in case it had no time to make one
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)  # noqa: TID251  # our own child, not yet waited for
        self._connection.close()


def start_child(work: Work, tools: Tools, facts: StoreFacts, environ: dict[str, str]) -> GuardChild:
    """Fork a child that works and reports; it dies with the guard."""
    ours, theirs = socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            _become(theirs, work, tools, facts, environ)
        finally:
            os._exit(0)
    theirs.close()
    return GuardChild(ours, pid)


def _become(connection: socket, work: Work, tools: Tools, facts: StoreFacts, environ: dict[str, str]) -> None:
    os.setpgid(0, 0)
    die_with_parent(signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    close_others(connection.fileno())
    os.environ.update(environ)

    def say(text: str) -> None:
        connection.sendall(json.dumps({"said": text}).encode() + b"\n")

    store = RelayStore(connection, facts)
    try:
        result = work(tools._replace(open_store=lambda: store, say=say))
    except FencepostError as error:
        result = {"failed": error.code, "message": str(error), "reason": _reason(error)}
    connection.sendall(json.dumps(result).encode() + b"\n")


def _reason(error: FencepostError) -> str:
    """Say why a run was not started, if preparing it raised this."""
    if isinstance(error, FenceRegress):
        return Reason.FENCE_REGRESS.value
    return (Reason.MISCONFIGURED if isinstance(error, Invalid | Withheld) else Reason.GATE_UNREACHABLE).value


def prepare(order: RunOrder, added: Additions, tools: Tools) -> Message:
    """End the predecessors, raise every gate, and make the worktree, if the run works in one."""
    wanted = Order(
        order.argv,
        order.lease.tenant,
        order.lease.resources,
        label="",
        ttl_seconds=order.lease.ttl_seconds,
        gates=order.lease.gates,
    )

    def wait(seconds: float) -> None:
        select.select([], [], [], seconds)

    Admission(wanted, tools, tools.open_store(), wait=wait).prepare(Granted(order.lease, added.predecessors))
    if added.model is not None:
        open_pass(added.model.on(counts_sleep=tools.open_store().facts().counts_sleep))
    if added.apart is None:
        return {"done": None}
    try:
        worktree = _workplace(order, added, tools).enter()
    except LeaseLost:
        raise
    except FencepostError as error:
        raise Invalid(str(error)) from error
    return {"done": asdict(worktree)}


def finish(order: RunOrder, added: Additions, worktree: Message, tools: Tools, *, succeeded: bool) -> Message:
    """Save, merge and put away what the agent left in its worktree; return what to tell."""
    return {"done": _workplace(order, added, tools).leave(Worktree(**worktree), succeeded=succeeded)}


def _workplace(order: RunOrder, added: Additions, tools: Tools) -> RunWorktree:
    if added.apart is None:
        raise Misconfigured("this run works in no worktree.")
    return RunWorktree(tools, added.apart, order.lease, lambda: None)  # the guard ends us when the lease is over
