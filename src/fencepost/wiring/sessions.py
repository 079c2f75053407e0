"""Builds the keeper of a person's agent session, which holds the session's project while it lasts."""

from __future__ import annotations

import os

from fencepost.wiring import exec_store_url, exec_tools

QUIET_SECONDS = 1800.0  # a turn in which nothing is said for so long was interrupted
QUIET = "FENCEPOST_QUIET_SECONDS"


def start_session(data: bytes, *, turn: bool = False) -> str:
    """Have a person's agent session hold its project; return what the person should know, or nothing.

    For a turn alone it is given back at the turn's end, or when nothing was heard of it for long.
    """
    import subprocess

    from fencepost.host.caller_process import caller
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.errors import Misconfigured
    from fencepost.model.lease_check import is_in_a_run
    from fencepost.model.own_program import own_program
    from fencepost.model.process import Fate
    from fencepost.operations.agent_sessions import Notes, session_of

    if is_in_a_run(os.environ):
        return ""  # a run holds what it works on by itself
    processes = system_processes(SystemClock())
    above = caller(processes)
    if above is None:
        raise Misconfigured("session-start is for an agent's hook: no program was found that could have called it.")
    session = session_of(data, os.environ, os.getcwd())
    name = session.id or f"{above.pid}-{above.started}"
    notes = Notes(os.environ)
    locked = notes.lock()
    try:
        before = notes.keeper(name)
        if before is not None and processes.fate(before) is Fate.ALIVE:
            notes.touch(name)
            return ""
        words = [*own_program(), "hook", "keep", name, str(above.pid), above.started]
        program = subprocess.Popen(
            [*words, session.folder, session.label, *([session.transcript or "-"] if turn else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        keeper = processes.identify(program.pid)
        if keeper is not None:
            notes.write(name, keeper)
    finally:
        os.close(locked)
    assert program.stdout is not None
    return _first_word(program.stdout.fileno())


def _first_word(descriptor: int) -> str:
    """Return why the keeper waits, if it has to; nothing if it holds the project, or takes its time to say."""
    from select import select

    from fencepost.service.session_holder import HELD

    patience = 3.0
    ready, _, _ = select([descriptor], [], [], patience)
    said = os.read(descriptor, 4096).decode(errors="replace").partition("\n")[0] if ready else ""
    return "" if said == HELD else said


def may_act(data: bytes, *, seconds: float) -> str:
    """Wait until a session holds its project, for at most so long; return why it may not act, nothing if it may."""
    from fencepost.host.caller_process import caller
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.lease_check import is_in_a_run
    from fencepost.operations.agent_sessions import Notes, session_of
    from fencepost.service.session_holder import HELD

    if is_in_a_run(os.environ):
        return ""
    clock = SystemClock()
    above = caller(system_processes(clock))
    session = session_of(data, os.environ, os.getcwd())
    name = session.id or (f"{above.pid}-{above.started}" if above else "")
    start_session(data, turn=True)  # a turn that was thought to be over takes its place in the line again
    notes = Notes(os.environ)
    until_ns = clock.awake_ns() + round(seconds * 1e9)
    while True:
        keeper = notes.keeper(name)
        standing = notes.standing(name, keeper) if keeper else ""
        if standing == HELD:
            return ""
        if clock.awake_ns() >= until_ns:
            return standing or "the project's line does not answer"
        clock.sleep(0.1)


def end_session(data: bytes) -> None:
    """End the keeper of a session, which gives the project back; a session without a keeper is no trouble."""
    from fencepost.host.caller_process import caller
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.fast_signal import SIGTERM
    from fencepost.operations.agent_sessions import Notes, session_of

    processes = system_processes(SystemClock())
    session = session_of(data, os.environ, os.getcwd())
    above = None if session.id else caller(processes)
    name = session.id or (f"{above.pid}-{above.started}" if above else "")
    notes = Notes(os.environ)
    locked = notes.lock()
    try:
        keeper = notes.keeper(name)
        if keeper is not None:
            processes.signal_process(keeper, SIGTERM)
    finally:
        os.close(locked)


def keep_session(name: str, pid: int, started: str, *, folder: str, label: str, transcript: str = "") -> None:
    """Be the keeper of a session: hold its project while its process lives, or with a transcript, while its turn lasts."""
    from fencepost.model.lease import TTL_DEFAULT_SECONDS
    from fencepost.model.process import ProcessId
    from fencepost.operations.agent_sessions import Notes
    from fencepost.operations.project_lookup import ground_at
    from fencepost.service.command_order import Order
    from fencepost.service.session_holder import SessionHolder

    ground = ground_at(folder, os.environ, folder)
    tools = exec_tools(ground.store or exec_store_url(None))
    order = Order(
        argv=(),
        tenant="default",
        resources=(ground.resource,),
        label=label,
        ttl_seconds=TTL_DEFAULT_SECONDS,
        wait_seconds=float("inf"),
        holder=name,
        slots=ground.slots,
        what=ground.words,
    )
    notes = Notes(os.environ)
    limit = float(os.environ.get(QUIET) or QUIET_SECONDS)

    def tell(text: str) -> None:
        notes.tell(name, text)
        _tell_once(text)

    def is_over() -> bool:
        return bool(transcript) and notes.quiet_seconds(name, transcript, now_us=tools.clock.wall_us()) > limit

    try:
        SessionHolder(order, tools, ProcessId(tools.processes.here(), pid, started), tell, is_over).run()
    finally:
        notes.forget(name, tools.processes.myself())


def _tell_once(text: str) -> None:
    """Tell the process that started us how it stands, the first time; after that it no longer listens."""
    try:
        os.write(1, f"{' '.join(text.split())}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return
