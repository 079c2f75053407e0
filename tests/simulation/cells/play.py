"""One seed of machines at cells: real leases, real clocks that disagree, and a checker that knows the truth."""

from dataclasses import dataclass, field

from fencepost.cells.local_memory import Remembered, StoreMemory
from fencepost.cells.store import CellStore, Here, _remember
from fencepost.flow.leaser import Leaser
from fencepost.model import cell as rules
from fencepost.model.cell import Root
from fencepost.model.errors import FenceRegress, LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.lease import Claim, Granted, Lease, kill_grace, renew_every
from fencepost.model.process import Fate, Host, ProcessId
from fencepost.model.tick_claim import TickOrder, TickOver
from fencepost.model.trigger import cron_trigger
from fencepost.model.zoned_cron import ZonedCron
from fencepost.service.custody import Custody, Term
from tests.simulation.cells.server import TTL, Link, Server, SimCells
from tests.simulation.clocks import EPOCH_US, HostTime
from tests.simulation.simulate import Result
from tests.simulation.world import MILLISECOND, SECOND, Violation, World

WATCHED = 16
RESOURCE = "lock:digest"
ROOT = Root("simulated", 0, "0" * 32)
FAULTS_SECONDS, QUIET_SECONDS = 240, 480
TRIGGER = cron_trigger("* * * * *", "UTC")
TICKS = ZonedCron(TRIGGER.cron, TRIGGER.zone)
# What must have happened at least once before a batch of seeds says anything.
BITES = (
    "unknown answers",
    "equal sightings",
    "boot",
    "sleep",
    "cut",
    "set",
    "deleted cells",
    "losses",
    "busy",
    "renewals",
    "ticks",
)


class RamMemory:
    """What a machine remembers, on a disk that outlives its boots."""

    def __init__(self) -> None:
        self._cells: dict[str, Remembered] = {}

    def store(self) -> StoreMemory:
        return StoreMemory()

    def keep_store(self, memory: StoreMemory) -> None:
        pass

    def cell(self, name: str) -> Remembered:
        return self._cells.get(name, Remembered())

    def change(self, name: str, change):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  # as the real one
        self._cells[name] = change(self.cell(name))
        return self._cells[name]


class Machine:
    """A host: its clocks, its disk, and whether it sleeps."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.name = f"m{number}"
        self.memory = RamMemory()
        self.link = Link(world)
        self.boots = 0
        self.alive = True
        self._awake_ns = 0
        self.boot()

    def boot(self) -> None:
        """Start the clocks anew, as after a power cut."""
        rng = self._world.rng
        self.boots += 1
        rate = rng.choice((900_000, 950_000, 1_000_000, 1_050_000, 1_100_000))
        self.time = HostTime(self._world, rate_ppm=rate, wall_us=self._wall_us())
        self.host = Host(self.name, f"machine-{self.name}", f"boot-{self.boots}", "pid:1")
        self._origin_ns = rng.randrange(3600) * SECOND  # a clock that starts anew may start anywhere

    def boot_ns(self) -> int:
        """Return the clock that counts sleep; only within one boot does it mean anything."""
        return self._origin_ns + self.time.boot_ns()

    def held_back_ns(self, due_ns: int) -> int | None:
        return max(due_ns, self._awake_ns)

    def stash(self, task: object) -> None:
        raise AssertionError(f"a sleeping host wakes up by itself, {task} with it")

    def sleep_for(self, ns: int) -> None:
        """Close the lid: nothing moves here, and the clocks go on."""
        self._awake_ns = max(self._awake_ns, self._world.now_ns + ns)

    def _wall_us(self) -> int:
        return EPOCH_US + self._world.now_ns // 1000 + self._world.rng.randrange(-40, 41) * 1_000_000


class SimClock:
    """The machine's clocks; waiting is a pause of the world."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine

    def wall_us(self) -> int:
        return self._machine.time.wall_us()

    def awake_ns(self) -> int:
        return self._machine.time.awake_ns()

    def boot_ns(self) -> int:
        return self._machine.boot_ns()

    def sleep(self, seconds: float) -> None:
        self._world.pause(self._machine.time.true_ns(seconds))


class NoProcesses:
    """Nothing can be proved about the processes of others: only watching tells."""

    def fate(self, _: ProcessId) -> Fate:
        return Fate.UNKNOWN


