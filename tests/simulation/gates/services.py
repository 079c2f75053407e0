"""The HTTP gate's real marks and locks, in services that are made up: with the middleware in them, or behind the proxy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fencepost.gates.http.marks import RequestMarks
from fencepost.model.errors import FencepostError, GateUnreachable
from fencepost.model.gate import Mark, Proof, check, raised
from tests.simulation.gates.targets import Landed, TargetScene
from tests.simulation.hosts import Host, Process
from tests.simulation.world import SECOND, Mailbox

DIES = 0.03  # how often a service is killed in the middle of a request


class Doubt(Exception):
    """It is not known whether a request had its effect."""


class Service:
    """A service on a host of its own; killed, it comes back with nothing but its files."""

    def __init__(self, scene: TargetScene) -> None:
        self.value = 0
        self._world = scene.world
        self._host = Host(scene.world, "service", rate_ppm=1_000_000, pid_max=30_000)
        self._ttl_seconds = scene.ttl_seconds
        self._folder = scene.path + ".marks"
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self.process = Process(self._host, f"service{self._starts}")
        self.marks = RequestMarks(self._folder, clock=self.process.clock, wait_seconds=self._ttl_seconds / 2)

    def ask(self, work: Callable[[], None]) -> None:
        """Have the service do something for a client, who may be dead or frozen by the time it is done."""
        if not self.process.alive:
            self._start()
        box, process = Mailbox(self._world), self.process
        process.at_death.append(lambda: box.put("gone"))
        process.spawn("request", lambda: box.put("answer", _tried(work)))
        box.wait(None)
        subject, answer = box.items[0]
        if subject == "gone":
            raise GateUnreachable("the service is gone")
        if isinstance(answer, Exception):
            raise answer

    def maybe_die(self) -> None:
        """Be killed, or have the clock set, at the worst moment."""
        if self._world.quiet:
            return
        if self._world.chance(DIES) and self._world.strike("the service is killed"):
            self._world.totals["services killed"] += 1
            self.process.kill("kill -9 in the middle of a request")
            self._world.check_alive()
        if self._world.chance(DIES):
            self._host.time.step(3600 * 1_000_000)


def _tried(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except (FencepostError, Doubt) as error:
        return error
    return None


class MiddlewareBehind:
    """Compared, held and carried out in the service."""

    def __init__(self, scene: TargetScene) -> None:
        self._scene = scene
        self._service: Service = scene.shared.get(scene.path) or scene.shared.setdefault(scene.path, Service(scene))

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._service.ask(lambda: self._service.marks.raise_fence(proof, "the service", adopt=adopt))

    def read(self) -> int:
        return int(self._service.value)

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        self._service.ask(lambda: self._serve(proof, value, landed))

    def _serve(self, proof: Proof, value: int, landed: Landed) -> None:
        service = self._service
        with service.marks.enter(proof, "the service"):
            self._scene.pause(service.process)
            service.maybe_die()
            service.value = value
            landed()
            self._scene.pause(service.process)


class ProxyBehind(MiddlewareBehind):
    """Compared and held in the proxy; carried out by a service behind it, which may take its time."""

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        """Send it; an agent that is left in doubt stops, as it must: its own next step could rest on the wrong answer."""
        try:
            super().write(proof, value, landed)
        except (Doubt, GateUnreachable):
            self._scene.world.totals["writers in doubt"] += 1
            self._scene.process.kill("in doubt")
            self._scene.world.check_alive()

    def _serve(self, proof: Proof, value: int, landed: Landed) -> None:
        service, world = self._service, self._scene.world
        deadline_ns = int(self._scene.ttl_seconds * SECOND)
        with service.marks.enter(proof, "the service") as passage:
            self._scene.pause(service.process)
            service.maybe_die()
            passage.depart(3 * self._scene.ttl_seconds)
            answer = Mailbox(world)
            self._upstream(value, landed, answer, within_ns=int(2.9 * deadline_ns))
            service.maybe_die()
            answer.wait(deadline_ns)
            service.maybe_die()
            if not answer.items:
                world.totals["unknown outcomes"] += 1
                raise Doubt
            passage.arrived()

    def _upstream(self, value: int, landed: Landed, answer: Mailbox, *, within_ns: int) -> None:
        def effect() -> None:
            self._service.value = value
            landed()
            answer.put("done")

        world = self._scene.world
        slow = not world.quiet and world.chance(0.15)
        world.spawn("upstream", None, effect, after_ns=int(world.rng.random() * within_ns) if slow else 0)


@dataclass
class Rows:
    """A table of a PostgreSQL server: marks, the counter, and who has locked the row of the marks."""

    marks: dict[str, Mark]
    value: int = 0
    shared: int = 0
    exclusive: bool = False

    def lock(self, *, shared: bool) -> bool:
        """Take the lock if it can be had now."""
        if self.exclusive or (self.shared and not shared):
            return False
        self.shared += shared
        self.exclusive = not shared
        return True

    def unlock(self, *, shared: bool) -> None:
        """End the transaction."""
        self.shared -= shared
        self.exclusive = self.exclusive and shared


class PostgresBehind:
    """Row locks as PostgreSQL has them: writers of one run share, a raise waits for them, and gives up after a while."""

    keeps_its_lock = True  # a planted mistake compares first, and locks for the write alone

    def __init__(self, scene: TargetScene) -> None:
        self._scene = scene
        self._rows: Rows = scene.shared.setdefault(scene.path, Rows({}))

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        with self._locked(shared=False):
            check(proof, self._rows.marks, target="the table", adopt=adopt)
            self._scene.pause()
            self._rows.marks = raised(proof, self._rows.marks, at_us=0)

    def read(self) -> int:
        return self._rows.value

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        mine = all(key in self._rows.marks and self._rows.marks[key].fence == proof.fence for key in proof.keys)
        with self._locked(shared=mine):
            check(proof, self._rows.marks, target="the table")
            if self.keeps_its_lock:
                self._commit(proof, value, landed, slowly=True)
        if not self.keeps_its_lock:
            self._scene.pause()
            with self._locked(shared=mine):
                self._commit(proof, value, landed, slowly=False)

    def _commit(self, proof: Proof, value: int, landed: Landed, *, slowly: bool) -> None:
        if slowly:
            self._scene.pause()
        self._rows.marks = raised(proof, self._rows.marks, at_us=0)
        self._rows.value = value
        landed()

    @contextmanager
    def _locked(self, *, shared: bool) -> Iterator[None]:
        self._lock(shared=shared)
        try:
            yield
        finally:
            self._rows.unlock(shared=shared)

    def _lock(self, *, shared: bool) -> None:
        give_up_ns = self._scene.world.now_ns + int(self._scene.ttl_seconds * SECOND / 2)
        while not self._rows.lock(shared=shared):
            if self._scene.world.now_ns >= give_up_ns:
                raise GateUnreachable("a transaction of an earlier writer is still open")
            self._scene.process.clock.sleep(self._scene.ttl_seconds / 20)
