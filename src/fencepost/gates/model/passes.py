"""The runs that may call a model now: until when, with which key, and how much each may still spend."""

from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Any, NamedTuple

from fencepost.gates.model.protocols import PROTOCOLS, Protocol
from fencepost.model.budget import MicroUsd, show_usd
from fencepost.model.llm_usage import Usage
from fencepost.ports.clock import Clock

Tell = Callable[[dict[str, Any]], None]


class Terms(NamedTuple):
    """What a worker says of a run."""

    run_id: str
    provider: str
    upstream: str
    key: str  # the real one
    counts_sleep: bool
    budget_micro: int | None = None
    spent_micro: int = 0  # before a gate died
    usage: dict[str, int] = {}  # noqa: RUF012  # likewise; never changed


class Pass:
    """One run at the gate."""

    def __init__(self, terms: Terms, clock: Clock, keeper: str) -> None:
        self.terms = terms
        self.keeper = keeper  # what its guard proves itself by: the key that the agent shows does not
        self.protocol: Protocol = PROTOCOLS[terms.provider]
        self._clock = clock
        self._deadline_ns = 0  # nothing passes before its guard has said until when
        self._spent = terms.spent_micro
        self._reserved = 0
        self._usage = Usage(**terms.usage)
        self._waiting: set[Callable[[], None]] = set()
        self.closed = False
        self.tell: Tell | None = None

    @property
    def left_seconds(self) -> float:
        """For how long the run's lease may be trusted."""
        now = self._clock.boot_ns() if self.terms.counts_sleep else self._clock.awake_ns()
        return 0.0 if self.closed else max(0.0, (self._deadline_ns - now) / 1e9)

    @property
    def is_open(self) -> bool:
        """Whether calls may be made."""
        return self.left_seconds > 0

    def extend(self, deadline_ns: int) -> None:
        """Take note that the lease was renewed."""
        self._deadline_ns = max(self._deadline_ns, deadline_ns)

    def close(self) -> None:
        """Let nothing pass any more, and cut what is under way."""
        self.closed = True
        for wake in list(self._waiting):
            wake()

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a call woken when the pass is closed; returns what takes that back."""
        self._waiting.add(wake)
        return lambda: self._waiting.discard(wake)

    def room(self) -> int | None:
        """Return what may still be spent; None: any amount."""
        budget = self.terms.budget_micro
        return None if budget is None else budget - self._spent - self._reserved

    def reserve(self, micro: int) -> bool:
        """Put an amount aside for a call that is about to be made; False if there is not so much left."""
        room = self.room()
        if room is not None and micro > room:
            return False
        self._reserved += micro
        if micro:
            self._say(held_micro=self._reserved)
        return True

    def settle(self, reserved: int, spent: int, usage: Usage) -> None:
        """Count what a call came to instead of what was put aside for it."""
        self._reserved -= reserved
        self._spent += spent
        self._usage = self._usage.plus(usage)
        self._say(spent_micro=self._spent, held_micro=self._reserved, usage=self._usage.told())

    def over(self, what: str) -> str:
        """Take note that a call would pass the budget, and return in words what became of it."""
        budget, spent = MicroUsd(self.terms.budget_micro or 0), MicroUsd(self._spent)
        words = (
            f"fencepost: run {self.terms.run_id} may cost {show_usd(budget)} USD (budget_usd) and has spent "
            f"{show_usd(spent)}; this call would pass that. It was {what}, and the run ends."
        )
        self._say(over=words)
        return words

    def _say(self, **message: object) -> None:
        if self.tell is not None:
            self.tell(message)


class Passes:
    """Every pass, by the key that its agent shows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._passes: dict[bytes, Pass] = {}

    def __len__(self) -> int:
        return len(self._passes)

    def open(self, shown: str, terms: Terms, keeper: str = "") -> bool:
        """Make a pass for a run, unless there is one; it opens with its first deadline."""
        there = self._passes.setdefault(_digest(shown), made := Pass(terms, self._clock, keeper))
        return there is made

    def find(self, shown: str) -> Pass | None:
        """Return the pass of a run by the key that its agent shows."""
        return self._passes.get(_digest(shown))

    def find_kept(self, shown: str, keeper: str) -> Pass | None:
        """Return the pass of a run, to its guard alone."""
        found = self.find(shown)
        return found if found is not None and compare_digest(found.keeper.encode(), keeper.encode()) else None

    def remove(self, one: Pass) -> None:
        """Close a pass for good."""
        one.close()
        self._passes = {digest: other for digest, other in self._passes.items() if other is not one}


def _digest(shown: str) -> bytes:
    """Return the hash that a key is looked up by: the time of a look tells nothing about other keys."""
    return sha256(shown.encode(errors="surrogateescape")).digest()