@dataclass
class Holding:
    """A lease in the hands of a process, with what the process believes of it."""

    who: str
    lease: Lease
    term: Term
    boot: str
    machine: Machine
    over: bool = False

    def may_be_at_work(self) -> bool:
        """Whether its agent may still run: its guard ends it by the deadline and the grace, on its own clock."""
        grace_ns = round(kill_grace(self.lease.ttl_seconds) * 1e9)
        lives = self.machine.host.boot == self.boot
        return not self.over and lives and self.machine.boot_ns() < self.term.deadline_ns + grace_ns


@dataclass
class Checker:
    """What must never happen, whatever does."""

    world: World
    highest: int = 0
    holdings: list[Holding] = field(default_factory=list)
    started: dict[int, str] = field(default_factory=dict)

    def granted(self, new: Holding) -> None:
        world, lease = self.world, new.lease
        world.totals["grants"] += 1
        world.log(new.who, f"granted fence {lease.fence - EPOCH_US}")
        for other in self.holdings:
            if other.may_be_at_work():
                world.fail("apart", f"{new.who} was granted the lease while {other.who} relies on it")
        if lease.fence <= self.highest:
            world.fail("fences rise", f"{lease.fence} after {self.highest}")
        self.highest = lease.fence
        self.holdings = [one for one in self.holdings if not one.over] + [new]

    def begun(self, holding: Holding) -> None:
        tick = holding.lease.tick
        if tick is None:
            return
        if tick.tick_us in self.started:
            self.world.fail("each tick once", f"{holding.who} starts what {self.started[tick.tick_us]} has started")
        self.started[tick.tick_us] = holding.who
        self.world.totals["ticks"] += 1


class Caller:
    """A crontab line of one machine: comes now and then, for the lock or for its newest tick, and ends well or badly."""

    def __init__(self, world: World, machine: Machine, server: Server, checker: Checker, *, ticks: bool) -> None:
        self._world = world
        self.machine = machine
        self._ticks = ticks
        self._server = server
        self._checker = checker
        self._number = 0

    def loop(self) -> None:
        """Come again and again."""
        while True:
            try:
                self._call()
            except FenceRegress:
                self._world.totals["regress"] += 1
            except (TickOver, StoreUnavailable, LeaseLost, Misconfigured) as error:
                self._world.totals[type(error).__name__] += 1
            self._world.pause(self._world.rng.randrange(1, 30 if self._ticks else 5) * SECOND)

    def _open(self) -> CellStore:
        here = Here(self.machine.host, SimClock(self._world, self.machine), self.machine.memory)  # type: ignore[arg-type]
        return CellStore(SimCells(self._world, self._server, self.machine.link), ROOT, here)

    def _call(self) -> None:
        machine, clock = self.machine, SimClock(self._world, self.machine)
        store = self._open()
        self._number += 1
        order = TickOrder("digest", "* * * * *", "UTC", TICKS, clock.wall_us) if self._ticks else None
        name = f"{machine.name}-{machine.boots}-{self._number}"
        process = ProcessId(machine.host, self._number, name)
        starts = self._world.chance(0.5)
        claim = Claim(name, "default", (RESOURCE,), name, TTL, process, starts=starts, tick=order, label="agent")
        term = Term(clock, counts_sleep=True)
        leaser = Leaser(store, NoProcesses(), clock)  # type: ignore[arg-type]
        for _ in range(WATCHED):  # as a caller that stays to see whether the holder is alive
            asked_ns = term.now_ns()
            answer = leaser.acquire(claim)
            if isinstance(answer, Granted):
                break
            self._world.totals["busy"] += 1
            self._world.pause(self._world.rng.randrange(200, 1500) * MILLISECOND)
        else:
            return
        term.extend(TTL, asked_ns=asked_ns)
        holding = Holding(name, answer.lease, term, machine.host.boot, machine)
        if term.over:
            return  # it took so long that nothing may start
        self._checker.granted(holding)
        try:
            self._work(store, holding)
        finally:
            holding.over = True

    def _work(self, store: CellStore, holding: Holding) -> None:
        lease, term = holding.lease, holding.term
        if not lease.started:
            store.start(lease)
            if term.over:
                return
        self._checker.begun(holding)
        custody = Custody(self._open, SimClock(self._world, self.machine), counts_sleep=True)
        kept = custody.keep(lease, term)
        ends_ns = term.now_ns() + self._world.rng.randrange(1, 60) * SECOND
        while term.now_ns() < ends_ns:
            self._world.pause(holding.machine.time.true_ns(renew_every(TTL)))
            custody.step()
            if term.over or kept.lost:
                self._world.totals["losses"] += 1
                return
            self._world.totals["renewals"] += 1
        if self._world.chance(0.2):
            return  # killed with its lease: only its silence tells
        holding.over = True
        store.release(lease, clean=True, answered=self._world.chance(0.8))


