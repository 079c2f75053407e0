"""Finds, judges and ends the processes of a run, and never signals a stranger."""

from __future__ import annotations

import os

from fencepost.host import cgroup
from fencepost.host.identity import this_host
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Iterable, Mapping, NamedTuple
from fencepost.model.process import Fate, Host, ProcessId, fate_by_host

if TYPE_CHECKING:
    from fencepost.host.process_table import ProcessRow, Table
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Traces

_PAUSE_MIN_SECONDS = 0.005
_PAUSE_MAX_SECONDS = 0.05


def system_processes(clock: Clock) -> SystemProcesses:
    """Return this host's process table, read the best way it offers."""
    return SystemProcesses(clock, _best_table(), this_host())


class SystemProcesses:
    """The host's process table, and the hand that reaches into it."""

    __slots__ = ("_clock", "_here", "_table")

    def __init__(self, clock: Clock, table: Table, here: Host) -> None:
        self._clock = clock
        self._table = table
        self._here = here

    def here(self) -> Host:
        """Return this host, boot and pid namespace."""
        return self._here

    def myself(self) -> ProcessId:
        """Return the calling process."""
        me = self.identify(os.getpid())
        assert me is not None, "the process table does not show its own reader"
        return me

    def identify(self, pid: int) -> ProcessId | None:
        """Return who has this pid now, dead or alive, or None if no visible process has it."""
        try:
            row = self._table.row(pid)
        except PermissionError:
            return None
        return None if row is None else self._named(row)

    def fate(self, process: ProcessId) -> Fate:
        """Tell whether this very process still runs."""
        by_host = fate_by_host(process, self._here)
        if by_host is not None:
            return by_host
        try:
            row = self._table.row(process.pid)
        except PermissionError:
            return Fate.UNKNOWN
        if row is None:
            # A table that hides other users' processes looks just like one without them; kill(2) hides nothing.
            return Fate.DEAD if _is_vacant(process.pid) else Fate.UNKNOWN
        return Fate.ALIVE if _is_living(process, row) else Fate.DEAD

    def members(self, traces: Traces, *, spare: Collection[int] = ()) -> list[ProcessId]:
        """Return the living processes of a run's tree, newest first, never the guard or the caller themselves."""
        return self._look(traces, spare, {}).members

    def end(self, traces: Traces, *, grace_seconds: float, kill_seconds: float, spare: Collection[int] = ()) -> bool:
        """Ask the tree to stop, kill what is left after the grace; return whether it is all gone."""
        if grace_seconds > 0:
            self._ask(traces, grace_seconds, spare)
        return self._kill(traces, kill_seconds, spare)

    def signal_process(self, process: ProcessId, signum: int) -> bool:
        """Signal this very process; return False if it is gone, elsewhere, or not ours to signal."""
        if fate_by_host(process, self._here) is not None:
            return False
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        except (OSError, AttributeError):  # macOS, an old kernel, a filter, no descriptors left
            return self._signal_by_pid(process, signum)
        try:
            # The handle sticks to one process, so the process that is recognised now is the one that gets the signal.
            return self.fate(process) is Fate.ALIVE and _sent(handle, signum)
        finally:
            os.close(handle)

    def _guard(self, traces: Traces) -> set[int]:
        """Return the guard's pid if it is still the guard who has it, else nothing."""
        guard = traces.guard
        return {guard.pid} if guard is not None and self.fate(guard) is Fate.ALIVE else set()

    def _look(self, traces: Traces, spare: Collection[int], strangers: Mapping[int, ProcessRow]) -> _Look:
        """Follow every trace: what the traces lead to, and all that came from it."""
        assert cgroup.is_run_id(traces.run_id), f"not a run id: {traces.run_id!r}"
        rows = self._table.rows(strangers)
        guard = self._guard(traces)
        found = _descendants(rows, guard)
        if traces.cgroup is not None and cgroup.belongs_to(traces.cgroup, traces.run_id):
            found.update(cgroup.pids(traces.cgroup))
        young = self._young(traces, rows)
        asked = [row for row in young if row.pid not in found and not row.gone and strangers.get(row.pid) is not row]
        marked = self._table.marked(f"FENCEPOST_RUN_ID={traces.run_id}", asked)
        found |= marked.pids
        found |= _descendants(rows, found)
        others = rows.keys() - found - guard
        found -= {*spare, os.getpid(), *guard}
        unclear = {row.pid for row in young if row.gone or row.pid in marked.unclear}
        return _Look(
            members=[self._named(row) for row in reversed(rows.values()) if row.pid in found and not row.gone],
            unclear={(pid, rows[pid].started) for pid in unclear},
            strangers={pid: rows[pid] for pid in others - unclear if rows[pid].entry},
        )

    def _young(self, traces: Traces, rows: dict[int, ProcessRow]) -> list[ProcessRow]:
        """Leave out what is older than the run: to ask a stuck process for its environment can block."""
        guard = traces.guard
        if guard is None or fate_by_host(guard, self._here) is not None:
            return list(rows.values())
        return [row for row in rows.values() if not self._table.is_older(row, guard.started)]

    def _ask(self, traces: Traces, grace_seconds: float, spare: Collection[int]) -> None:
        """Ask each member once, and wait: what a member starts to clean up after itself is left to its work."""
        deadline = self._deadline(grace_seconds)
        members = self.members(traces, spare=spare)
        for process in members:
            self.signal_process(process, signal.SIGTERM)
            self.signal_process(process, signal.SIGCONT)  # a stopped one could not act on the request
        pause = _PAUSE_MIN_SECONDS
        while members and self._clock.awake_ns() < deadline:
            pause = self._pause(pause, deadline)
            if not any(self.fate(process) is Fate.ALIVE for process in members):
                members = self.members(traces, spare=spare)

    def _kill(self, traces: Traces, kill_seconds: float, spare: Collection[int]) -> bool:
        """Kill what we find until there is nothing to find, and we are sure of it."""
        deadline = self._deadline(kill_seconds)
        pause = _PAUSE_MIN_SECONDS
        hunt = _Hunt(self._table)
        while True:
            self._kill_cgroup(traces, spare)
            look = self._look(traces, spare, hunt.strangers)
            for process in look.members:
                self.signal_process(process, signal.SIGKILL)
            is_race = hunt.brings_news(look)
            if hunt.is_over:
                return True
            if self._clock.awake_ns() >= deadline:
                return False
            if not is_race:
                pause = self._pause(pause, deadline)

    def _kill_cgroup(self, traces: Traces, spare: Collection[int]) -> None:
        """Kill the cgroup as a whole, unless a process in it shall live."""
        path = traces.cgroup
        if path is None or not cgroup.belongs_to(path, traces.run_id):
            return
        if {*spare, os.getpid(), *self._guard(traces)}.isdisjoint(cgroup.pids(path)):
            cgroup.kill(path)

    def _signal_by_pid(self, process: ProcessId, signum: int) -> bool:
        """Signal right after the proof of identity: the best that a host without process handles allows."""
        if self.fate(process) is not Fate.ALIVE:
            return False
        try:
            os.kill(process.pid, signum)  # noqa: TID251 - the identity was proven in the line before
        except OSError:
            return False
        return True

    def _deadline(self, seconds: float) -> int:
        return self._clock.awake_ns() + int(seconds * 1_000_000_000)

    def _pause(self, seconds: float, deadline: int) -> float:
        """Wait, though not past the deadline, and return how long to wait next time."""
        left_seconds = (deadline - self._clock.awake_ns()) / 1_000_000_000
        self._clock.sleep(max(0.0, min(seconds, left_seconds)))
        return min(2 * seconds, _PAUSE_MAX_SECONDS)

    def _named(self, row: ProcessRow) -> ProcessId:
        return ProcessId(self._here, row.pid, row.started)


