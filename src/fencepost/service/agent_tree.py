"""An agent and all that it starts, in the hands of its guard: started, asked to stop, killed, and seen to be gone.

The guard is the parent, and orphans of the tree come to it. So it ends the tree child by child, and asks the whole
process table only where the host has no such thing: with hundreds of guards that would take longer than they have.
"""

from __future__ import annotations

import os

from fencepost.host import cgroup as cgroups
from fencepost.host import spawn
from fencepost.host.children import can_list_children, children_of, own_children
from fencepost.host.libc import become_subreaper
from fencepost.model import fast_signal as signal
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.ports.processes import KILL_SECONDS, Traces

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping, Sequence
    from fencepost.ports.clock import Clock
    from fencepost.ports.processes import Processes

PAUSE_MIN_SECONDS, PAUSE_MAX_SECONDS = 0.002, 0.05

# Moving a process into a cgroup makes the kernel wait for all its processors, longer than a short command takes.
SETTLE_SECONDS = 0.1
SETTLE_TRIES = 5


class AgentTree:
    """The processes of one agent."""

    def __init__(self, clock: Clock, processes: Processes) -> None:
        """Make the calling process, which has one thread, the parent of all orphans."""
        self._clock = clock
        self._processes = processes
        self._ignored = spawn.ignored_signals()
        self._lists = become_subreaper() and can_list_children()
        self._settle_ns: int | None = None  # when to move the tree into its cgroup
        self.traces = Traces("", None, None)
        self.pid: int | None = None
        self.status: int | None = None  # of the agent itself, once it has ended

    def place(self, run_id: str, cgroup: str | None) -> None:
        """Say what the processes are found by."""
        self.traces = Traces(run_id, None if self._lists else self._processes.myself(), cgroup)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        terminal: int | None = None,
        folder: str | None = None,
        standard: tuple[int, int, int] | None = None,
    ) -> int:
        """Start the agent and return its pid, or raise the OSError that kept it from starting."""
        self.pid = spawn.spawn(argv, env, ignore=self._ignored, terminal=terminal, folder=folder, standard=standard)
        if self.traces.cgroup:
            self._settle_ns = self._clock.awake_ns() + round(SETTLE_SECONDS * 1e9)
        return self.pid

    def settle_in_seconds(self) -> float | None:
        """Return when to call `settle_in`; None: never."""
        return None if self._settle_ns is None else max(0.0, (self._settle_ns - self._clock.awake_ns()) / 1e9)

    def settle_in(self) -> None:
        """Make the cgroup and move the whole tree there; what it forks meanwhile is found by the next look."""
        self._settle_ns = None
        path = self.traces.cgroup
        assert path is not None
        if not cgroups.make(path):
            return
        for _ in range(SETTLE_TRIES):
            outside = set(self._members()) - set(cgroups.pids(path))
            if not outside:
                return
            cgroups.adopt(path, outside)

    def signal(self, number: int, *, group: bool) -> None:
        """Pass a signal on; the agent is our child and not yet waited for, so its pid is its own."""
        if self.pid is None or self.status is not None:
            return
        try:
            if group:
                os.killpg(self.pid, number)  # noqa: TID251  # our own child's group
            else:
                os.kill(self.pid, number)  # noqa: TID251  # our own child
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, or became another user: nothing to pass on

    def reap(self) -> int | None:
        """Wait for what has ended, orphans too; return the signal if the agent was stopped from its terminal."""
        stopped = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return stopped
            if pid == 0:
                return stopped
            if pid == self.pid and os.WIFSTOPPED(status):
                stopped = os.WSTOPSIG(status)
            elif pid == self.pid:
                self.status = status

    def is_gone(self) -> bool:
        """Tell whether nothing is left of the tree."""
        self.reap()
        return not own_children() if self._lists else not self._processes.members(self.traces)

    def ask(self) -> None:
        """Ask every process of the tree to stop; one that is stopped has to be woken to hear it."""
        for pid in self._members():
            process = self._processes.identify(pid)
            if process is not None:
                self._processes.signal_process(process, signal.SIGTERM)
                self._processes.signal_process(process, signal.SIGCONT)

    def kill(self) -> None:
        """Kill what can be reached at once; the orphans of the killed come to us and are next."""
        if self.traces.cgroup and cgroups.belongs_to(self.traces.cgroup, self.traces.run_id):
            cgroups.kill(self.traces.cgroup)
        self.signal(signal.SIGKILL, group=True)
        for pid in own_children() if self._lists else ():
            try:
                os.kill(pid, signal.SIGKILL)  # noqa: TID251  # our own child, not yet waited for
            except (ProcessLookupError, PermissionError):
                continue

    def end(self, grace_seconds: float) -> bool:
        """Ask the tree to stop, kill what is left after the grace; return whether it is all gone."""
        if not self._lists:
            gone = self._processes.end(self.traces, grace_seconds=grace_seconds, kill_seconds=KILL_SECONDS)
            self.reap()
            return gone
        if grace_seconds > 0:
            self.ask()
            self._await_end(grace_seconds, killing=False)
        return self._await_end(KILL_SECONDS, killing=True)

    def _await_end(self, seconds: float, *, killing: bool) -> bool:
        until_ns = self._clock.awake_ns() + round(seconds * 1e9)
        pause = PAUSE_MIN_SECONDS
        while not self.is_gone():
            left = (until_ns - self._clock.awake_ns()) / 1e9
            if left <= 0:
                return False
            if killing:
                self.kill()
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, PAUSE_MAX_SECONDS)
        return True

    def _members(self) -> list[int]:
        """Return every process of the tree, parents first."""
        if not self._lists:
            return [process.pid for process in self._processes.members(self.traces)]
        found = own_children()
        for pid in found:
            found += [child for child in children_of(pid) if child not in found]
        return found