class Nemesis:
    """Boots machines, puts them to sleep, cuts them off, sets their clocks, and deletes the cell."""

    def __init__(self, world: World, callers: list[Caller], server: Server) -> None:
        self._world = world
        self._callers = callers
        self._server = server

    def rage(self) -> None:
        world = self._world
        while world.now_ns < FAULTS_SECONDS * SECOND:
            world.pause(world.rng.randrange(2, 12) * SECOND)
            caller = world.rng.choice(self._callers)
            what = world.rng.choice(("sleep", "sleep", "cut", "cut", "cut", "set", "boot", "boot", "delete"))
            if world.strike(f"{what} {caller.machine.name}"):
                world.totals[what] += 1
                getattr(self, f"_{what}")(caller)
        world.quiet = True
        for caller in self._callers:
            caller.machine.time.step(EPOCH_US + world.now_ns // 1000 - caller.machine.time.wall_us())

    def _sleep(self, caller: Caller) -> None:
        caller.machine.sleep_for(self._world.rng.randrange(1, round(3 * TTL)) * SECOND)

    def _cut(self, caller: Caller) -> None:
        caller.machine.link.cut_for(self._world.rng.randrange(1, round(4 * TTL)) * SECOND)

    def _set(self, caller: Caller) -> None:
        caller.machine.time.step(self._world.rng.randrange(-100, 101) * 1_000_000)

    def _boot(self, caller: Caller) -> None:
        """Let a machine die in the middle of whatever it does, and begin again."""
        world, machine = self._world, caller.machine
        if not machine.alive:
            return  # it is booting
        machine.alive = False
        world.has_dead = True
        world.spawn("boots", None, lambda: self._begin_again(caller), after_ns=world.rng.randrange(1, 5) * SECOND)

    def _begin_again(self, caller: Caller) -> None:
        caller.machine.alive = True
        caller.machine.boot()
        self._world.spawn(caller.machine.name, caller.machine, caller.loop)

    def _delete(self, _caller: Caller) -> None:
        """Delete the cell after every machine has looked at it: one that never saw it, or not lately, cannot know."""
        for name, (document, _) in list(self._server.documents.items()):
            if not self._server.is_settled(name):
                continue
            cell = rules.decode(document, where=name)
            for looking in self._callers:
                looking.machine.memory.change(name, lambda one: _remember(one, cell))  # noqa: B023  # called at once
            self._server.delete(name)
            self._world.totals["deleted cells"] += 1


def simulate_cells(seed: int, *, spared: frozenset[int] = frozenset()) -> Result:
    """Run one seed from beginning to end."""
    world = World(seed, spared)
    try:
        _play(world)
    except Violation as violation:
        world.violation = world.violation or violation
    finally:
        world.close()
    world.totals["seeds"] += 1
    command = "python -m tests.simulation.cells.run"
    seconds = world.now_ns / SECOND
    return Result(seed, world.digest(), world.trace, world.totals, seconds, world.violation, world.strikes, command)


def _play(world: World) -> None:
    server = Server(world)
    checker = Checker(world)
    machines = [Machine(world, number) for number in range(world.rng.choice((2, 3)))]
    ticks = world.chance(0.5)
    callers = [Caller(world, machine, server, checker, ticks=ticks) for machine in machines]
    world.until_ns = (FAULTS_SECONDS + QUIET_SECONDS) * SECOND
    for caller in callers:
        world.spawn(caller.machine.name, caller.machine, caller.loop)
    world.spawn("nemesis", None, Nemesis(world, callers, server).rage)
    quiet_ns = FAULTS_SECONDS * SECOND
    world.spawn("clerk", None, lambda: world.totals.update(before=world.totals["grants"]), after_ns=quiet_ns)
    world.run()
    if world.totals["grants"] == world.totals.pop("before", 0):
        world.fail("goes on", f"nobody got the lease in {QUIET_SECONDS} quiet seconds")
