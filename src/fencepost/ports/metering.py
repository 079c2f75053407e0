"""What is measured: figures of one tenant, from its own records."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fencepost.model.gate import WRITES_REFUSED

BUCKETS_SECONDS = (1, 10, 60, 300, 900, 3_600, 14_400)


class Counts(NamedTuple):
    """Ticks of one disposition, or runs of one state, of one schedule ('' for runs without one)."""

    schedule: str
    name: str
    number: int


class LiveCounts(NamedTuple):
    """Runs that have not ended."""

    schedule: str
    agent: str
    state: str
    number: int
    oldest_us: int


class EndedCounts(NamedTuple):
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
    runs_refused: int
    writes_refused: int


class Figures(NamedTuple):
    """Everything at one moment of the store."""

    now_us: int
    ticks: Sequence[Counts]
    runs: Sequence[Counts]
    live: Sequence[LiveCounts]
    ended: Sequence[EndedCounts]
    tokens: Sequence[Tokens]
    sums: Sums
    cursor_us: int | None  # how far the scheduler has looked
    commands: Mapping[str, int] = {}  # guarded ones, by how they ended; `refused` came in vain


def figures_of(meters: Mapping[tuple[str, str, str], int]) -> tuple[list[EndedCounts], Sums]:
    """Turn meters, by schedule, agent and name, into figures."""
    who = sorted({key[:2] for key in meters})

    def read(schedule: str, agent: str, name: str) -> int:
        return meters.get((schedule, agent, name), 0)

    ended = [
        EndedCounts(
            *one,
            number=read(*one, "ended"),
            took_us=read(*one, "took_us"),
            within=tuple(read(*one, f"within_{edge}") for edge in BUCKETS_SECONDS),
            cost_micro=read(*one, "cost_micro"),
        )
        for one in who
    ]
    names = ("asked_again", "lost", "takeovers", "refused", WRITES_REFUSED)
    return ended, Sums(*(sum(read(*one, name) for one in who) for name in names))
