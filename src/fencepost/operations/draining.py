"""Stops the workers of this machine for good: agents finish or are handed back, whatever SIGTERM means to them."""

import signal
from typing import NamedTuple

from fencepost.host.life_lock import holders_in
from fencepost.model.process import Fate, ProcessId
from fencepost.ports.clock import Clock
from fencepost.ports.processes import Processes

LOOK_SECONDS = 0.1


class Drained(NamedTuple):
    """A worker that was asked to drain."""

    worker: str
    pid: int
    gone: bool


def drain_workers(folder: str, processes: Processes, clock: Clock, *, seconds: float) -> list[Drained]:
    """Ask every worker of this user to drain, and wait for so long until they are gone."""
    asked = _workers(folder, processes)
    for _, process in asked:
        processes.signal_process(process, signal.SIGINT)
    give_up_ns = clock.awake_ns() + round(seconds * 1e9)
    while clock.awake_ns() < give_up_ns and not all(_is_gone(processes, process) for _, process in asked):
        clock.sleep(LOOK_SECONDS)
    return [Drained(name, process.pid, _is_gone(processes, process)) for name, process in asked]


def _workers(folder: str, processes: Processes) -> list[tuple[str, ProcessId]]:
    """Return the living workers, by the locks that they hold for life."""
    known = [(name, processes.identify(pid)) for name, pid in holders_in(folder).items()]
    return [(name, process) for name, process in known if process is not None]


def _is_gone(processes: Processes, process: ProcessId) -> bool:
    return processes.fate(process) is not Fate.ALIVE
