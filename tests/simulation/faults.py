"""What may go wrong in one seed, how often, and the hand that does it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from tests.simulation.hosts import Process
from tests.simulation.world import MILLISECOND, SECOND, World

BUGGIFY = 0.25


class Fault(Enum):
    """What can happen to one call of a port."""

    NONE = "none"
    BEFORE = "fails before"
    AFTER = "answer lost"
    LATE = "fails now, done later"
    TWICE = "done again later"
    HANG = "never returns"
    DIE_BEFORE = "caller dies before"
    DIE_AFTER = "caller dies after"


@dataclass(slots=True)
class Knobs:
    """The settings of one seed."""

    many_hosts: bool
    hosts: int
    nodes: int
    jobs: int
    ttl_seconds: float
    in_drift: bool  # whether every clock keeps within the drift that the product allows for
    rates_ppm: list[int]
    pid_max: int
    port_fault: float
    gate_fault: float
    slow: float
    stubborn: float
    same_claim: bool
    ask_again: bool
    waits: bool
    long_lives: bool = False
    worst: float = 0.0  # how often something strikes just as an agent is about to start
    slow_renewals: float = 0.0
    raise_fault: float = 0.0
    patient: bool = False
    clock_steps_ttls: tuple[float, float] = (-5.5, 1.5)  # by how much a server's clock is set
    echo: float = 0.0  # how often a request is carried out twice
    kinds: list[str] = field(default_factory=list)

    @classmethod
    def draw(cls, world: World, profile: str | None = None, *, server: bool = False) -> "Knobs":
        """Choose; each seed leaves most faults out, since faults that always come together hide one another."""
        rng = world.rng
        drawn = rng.choice(
            (
                "anything",
                "anything",
                "anything",
                "zombies",
                "zombies",
                "echoes",
                "silence",
                "worst",
                "rewind",
                "set back",
            )
        )
        profile = profile or drawn
        many_hosts = profile in ("zombies", "silence", "set back") or (
            profile not in ("worst", "rewind") and world.chance(0.55)
        )
        many_hosts = many_hosts or server
        hosts = rng.choice((2, 3)) if many_hosts else 1
        in_drift = world.chance(0.75)
        width = 9_000 if in_drift else 50_000
        knobs = cls(
            many_hosts=many_hosts,
            hosts=hosts,
            nodes=rng.choice((2, 3, 4)),
            jobs=rng.choice((2, 3, 4)),
            ttl_seconds=0.2 if world.chance(BUGGIFY) else rng.choice((1.0, 5.0, 30.0)),
            in_drift=in_drift,
            rates_ppm=[1_000_000 + rng.randint(-width, width) for _ in range(hosts)],
            pid_max=40 if world.chance(BUGGIFY) else 30_000,
            port_fault=rng.choice((0.0, 0.02, 0.05, 0.1)),
            gate_fault=rng.choice((0.0, 0.0, 0.02, 0.1)),
            slow=rng.choice((0.0, 0.01, 0.05)),
            stubborn=rng.choice((0.0, 0.3, 0.8)),
            same_claim=world.chance(BUGGIFY),
            ask_again=world.chance(0.5),
            waits=world.chance(0.75),
        )
        knobs.kinds = [kind for kind in _possible(many_hosts=many_hosts) if world.chance(0.4)]
        if profile != "anything":
            getattr(knobs, f"_make_{profile.replace(' ', '_')}")()
        if "restore" in knobs.kinds:
            knobs.same_claim = False  # a claim that was granted, used and used again would find the grant of old
        if "clock" in knobs.kinds and many_hosts and "restore" in knobs.kinds:
            knobs.kinds.remove("clock")  # a tail lost *and* a server's clock set back is beyond the promise
        return knobs

    def _make_zombies(self) -> None:
        """Breed agents that outlive their lease and go on writing."""
        self.kinds = ["kill tree", "stop keepers", "stop agent"]
        self.stubborn, self.long_lives, self.waits, self.port_fault = 0.8, True, True, 0.0
        self.raise_fault = 0.25 if self.ask_again else 0.0

    def _make_echoes(self) -> None:
        """Let requests of an earlier grant arrive during a later one of the same claim."""
        self.same_claim, self.echo, self.waits = True, 0.3, True
        self.kinds = ["break", "kill agent"]

    def _make_silence(self) -> None:
        """Let renewals be slow and then not come through at all, with somebody waiting."""
        self.in_drift, self.waits, self.long_lives = True, True, True
        self.slow, self.slow_renewals, self.stubborn, self.port_fault = 0.0, 0.4, 1.0, 0.0
        self.rates_ppm = [1_000_000 + (rate - 1_000_000) // 6 for rate in self.rates_ppm]
        self.kinds = ["cut"]

    def _make_worst(self) -> None:
        """Strike just as the agent is about to start, where the old and the new one can meet."""
        self.kinds, self.worst, self.waits = ["stop guard", "kill supervisor"], 0.4, True

    def _make_rewind(self) -> None:
        """Put old files back and set the clock, which together only the copy of the fence survives."""
        self.kinds, self.waits = ["restore", "clock"], True

    def _make_set_back(self) -> None:
        """Set a server's clock back, so that a dead holder's lease would not run out for long."""
        self.kinds, self.patient, self.port_fault = ["clock", "kill tree", "kill tree"], True, 0.0
        self.waits, self.clock_steps_ttls = True, (-6.0, -2.0)

    @property
    def poll_max_seconds(self) -> float:
        """How long a waiter pauses at most; with the real half second, waiting would be most of the work."""
        return max(0.1, self.ttl_seconds / 6)


def _possible(*, many_hosts: bool) -> list[str]:
    common = ["kill supervisor", "kill guard", "kill tree", "kill agent", "stop supervisor", "stop guard", "stop agent"]
    return [
        *common,
        "stop run",
        "stop keepers",
        "sleep",
        "reboot",
        "clock",
        "restore",
        "break",
        *(["cut"] if many_hosts else []),
    ]


class Faults:
    """Decides, call by call, what goes wrong."""

    def __init__(self, world: World, knobs: Knobs) -> None:
        self._world = world
        self._knobs = knobs

    def none(self) -> "Faults":
        """Return the same without any."""
        return Faults(self._world, replace(self._knobs, port_fault=0.0, gate_fault=0.0, echo=0.0, slow=0.0))

    def pause(self) -> None:
        """Take the time that a call takes: mostly none, sometimes a moment, rarely a good part of a ttl."""
        world = self._world
        if world.quiet or not world.chance(self._knobs.slow):
            world.pause(world.rng.choice((0, 0, 0, MILLISECOND // 10, 3 * MILLISECOND)))
        else:
            world.totals["slow calls"] += 1
            world.pause(int(world.rng.random() * 1.5 * self._knobs.ttl_seconds * SECOND))

    def at_store(self) -> Fault:
        """Draw what happens to one request."""
        if not self._world.quiet and self._world.chance(self._knobs.echo):
            return Fault.TWICE
        if self._world.quiet or not self._world.chance(self._knobs.port_fault):
            return Fault.NONE
        kinds = [Fault.BEFORE, Fault.AFTER, Fault.AFTER, Fault.TWICE, Fault.HANG, Fault.DIE_BEFORE, Fault.DIE_AFTER]
        fault = self._world.rng.choice([*kinds, Fault.LATE, Fault.LATE] if self._knobs.many_hosts else kinds)
        return fault if self._world.strike(f"a call {fault.value}") else Fault.NONE

    def at_gate(self, verb: str) -> Fault:
        """Draw what happens at a gate."""
        if verb == "raise" and not self._world.quiet and self._world.chance(self._knobs.raise_fault):
            return Fault.BEFORE
        if self._world.quiet or not self._world.chance(self._knobs.gate_fault):
            return Fault.NONE
        fault = self._world.rng.choice((Fault.BEFORE, Fault.BEFORE, Fault.AFTER, Fault.DIE_BEFORE, Fault.DIE_AFTER))
        return fault if self._world.strike(f"a gate {fault.value}") else Fault.NONE

    def dawdle(self) -> None:
        """Let the answer to a renewal be slow."""
        if not self._world.quiet and self._world.chance(self._knobs.slow_renewals):
            self._world.totals["slow calls"] += 1
            self._world.pause(int((0.3 + 0.3 * self._world.rng.random()) * self._knobs.ttl_seconds * SECOND))

    def later(self, name: str, effect: Callable[[], object]) -> None:
        """Carry a request out after its sender has given up on it, or for a second time."""
        after_ns = int(self._world.rng.random() * 8 * self._knobs.ttl_seconds * SECOND)
        self._world.spawn(name, None, lambda: self._world.quiet or effect(), after_ns=after_ns)

    def freeze(self, process: Process) -> None:
        """Stop a process at the worst moment, and thaw it some time later."""
        if not self._world.quiet and self._world.chance(self._knobs.worst):
            self._world.totals["stops at the worst moment"] += 1
            process.stop()
            after_ns = int(self._world.rng.random() * 4 * self._knobs.ttl_seconds * SECOND)
            self._world.spawn(f"{process.name}.thaw", None, process.thaw, after_ns=after_ns)
        self._world.pause(0)

    def hang(self) -> None:
        """Wait for an answer that does not come while there are faults."""
        while not self._world.quiet:
            self._world.pause(int(self._knobs.ttl_seconds * SECOND))


def call(
    world: World,
    process: Process,
    *,
    verb: str,
    fault: Fault,
    effect: Callable[[], object],
    error: Exception,
    faults: Faults,
) -> object:
    """Carry out one request over a line that cannot be relied on."""
    world.check_alive()
    if fault is not Fault.NONE:
        world.log(process.name, f"{verb}: {fault.value}")
        world.totals[fault.value] += 1
    faults.pause()
    if fault in (Fault.BEFORE, Fault.LATE):
        if fault is Fault.LATE:
            faults.later(f"{process.name}.late", effect)
        raise error
    if fault is Fault.DIE_BEFORE:
        _die(world, process)
    answer = effect()
    if fault is Fault.TWICE:
        faults.later(f"{process.name}.again", effect)
    if fault is Fault.DIE_AFTER:
        _die(world, process)
    faults.pause()
    if verb == "renew":
        faults.dawdle()
    if fault is Fault.HANG:
        faults.hang()
    if fault in (Fault.AFTER, Fault.HANG):
        world.totals[f"{verb}: answer lost"] += 1
        raise error
    return answer


def _die(world: World, process: Process) -> None:
    process.kill("kill -9 during a call")
    world.check_alive()
