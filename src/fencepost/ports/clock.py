"""The three clocks that leases need, and the only way to wait."""

from __future__ import annotations

from fencepost.model.fast_typing import Protocol


class Clock(Protocol):
    """Time, as one host sees it."""

    def wall_us(self) -> int:
        """Return microseconds since 1970, UTC; may be stepped."""
        ...

    def awake_ns(self) -> int:
        """Return nanoseconds that never go back and stop while the host sleeps."""
        ...

    def boot_ns(self) -> int:
        """Return nanoseconds that never go back and count the time the host sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
