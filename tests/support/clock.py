"""The one clock of tests that move the time."""

NOON_US = 1_800_000_000_000_000


class ManualClock:
    """Time that stands still unless it is moved."""

    def __init__(self, wall_us: int = NOON_US) -> None:
        self.wall = wall_us
        self.awake = 1_000_000_000_000
        self.waits: list[float] = []

    def wall_us(self) -> int:
        return self.wall

    def awake_ns(self) -> int:
        return self.awake

    def boot_ns(self) -> int:
        return self.awake

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        self.wall += round(seconds * 1_000_000)
        self.awake += round(seconds * 1_000_000) * 1000
