"""One host with guards, agents and workers as objects: the product's own code, on a clock that stands still unless moved.

A guard is the real RunGuard and a worker the real Worker; they speak over real sockets. Made up are processes, forks, the
agents' trees, and everything that would wait.
"""

import os
import select
import signal
from _socket import AF_UNIX, SOCK_STREAM, socket
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from fencepost.model.errors import FencepostError
from fencepost.model.lease import kill_grace
from fencepost.model.process import Fate, Host, ProcessId, fate_by_host
from fencepost.ports.processes import Traces
from fencepost.service import adoption, guard_skills, run_guard
from fencepost.service.command_order import Tools
from fencepost.service.guard_child import GuardChild, _reason
from fencepost.service.guard_skills import GuardSkills
from fencepost.service.run_guard import AGENT, ENDED, RunGuard
from fencepost.service.run_order import GuardPlace
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.adoption.world import AdoptionWorld

ASK_PART = 0.6  # of the grace: then the guard kills
HELLO_SECONDS = 0.02  # real time is waited for here, for guards that are frozen


class Agent:
    """What is run: prints lines, and ends when it is told to."""

    def __init__(self, world: "AdoptionWorld", guard: "SimGuard", output: int, run_id: str, fence: int) -> None:
        self.pid = world.new_pid()
        self.world, self.guard, self.run_id, self.fence = world, guard, run_id, fence
        self.lines = 0
        self.alive = True
        self.status: int | None = None
        self.how = ""
        self._output = output
        others = [one for one in world.agents if one.alive and one.run_id == run_id]
        if others:
            raise Violation("overlap", f"{run_id} starts with fence {fence} beside fence {others[0].fence}")
        world.agents.append(self)

    def print(self) -> None:
        self.lines += 1
        os.write(self._output, f"line {self.lines}\n".encode())

    def exit(self) -> None:
        os.write(self._output, b"the end\n")
        self.lines += 1
        self._die("exit", 0)

    def kill(self, why: str) -> None:
        if self.alive:
            self.world.log(f"the agent of {self.run_id} with fence {self.fence} is killed: {why}")
            self._die(why, signal.SIGKILL)

    def _die(self, how: str, status: int) -> None:
        self.alive, self.how, self.status = False, how, status
        os.close(self._output)


class SimTree:
    """The processes of one agent, in the hands of its guard."""

    def __init__(self, guard: "SimGuard") -> None:
        self._guard = guard
        self.traces = Traces("", None, None)
        self.pid: int | None = None
        self.status: int | None = None
        self.agent: Agent | None = None

    def place(self, run_id: str, cgroup: str | None) -> None:
        self.traces = Traces(run_id, self._guard.id, cgroup)

    def start(self, argv: object, env: dict[str, str], *, standard: tuple[int, int, int], folder: str) -> int:  # noqa: ARG002
        run_id, fence = env["FENCEPOST_RUN_ID"], int(env["FENCEPOST_FENCE"])
        self.agent = Agent(self._guard.world, self._guard, os.dup(standard[1]), run_id, fence)
        self.pid = self.agent.pid
        return self.pid

    def settle_in_seconds(self) -> None:
        return None

    def signal(self, number: int, *, group: bool) -> None:
        """Pass a signal on: none is sent here."""

    def reap(self) -> None:
        self.status = self.agent.status if self.agent else None

    def is_gone(self) -> bool:
        self.reap()
        return self.agent is None or not self.agent.alive

    def ask(self) -> None:
        """Be asked in vain, as by many agents."""

    def kill(self) -> None:
        if self.agent is not None:
            self.agent.kill("by its guard")


class SimChild(GuardChild):
    """What would be forked to prepare a run, done when its guard listens to it."""

    def __init__(self, world: "AdoptionWorld", work: Callable[[Tools], dict[str, Any]], tools: Tools) -> None:
        reader, writer = os.pipe()
        os.close(writer)
        self.fd, self.result = reader, None
        self._world, self._work, self._tools = world, work, tools

    def hear(self, *, relay: object, say: Callable[[str], None]) -> None:  # noqa: ARG002  # it reaches the store by itself
        tools = self._tools._replace(open_store=lambda: self._world.store, say=say)
        try:
            self.result = self._work(tools)
        except FencepostError as error:
            self.result = {"failed": error.code, "message": str(error), "reason": _reason(error)}

    def end(self) -> None:
        os.close(self.fd)


