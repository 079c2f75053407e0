"""Clocks that disagree: each host has its own rate, offset and sleep, and the database has one more."""

from typing import NamedTuple, Protocol

from tests.simulation.world import SECOND, World

EPOCH_US = 1_750_000_000_000_000
MILLION = 1_000_000


class Moment(NamedTuple):
    """The store's clock at the time of a verb."""

    boot: str
    awake_ns: int
    wall_us: int


class Reading(Protocol):
    """Three clocks to read."""

    def wall_us(self) -> int: ...

    def awake_ns(self) -> int: ...

    def boot_ns(self) -> int: ...


class HostTime:
    """The clocks of one host since it booted."""

    def __init__(self, world: World, *, rate_ppm: int, wall_us: int) -> None:
        self._world = world
        self._rate_ppm = rate_ppm
        self._born_ns = world.now_ns
        self._wall_at_birth_us = wall_us
        self._slept_ns = 0

    def boot_ns(self) -> int:
        return (self._world.now_ns - self._born_ns) * self._rate_ppm // MILLION

    def awake_ns(self) -> int:
        return self.boot_ns() - self._slept_ns

    def wall_us(self) -> int:
        return self._wall_at_birth_us + self.boot_ns() // 1000

    def step(self, us: int) -> None:
        """Set the wall clock forward or back."""
        self._wall_at_birth_us += us

    def slept(self, true_ns: int) -> None:
        """Take note of a sleep that is over."""
        self._slept_ns += true_ns * self._rate_ppm // MILLION

    def true_ns(self, seconds: float) -> int:
        """Return how long it really takes until these clocks have gone on by so much, never less."""
        return int(seconds * SECOND * MILLION / self._rate_ppm) + 1


class DatabaseTime:
    """A server's clock: the one clock that decides there, and it may be set forward and back."""

    def __init__(self, world: World, *, epoch_us: int = EPOCH_US) -> None:
        self._world = world
        self._epoch_us = epoch_us
        self._offset_us = 0

    def wall_us(self) -> int:
        return self._epoch_us + self._world.now_ns // 1000 + self._offset_us

    def awake_ns(self) -> int:
        return self.wall_us() * 1000

    def boot_ns(self) -> int:
        return self.wall_us() * 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a store does not wait, not even {seconds}s")

    def step(self, us: int) -> None:
        """Set the clock forward or back."""
        self._offset_us += us


class StoreClock:
    """Reads a host's clocks for SQLite; reading is no port call, since it happens inside a transaction."""

    def __init__(self, time: Reading) -> None:
        self._time = time

    def wall_us(self) -> int:
        return self._time.wall_us()

    def awake_ns(self) -> int:
        return self._time.awake_ns()

    def boot_ns(self) -> int:
        return self._time.boot_ns()

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a store does not wait, not even {seconds}s")


class ProcessClock:
    """The Clock port of one process: reads its host's clocks, and waits in simulated time."""

    def __init__(self, world: World, time: HostTime) -> None:
        self._world = world
        self._time = time

    def wall_us(self) -> int:
        return self._time.wall_us()

    def awake_ns(self) -> int:
        return self._time.awake_ns()

    def boot_ns(self) -> int:
        return self._time.boot_ns()

    def sleep(self, seconds: float) -> None:
        self._world.check_alive()
        self._world.pause(self._time.true_ns(seconds))


class GateClock(ProcessClock):
    """The same for a gate, which reads the wall clock between its check and its write: others get a turn there."""

    def wall_us(self) -> int:
        self._world.check_alive()
        self._world.pause(0 if self._world.quiet else self._world.rng.choice((0, 0, 1000, 50_000_000)))
        return super().wall_us()
