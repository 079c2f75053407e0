"""The hand that kills, stops, puts to sleep, sets clocks and loses data, until it is time to be quiet."""

from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.model.errors import FencepostError
from tests.simulation.hosts import Host, Process
from tests.simulation.nodes import Node, Run, Stage
from tests.simulation.world import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

RECOVERY_TTLS, RECOVERY_SECONDS = 40, 60
HOUR_US = 3_600_000_000


class Nemesis:
    """Does one thing after another, of the kinds that the seed allows."""

    def __init__(self, stage: Stage, nodes: list[Node], hosts: list[Host]) -> None:
        self._stage = stage
        self._nodes = nodes
        self._hosts = hosts
        self._world = stage.world
        self._recovery_ns = int((RECOVERY_TTLS * stage.knobs.ttl_seconds + RECOVERY_SECONDS) * SECOND)
        self._ttl_ns = int(stage.knobs.ttl_seconds * SECOND)

    def rage(self, until_ns: int) -> None:
        """Go on until this time, then let everything recover."""
        while self._world.now_ns < until_ns:
            self._world.pause(int(self._world.rng.random() * 1.2 * self._ttl_ns))
            if self._stage.knobs.kinds:
                kind = self._world.rng.choice(self._stage.knobs.kinds)
                if self._world.strike(kind):
                    self._strike(kind)
        self._world.quiet = True
        self._world.until_ns = max(self._world.now_ns, *(host.back_ns for host in self._hosts)) + self._recovery_ns
        self._world.log("nemesis", "rests")
        for host in self._hosts:
            host.cut_off = False
            for process in list(host.processes.values()):
                process.thaw()

    def _strike(self, kind: str) -> None:
        verb, _, whom = kind.partition(" ")
        run = self._world.rng.choice(self._nodes).run
        if verb in ("kill", "stop"):
            if run is not None and run.process.host.usable:
                for process in _party(run, whom):
                    self._kill(process) if verb == "kill" else self._stop(process)
            return
        strikes: dict[str, Callable[[], None]] = {
            "sleep": self._sleep,
            "reboot": self._reboot,
            "clock": self._step_clock,
            "restore": self._back_up_or_restore,
            "break": self._break,
            "cut": self._cut_off,
        }
        strikes[verb]()

    def _kill(self, process: Process) -> None:
        if process.alive:
            self._count("kills")
            process.kill("kill -9")

    def _stop(self, process: Process) -> None:
        """Freeze a process, for longer than a lease lasts as often as not."""
        if process.alive and not process.stopped:
            self._count("stops")
            process.stop()
            after_ns = int(self._world.rng.random() * 4 * self._ttl_ns)
            self._world.spawn(f"{process.name}.thaw", None, process.thaw, after_ns=after_ns)

    def _sleep(self) -> None:
        host = self._world.rng.choice(self._hosts)
        if host.usable:
            self._count("sleeps")
            long_ns = self._world.rng.choice((self._ttl_ns, 3 * self._ttl_ns, 3600 * SECOND))
            host.suspend(int(self._world.rng.random() * long_ns) + 1)

    def _reboot(self) -> None:
        host = self._world.rng.choice(self._hosts)
        if host.usable and self._world.chance(0.4):
            self._count("reboots")
            host.reboot(int(self._world.rng.random() * 2 * self._ttl_ns))

    def _step_clock(self) -> None:
        """Set the wall clocks: a server's by some ttls, mostly back, those of hosts by hours."""
        self._count("clock steps")
        if self._stage.knobs.many_hosts:
            us = int(self._world.rng.uniform(*self._stage.knobs.clock_steps_ttls) * self._ttl_ns / 1000)
            self._stage.site.database_time.step(us)
            if us > 0:
                self._stage.checker.jumped()
        for host in self._hosts:
            host.time.step(int((self._world.rng.random() - 0.5) * 4 * HOUR_US))
        self._world.log("nemesis", "sets the clocks")

    def _back_up_or_restore(self) -> None:
        """Keep a copy; or put one back."""
        node = self._world.rng.choice(self._nodes)
        if not node.host.usable:
            return
        if self._world.chance(0.5):
            self._stage.site.back_up(node.name, node.host)
        else:
            self._stage.site.restore()

    def _break(self) -> None:
        """Look at a lease as an operator does, think, and take it away, whatever happened to it meanwhile."""
        usable = [node for node in self._nodes if node.run and node.run.process.alive and node.host.usable]
        if not usable:
            return
        run = self._world.rng.choice(usable).run
        assert run is not None
        store = run.open_store(reliable=True)
        with suppress(FencepostError):
            held = [lease for lease in store.leases() if not lease.lost]
            if held:
                victim = self._world.rng.choice(held)
                self._world.pause(int(self._world.rng.random() * self._ttl_ns))
                store.break_lease(victim, why="by hand")

    def _cut_off(self) -> None:
        host = self._world.rng.choice(self._hosts)
        if host.cut_off:
            return
        self._count("partitions")
        host.cut_off = True
        self._world.log(host.name, "is cut off")
        after_ns = int(self._world.rng.random() * 3 * self._ttl_ns)
        self._world.spawn("heal", None, lambda: setattr(host, "cut_off", False), after_ns=after_ns)

    def _count(self, what: str) -> None:
        self._world.totals[what] += 1


def _party(run: Run, whom: str) -> list[Process]:
    """Return the processes that are meant."""
    guard = run.guard.process
    agents: list[Process] = [run.guard.agent] if run.guard.agent else []
    parties: dict[str, list[Process]] = {
        "supervisor": [run.process],
        "guard": [guard],
        "agent": agents,
        "tree": [run.process, guard],  # the agent is left behind alone
        "keepers": [run.process, guard],
        "run": [run.process, guard, *agents],
    }
    return parties[whom]
