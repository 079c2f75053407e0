"""The hand that kills, stops, drains, deploys, cuts off and sets clocks, until it is time to be quiet."""

from collections.abc import Callable

from tests.simulation.hosts import Process
from tests.simulation.runtime.stage import Stage
from tests.simulation.runtime.stations import Post
from tests.simulation.world import SECOND

SLACK = 3.0


class Havoc:
    """Does one thing after another, of the kinds that the seed allows."""

    def __init__(self, stage: Stage, posts: list[Post]) -> None:
        self._stage = stage
        self._posts = posts
        self._world = stage.world
        self._ttl_ns = int(stage.knobs.ttl_seconds * SECOND)

    def rage(self, look: Callable[[], None]) -> None:
        """Go on for a while, with a look at the accounts now and then; then let everything recover."""
        until_ns = int(self._stage.plot.rage_seconds * SECOND)
        while self._world.now_ns < until_ns:
            self._world.pause(int(self._world.rng.random() * 4 * self._ttl_ns))
            if self._world.chance(0.05):
                look()
            if self._stage.plot.kinds:
                kind = self._world.rng.choice(self._stage.plot.kinds)
                if self._world.strike(kind):
                    self._strike(kind)
        self._world.quiet = True
        self._world.log("nemesis", "rests")
        for host in self._stage.hosts:
            host.cut_off = False
            for process in list(host.processes.values()):
                process.thaw()

    def take_over(self) -> None:
        """Without other faults, kill one holder with all its tree; its run must be settled within the promised time."""
        alive = [one for post in self._posts if post.station for one in post.station.attempts if one.process.alive]
        victims = [one for one in alive if one.found is not None and one.guard.agent is not None]
        if not victims:
            return
        victim = self._world.rng.choice(victims)
        assert victim.found is not None
        run_id, fence = victim.found.run.id, victim.found.lease.fence
        neighbours = [post for post in self._posts if post.host is victim.process.host and post.station is not None]
        for process in (victim.process, victim.guard.process, victim.guard.agent):
            assert process is not None
            self._kill(process)
        plot, ttl = self._stage.plot, self._stage.knobs.ttl_seconds
        bound = plot.reap_seconds + 2 * plot.poll_seconds + SLACK + (0 if neighbours else 1.1 * ttl)
        began_ns = self._world.now_ns
        while self._world.now_ns - began_ns < bound * SECOND:
            run = self._stage.observer.now.runs[run_id]
            if run.state != "running" or run.fence != fence:
                self._count("takeovers in time")
                return
            self._world.pause(SECOND // 2)
        self._world.fail("takeover in time", f"{run_id} was not settled {bound:.1f}s after its holder had died")

    def _strike(self, kind: str) -> None:
        verb, _, whom = kind.partition(" ")
        post = self._world.rng.choice(self._posts)
        if verb in ("kill", "stop"):
            if post.station is not None and post.host.usable:
                for process in self._party(post, whom):
                    self._kill(process) if verb == "kill" else self._stop(process)
            return
        getattr(self, f"_{verb}")(post)

    def _party(self, post: Post, whom: str) -> list[Process]:
        assert post.station is not None
        if whom == "station":
            return [post.station.process]
        alive = [one for one in post.station.children if one.process.alive]
        if not alive:
            return []
        attempt = self._world.rng.choice(alive)
        agents: list[Process] = [attempt.guard.agent] if attempt.guard.agent else []
        keepers = [attempt.process, attempt.guard.process]
        parties = {"attempt": [attempt.process], "guard": [attempt.guard.process], "agent": agents}
        return parties.get(whom, keepers)

    def _kill(self, process: Process) -> None:
        if process.alive:
            self._count("kills")
            process.kill("kill -9")

    def _stop(self, process: Process) -> None:
        """Freeze a process, for longer than a lease lasts as often as not."""
        if process.alive and not process.stopped:
            self._count("stops")
            process.stop()
            self._later(f"{process.name}.thaw", process.thaw, 4)

    def _drain(self, post: Post) -> None:
        """Send SIGTERM to one station; nobody can while its host sleeps."""
        if post.station is not None and post.station.process.alive and post.host.usable:
            post.station.drain()

    def _deploy(self, _: Post) -> None:
        """Restart all stations, one after the other."""
        self._count("deploys")
        for post in self._posts:
            self._later(f"{post.name}.deploy", lambda post=post: self._drain(post), 3)

    def _outage(self, _: Post) -> None:
        """Kill all stations, and let nobody start them for long."""
        if not self._world.chance(0.3) or any(self._world.now_ns < post.closed_until_ns for post in self._posts):
            return
        self._count("outages")
        until_ns = self._world.now_ns + int(self._world.rng.random() * self._stage.plot.outage_seconds * SECOND)
        for post in self._posts:
            post.closed_until_ns = until_ns
            if post.station is not None:
                post.station.process.kill("outage")

    def _sleep(self, post: Post) -> None:
        if post.host.usable:
            self._count("sleeps")
            long_ns = self._world.rng.choice((self._ttl_ns, 4 * self._ttl_ns, 900 * SECOND))
            post.host.suspend(int(self._world.rng.random() * long_ns) + 1)

    def _reboot(self, post: Post) -> None:
        if post.host.usable and self._world.chance(0.4):
            self._count("reboots")
            post.host.reboot(int(self._world.rng.random() * 3 * self._ttl_ns))

    def _clock(self, _: Post) -> None:
        """Set the clock that decides about ticks, forward and back by up to a quarter of the time there is."""
        self._count("clock steps")
        us = int(self._world.rng.uniform(-0.1, 0.1) * self._stage.plot.rage_seconds * 1e6)
        if self._stage.knobs.many_hosts:
            self._stage.place.database_time.step(us)
            self._stage.checker.jumped()
        for host in self._stage.hosts:
            host.time.step(us if not self._stage.knobs.many_hosts else int(self._world.rng.uniform(-4, 4) * 3.6e9))
        self._world.log("nemesis", f"sets the clocks by {us / 1e6:.0f}s")

    def _rewind(self, _: Post) -> None:
        """Keep a copy of the store; or go back to the one that was kept."""
        if self._world.chance(0.5):
            self._stage.place.back_up()
        elif self._stage.place.restore():
            self._count("rewinds")

    def _cut(self, post: Post) -> None:
        host = post.host
        if not host.cut_off:
            self._count("partitions")
            host.cut_off = True
            self._world.log(host.name, "is cut off")
            self._later("heal", lambda: setattr(host, "cut_off", False), 4)

    def _later(self, name: str, act: object, ttls: float) -> None:
        assert callable(act)
        self._world.spawn(name, None, act, after_ns=int(self._world.rng.random() * ttls * self._ttl_ns))

    def _count(self, what: str) -> None:
        self._world.totals[what] += 1
