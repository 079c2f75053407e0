"""What the auditor reads of a store: a schedule's history, its recorded ticks, and links that lead nowhere."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from fencepost.model.recorded import Recorded
from fencepost.ports.pruning import Watermark
from fencepost.ports.requests import VersionFact


class EveryLink(NamedTuple):
    """A run of an `every` schedule, and whether a tick counts from its end."""

    run_id: str
    tick_us: int
    ended_us: int | None
    has_successor: bool


class History(NamedTuple):
    """Everything recorded about one schedule in a window, at one moment."""

    name: str
    now_us: int
    exists: bool
    cursor_us: int
    due_us: int | None
    once_done: bool
    retired: bool
    last_run: str | None
    last_ended_us: int | None
    versions: tuple[VersionFact, ...]
    ticks: tuple[Recorded, ...]
    runless: tuple[tuple[str, int], ...]  # ticks that say `run`, and there is no such run
    tickless: tuple[tuple[str, int], ...]  # tick-born runs that no tick knows of
    every: tuple[EveryLink, ...]
    starts: Mapping[int, int]  # when the first run of a tick started, by version
    watermark: Watermark | None = None  # up to where records may be gone


class HistoryStore(Protocol):
    """The auditor's questions."""

    def clock_us(self) -> int:
        """Return the store's own time."""
        ...

    def history_names(self, tenant: str) -> list[str]:
        """Return every schedule that there ever was."""
        ...

    def history(self, tenant: str, name: str, *, from_us: int, until_us: int) -> History:
        """Return what is recorded about a schedule in [from_us, until_us)."""
        ...
