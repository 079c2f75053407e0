"""Hosts and their processes: they boot, sleep and lose power; they start, stop, thaw and die."""

from collections.abc import Callable

from fencepost.model.process import Host as Identity
from fencepost.model.process import ProcessId
from tests.simulation.clocks import EPOCH_US, HostTime, ProcessClock
from tests.simulation.world import Task, World


class Process:
    """One process; its tasks die, stop and sleep with it."""

    def __init__(self, host: "Host", name: str) -> None:
        self.host = host
        self.name = name
        self.alive = True
        self.stopped = False
        self.was_stopped = False
        self.id = ProcessId(host.identity, host.next_pid(), str(host.world.now_ns))
        self.clock = ProcessClock(host.world, host.time)
        self.at_death: list[Callable[[], None]] = []
        self._stash: list[Task] = []
        host.processes[self.id.pid] = self

    def spawn(self, name: str, work: Callable[[], object]) -> Task:
        """Start a thread."""
        return self.host.world.spawn(f"{self.name}.{name}", self, work)

    def held_back_ns(self, due_ns: int) -> int | None:
        return None if self.stopped else self.host.held_back_ns(due_ns)

    def stash(self, task: Task) -> None:
        self._stash.append(task)

    def kill(self, why: str) -> None:
        """End it on the spot; nothing of it runs again."""
        if not self.alive:
            return
        self.alive = False
        self.host.world.has_dead = True
        self.host.processes.pop(self.id.pid, None)
        self.host.world.log(self.name, f"dies: {why}")
        for tell in self.at_death:
            tell()

    def stop(self) -> None:
        """Freeze it, as SIGSTOP does."""
        self.stopped = self.was_stopped = True
        self.host.world.log(self.name, "is stopped")

    def thaw(self) -> None:
        """Let it go on; what came due meanwhile is done now."""
        if not self.stopped:
            return
        self.stopped = False
        self.host.world.log(self.name, "goes on")
        stashed, self._stash = self._stash, []
        for task in stashed:
            self.host.world.wake(task)


class Host:
    """One machine."""

    def __init__(self, world: World, name: str, *, rate_ppm: int, pid_max: int, wall_us: int = EPOCH_US) -> None:
        self.world = world
        self.name = name
        self.boots = 0
        self.sleeps = 0
        self.processes: dict[int, Process] = {}
        self.cut_off = False  # from the store
        self.down_until_ns = 0
        self._rate_ppm = rate_ppm
        self._pid_max = pid_max
        self._pid = 0
        self._asleep = (0, 0)
        self.boot(wall_us)

    def boot(self, wall_us: int) -> None:
        """Start anew: another boot id, clocks from zero, no process."""
        self.boots += 1
        self.identity = Identity(self.name, f"machine-{self.name}", f"{self.name}-boot{self.boots}", "pid:1")
        self.time = HostTime(self.world, rate_ppm=self._rate_ppm, wall_us=wall_us)

    def reboot(self, down_ns: int) -> None:
        """Lose power; everything that ran is gone, and the machine is back after a while."""
        wall_us = self.time.wall_us()
        self.world.log(self.name, "loses power")
        for process in list(self.processes.values()):
            process.kill("power")
        self.down_until_ns = self.world.now_ns + down_ns
        self.boot(wall_us + down_ns // 1000)

    def suspend(self, ns: int) -> None:
        """Sleep; the clocks that count time awake stand still, and nobody on this host can look at them."""
        self._asleep = (self.world.now_ns, self.world.now_ns + ns)
        self.sleeps += 1
        self.time.slept(ns)
        self.world.log(self.name, f"sleeps for {ns / 1e9:.3f}s")

    @property
    def asleep(self) -> bool:
        return self._asleep[0] <= self.world.now_ns < self._asleep[1]

    @property
    def back_ns(self) -> int:
        """When it will be awake and up, as far as is known now."""
        return max(self._asleep[1], self.down_until_ns)

    @property
    def usable(self) -> bool:
        return not self.asleep and self.world.now_ns >= self.down_until_ns

    def held_back_ns(self, due_ns: int) -> int:
        """Shift what comes due while the host sleeps: its timers count time awake."""
        since, until = self._asleep
        return until + (due_ns - since) if since <= due_ns < until else due_ns

    def next_pid(self) -> int:
        """Give out the next free number, round and round, so that pids are used again."""
        while True:
            self._pid = self._pid % self._pid_max + 1
            if self._pid not in self.processes:
                return self._pid
