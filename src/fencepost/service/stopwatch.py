"""How long an agent has run, since when it has stood still, and when to look for news."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from fencepost.model.outcome import TimedOut
from fencepost.model.retry import Timeouts

LOOK_SECONDS = 1.0  # how often a running attempt looks for a request to stop


class Stopwatch:
    """How long the agent has run, and since when it has stood still."""

    def __init__(self, now_ns: Callable[[], int], limits: Timeouts) -> None:
        self._now_ns = now_ns
        self._limits = limits
        self._started_ns = self._moved_ns = self._looked_ns = now_ns()
        self._events = 0
        self._calls: dict[str, int] = {}  # open tool calls, and since when

    def progress(self, events: int) -> None:
        """Take note of the count of signs of work."""
        if events != self._events:
            self._events, self._moved_ns = events, self._now_ns()

    def calls(self, names: Sequence[str]) -> None:
        """Take note of which tool calls are open."""
        now = self._now_ns()
        self._calls = {name: self._calls.get(name, now) for name in names}

    def exceeded(self) -> TimedOut | None:
        """Return the limit that was reached, if any."""
        now = self._now_ns()
        oldest = min(self._calls.values(), default=None)
        return self._limits.exceeded(
            ran_for=timedelta(microseconds=(now - self._started_ns) / 1000),
            silent_for=timedelta(microseconds=(now - self._moved_ns) / 1000),
            calling_for=timedelta(microseconds=(now - oldest) / 1000) if oldest is not None else None,
        )

    def left_seconds(self) -> float:
        """Return for how long nothing of this needs a look."""
        now = self._now_ns()
        left = [float("inf")]
        if self._limits.timeout is not None:
            left.append(self._limits.timeout.total_seconds() - (now - self._started_ns) / 1e9)
        if self._limits.stall_timeout is not None and not self._calls:
            left.append(self._limits.stall_timeout.total_seconds() - (now - self._moved_ns) / 1e9)
        return max(0.0, min(left))

    def is_time_to_look(self) -> bool:
        """Tell whether the last look is long enough ago; if so, this is the next one."""
        if self._now_ns() - self._looked_ns < LOOK_SECONDS * 1e9:
            return False
        self._looked_ns = self._now_ns()
        return True
