"""What is measured: figures of one tenant, from its own records."""

from collections.abc import Sequence
from typing import NamedTuple


class Counts(NamedTuple):
    """Ticks of one disposition, or runs of one state, of one schedule ('' for runs without one)."""

    schedule: str
    kind: str
    name: str
    number: int


class Live(NamedTuple):
    """Runs that have not ended."""

    schedule: str
    agent: str
    state: str
    number: int
    oldest_us: int


class Ended(NamedTuple):
    """What the runs of an agent came to; `within` counts those that took at most so long, by BUCKETS_SECONDS."""

    schedule: str
    agent: str
    number: int
    took_us: int
    within: tuple[int, ...]
    cost_micro: int


class Tokens(NamedTuple):
    """The llm_tokens of one kind that the runs of an agent used, as they said."""

    schedule: str
    agent: str
    kind: str
    number: int


class Sums(NamedTuple):
    """What is not told apart by schedule."""

    asked_again: int
    leases_lost: int
    takeovers: int
    writes_refused: int
    cursor_us: int | None


class Figures(NamedTuple):
    """Everything at one moment of the store."""

    now_us: int
    counts: Sequence[Counts]
    live: Sequence[Live]
    ended: Sequence[Ended]
    tokens: Sequence[Tokens]
    sums: Sums


BUCKETS_SECONDS = (1, 10, 60, 300, 900, 3_600, 14_400)
