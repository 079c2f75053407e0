"""A clock for tests that move the time."""


class ManualClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def wall_us(self) -> int:
        return int(self.seconds * 1e6)

    def awake_ns(self) -> int:
        return int(self.seconds * 1e9)

    boot_ns = awake_ns

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
