"""A person's agent session as a holder of its project: announced by a short-lived hook, kept by a small process.

The hook that announces it ends at once, so a keeper holds the lease in its place for as long as the session's own
process lives. It runs nothing and kills nothing: a session is a person's, and is never ended by us.
"""

import os
import signal
from contextlib import suppress

from fencepost.model.errors import Busy, FencepostError, LeaseLost, StoreUnavailable
from fencepost.model.lease import TTL_DEFAULT_SECONDS, Held, slots_of
from fencepost.model.process import Fate, ProcessId
from fencepost.service.holding import HeldLease, hold
from fencepost.service.order import Order, Tools

LOOK_SECONDS = 1.0
GRANTED = b"+"


def announce_session(
    resource: str, holder: str, *, session: int, tools: Tools, slots: int = 1, what: str = "", tenant: str = "default"
) -> bool:
    """Hold a project for the session `holder` while the process `session` lives; raise Busy if somebody else is in it.

    Returns False if this very session holds it already: saying so again changes nothing.
    """
    process = tools.processes.identify(session)
    if process is None:
        raise Busy(f"the session's process {session} is gone.")
    if find_session(resource, holder, tools=tools, slots=slots) is not None:
        return False
    order = Order((), tenant, (resource,), f"session {holder}", TTL_DEFAULT_SECONDS, holder=holder, slots=slots)
    told = _fork_keeper(order._replace(what=what), process, tools)
    if told != GRANTED:
        raise Busy(told.decode(errors="replace") or "the keeper of the session could not be started.")
    return True


def end_session(resource: str, holder: str, *, tools: Tools, slots: int = 1) -> bool:
    """Let go of a session's project; False if it did not hold it."""
    held = find_session(resource, holder, tools=tools, slots=slots)
    return held is not None and tools.processes.signal_process(held.supervisor, signal.SIGTERM)


def find_session(resource: str, holder: str, *, tools: Tools, slots: int = 1) -> Held | None:
    """Return the lease of a session, if its keeper lives."""
    store = tools.open_store()
    try:
        wanted = set(slots_of(resource, slots))
        mine = [one for one in store.leases() if one.holder == holder and wanted.intersection(one.resources)]
    finally:
        store.close()
    alive = (one for one in mine if not one.lost and tools.processes.fate(one.supervisor) is not Fate.DEAD)
    return next(alive, None)


def _fork_keeper(order: Order, session: ProcessId, tools: Tools) -> bytes:
    """Start the keeper, out of reach of the caller's terminal and pipes, and return what it says about the lease."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.close(reader)
                _keep(order, session, tools._replace(say=lambda _: None), writer)
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, "rb") as answer:
        return answer.read()


def _keep(order: Order, session: ProcessId, tools: Tools, writer: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    try:
        held = hold(order, tools)
    except FencepostError as error:
        os.write(writer, str(error).encode(errors="replace"))
        return
    os.write(writer, GRANTED)
    os.close(writer)
    while not asked and not held.lost and tools.processes.fate(session) is not Fate.DEAD:
        tools.clock.sleep(LOOK_SECONDS)
    _let_go(held)


def _let_go(held: HeldLease) -> None:
    with suppress(LeaseLost, StoreUnavailable):  # it is somebody else's by now, or runs out by itself
        held.release()
