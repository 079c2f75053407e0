"""Figures that an agent's output tells: counted up, taken over, or told for the whole of a session that was resumed."""

from typing import NamedTuple

SEEN_MAX = 10_000


class SoFar(NamedTuple):
    """What earlier attempts in one session came to."""

    cost_micro: int = 0
    usage: tuple[tuple[str, int], ...] = ()


NOTHING_YET = SoFar()


class Figure:
    """One figure of one attempt."""

    __slots__ = ("_earlier", "_seen", "value")

    def __init__(self, earlier: float = 0.0) -> None:
        """`earlier` is what was counted before the session was resumed."""
        self._earlier = earlier
        self._seen: dict[str, float] = {}
        self.value: float | None = None

    def count(self) -> None:
        """Count one more."""
        self.value = (self.value or 0) + 1

    def take(self, amount: float) -> None:
        """Take over what is told now instead of what was told before."""
        self.value = amount

    def take_of_session(self, total: float) -> None:
        """Take over what is told for the whole session, less what earlier attempts told.

        A total below that is not of the whole session: then the agent counts each attempt for itself.
        """
        self.value = total - self._earlier if total >= self._earlier else total

    def add(self, amount: float, key: str | None) -> None:
        """Add to what was told before; with a key, what is told again for it takes the place of what it was."""
        before = 0.0
        if key is not None:
            before = self._seen.get(key, 0.0)
            if len(self._seen) >= SEEN_MAX:
                self._seen.clear()  # bounded; who tells a thing again does so soon
            self._seen[key] = amount
        self.value = (self.value or 0) + amount - before