class SimGuard:
    """A guard that was forked."""

    def __init__(self, world: "AdoptionWorld", place: GuardPlace, *, full: bool) -> None:
        self.world, self.place = world, place
        self.id = ProcessId(world.here, world.new_pid(), "1")
        self.alive, self.frozen = True, False
        self.told_lost = False
        self.stopped = False  # by a worker that is about to kill it
        self._wakeup, self._waker = os.pipe()
        listener = socket(AF_UNIX, SOCK_STREAM)
        listener.bind(place.socket)
        listener.listen(16)
        listener.setblocking(False)
        self.tree = SimTree(self)
        with patch.object(run_guard, "AgentTree", lambda *_: self.tree):
            tools = world.tools(self.id)
            learn = (lambda order, facts: GuardSkills(tools, order, facts)) if full else None
            self.guard = RunGuard(listener, place, tools.clock, tools.processes, learn)
        world.guards.append(self)

    def step(self) -> None:
        """Look once at everything, as the loop of a guard does."""
        if not self.alive or self.frozen or self.stopped:
            return
        guard = self.guard
        poll = select.poll()  # hundreds of seeds in one process have more descriptors than select() can count
        for descriptor in guard._fds(self._wakeup):
            poll.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(0)]
        before = guard._epoch, guard._term.over and guard._phase != ENDED
        guard._hear(ready)
        self.world.judge_word(self)
        if before[0] >= 0 and guard._epoch > before[0] and before[1]:
            raise Violation("deadline", f"{self.place.name} obeys a new keeper after its deadline")
        guard._look(ready)
        if guard._left:
            guard._clear_away()
            self._vanish()

    def kill(self, why: str) -> None:
        """Die at once, and with it the agent."""
        if self.alive:
            self.world.log(f"guard {self.place.name} is killed: {why}")
            if self.tree.agent is not None:
                self.tree.agent.kill(f"with its guard, {why}")
            self._vanish()

    def _vanish(self) -> None:
        guard, self.alive = self.guard, False
        channels = [*guard._guests.values(), *([guard._keeper] if guard._keeper else [])]
        for channel in channels:
            channel.close()
        guard._listener.close()
        if guard._watch is not None and guard._watch.ended is None:
            guard._watch.close()
            for descriptor in guard._watch._outputs:
                os.close(descriptor)
        if guard._child is not None:
            guard._child.end()
        for descriptor in (self._wakeup, self._waker):
            os.close(descriptor)

    @property
    def deadline_ns(self) -> int:
        return self.guard._term.deadline_ns

    @property
    def is_at_work(self) -> bool:
        """Whether its agent runs, and nothing speaks against it."""
        agent = self.tree.agent
        return self.alive and not self.frozen and self.guard._phase == AGENT and agent is not None and agent.alive


class SimProcesses:
    """The process table, as one process sees it."""

    def __init__(self, world: "AdoptionWorld", me: ProcessId) -> None:
        self._world, self._me = world, me

    def here(self) -> Host:
        return self._world.here

    def myself(self) -> ProcessId:
        return self._me

    def identify(self, pid: int) -> ProcessId | None:
        return next((one.id for one in self._world.guards if one.alive and one.id.pid == pid), None)

    def fate(self, process: ProcessId) -> Fate:
        by_host = fate_by_host(process, self._world.here)
        if by_host is not None:
            return by_host
        alive = {one.id for one in self._world.guards if one.alive} | {one.id for one in self._world.workers}
        return Fate.ALIVE if process in alive else Fate.DEAD

    def signal_process(self, process: ProcessId, signum: int) -> bool:
        guard = next((one for one in self._world.guards if one.alive and one.id == process), None)
        if guard is None:
            return False
        if signum == signal.SIGSTOP:
            guard.stopped = True
        elif signum == signal.SIGKILL:
            self._world.judge_kill(guard.tree.agent, self._me)
            guard.kill(f"by {self._me.pid}")
        return True

    def members(self, traces: Traces, *, spare: Collection[int] = ()) -> list[ProcessId]:  # noqa: ARG002
        found = [one for one in self._world.agents if one.alive and one.run_id == traces.run_id]
        return [ProcessId(self._world.here, one.pid, "1") for one in found]

    def end(self, traces: Traces, *, grace_seconds: float, kill_seconds: float, spare: Collection[int] = ()) -> bool:  # noqa: ARG002
        """Kill whatever has the run's mark, of whichever attempt."""
        for agent in [one for one in self._world.agents if one.alive and one.run_id == traces.run_id]:
            self._world.judge_kill(agent, self._me)
            agent.kill(f"by {self._me.pid}")
        return True


class SimZygote:
    """Forks at once, and tells of it when it is asked."""

    is_gone = False

    def __init__(self, world: "AdoptionWorld", *, full: bool) -> None:
        self._world, self._full = world, full
        self.fd, self._writer = os.pipe()
        self._news: list[dict[str, object]] = []

    def fork(self, place: GuardPlace) -> None:
        self._news.append({"name": place.name, "pid": SimGuard(self._world, place, full=self._full).id.pid})
        os.write(self._writer, b".")

    def hear(self) -> list[dict[str, object]]:
        os.read(self.fd, 4096)
        news, self._news = self._news, []
        return news

    def close(self) -> None:
        for descriptor in (self.fd, self._writer):
            with suppress(OSError):
                os.close(descriptor)


@contextmanager
def made_up_host(world: "AdoptionWorld") -> Iterator[None]:
    """Let nothing fork, wait or be drawn by lot, and nothing be looked for outside of this world's folder."""
    places = {"FENCEPOST_CGROUP": "off", "XDG_RUNTIME_DIR": f"{world.folder}/run", "XDG_STATE_HOME": world.folder}
    os.mkdir(places["XDG_RUNTIME_DIR"], 0o700)
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, places))
        stack.enter_context(patch("os.urandom", world.rng.randbytes))
        stack.enter_context(patch.object(adoption, "HELLO_SECONDS", HELLO_SECONDS))
        stack.enter_context(
            patch.object(guard_skills, "start_child", lambda work, tools, *_: SimChild(world, work, tools))
        )
        yield


def kill_after_ns(ttl_seconds: float) -> int:
    """Return how long after its deadline a guard may have its agent."""
    return round(kill_grace(ttl_seconds) * ASK_PART * 1e9)