class _Look(NamedTuple):
    """What one pass over the process table showed."""

    members: list[ProcessId]
    unclear: set[tuple[int, str]]  # ended while we looked, so maybe after starting a process that we did not see
    strangers: dict[int, ProcessRow]  # have nothing to do with the run


class _Hunt:
    """Judges whether a look that finds no process means that there is none.

    A process can start a successor and end between the moment it is listed and the moment it is read. So an empty
    look counts when everything unclear in it was unclear before it began. A very busy host may never show such a
    look: there, many empty looks in a row count as one.

    A process that an empty look has missed was started while it lasted. So the next one need not ask again those who were
    found to be strangers, which makes it twenty times as quick: neighbours who fork a lot must not delay a takeover.
    """

    __slots__ = ("_empty_looks", "_seen", "_table", "_unclear", "is_over", "strangers")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: set[ProcessId] = set()
        self._unclear: set[tuple[int, str]] = set()
        self._empty_looks = 0
        self.strangers: Mapping[int, ProcessRow] = {}
        self.is_over = False

    def brings_news(self, look: _Look) -> bool:
        """Take a look into account; return whether we should look again at once, since every moment counts."""
        is_clear = look.unclear <= self._unclear
        is_new = not self._seen.issuperset(look.members)
        self._empty_looks = 0 if look.members else self._empty_looks + 1
        self._seen.update(look.members)
        self.is_over = self._empty_looks >= self._needed(is_clear=is_clear)
        self._unclear = look.unclear
        self.strangers = {} if look.members else look.strangers
        return is_new or not look.members

    def _needed(self, *, is_clear: bool) -> int:
        if not is_clear:
            return self._table.looks_max
        return self._table.looks_needed if self._seen else 1


def _best_table() -> Table:
    from fencepost.host.proc_table import OuterProcTable, ProcTable, proc_is_ours, proc_is_usable

    if not proc_is_usable():
        from fencepost.host.ps_table import PsTable

        return PsTable()
    return ProcTable() if proc_is_ours() else OuterProcTable()


def _is_living(process: ProcessId, row: ProcessRow) -> bool:
    return row.started == process.started and not row.gone


def _is_vacant(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # noqa: TID251 - signal 0 does nothing
    except ProcessLookupError:
        return True
    except PermissionError:  # it is there, and not ours
        return False
    return False


def _sent(handle: int, signum: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signum)
    except OSError:
        return False
    return True


def _descendants(rows: dict[int, ProcessRow], roots: Iterable[int]) -> set[int]:
    """Return all that the roots started, and what these started, without the roots themselves."""
    children: dict[int, list[int]] = {}
    for row in rows.values():
        children.setdefault(row.parent, []).append(row.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        fresh = [child for child in children.get(todo.pop(), ()) if child not in found]
        found.update(fresh)
        todo.extend(fresh)
    return found
