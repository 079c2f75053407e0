"""The real clocks: the only place that looks at them."""

import sys
import time

if sys.platform == "darwin":
    # CLOCK_MONOTONIC counts sleep here, unlike on Linux and unlike CPython's time.monotonic.
    _AWAKE, _BOOT = time.CLOCK_UPTIME_RAW, time.CLOCK_MONOTONIC
else:
    _AWAKE, _BOOT = time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME


class SystemClock:
    """Time as this host's kernel tells it."""

    __slots__ = ()

    def wall_us(self) -> int:
        """Return microseconds since 1970, UTC; may be stepped."""
        return time.time_ns() // 1000  # noqa: TID251 - this is the Clock port's adapter

    def awake_ns(self) -> int:
        """Return nanoseconds that never go back and stop while the host sleeps."""
        return time.clock_gettime_ns(_AWAKE)  # noqa: TID251 - this is the Clock port's adapter

    def boot_ns(self) -> int:
        """Return nanoseconds that never go back and count the time the host sleeps."""
        return time.clock_gettime_ns(_BOOT)  # noqa: TID251 - this is the Clock port's adapter

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: TID251 - this is the Clock port's adapter
