"""What the auditor reads of a store: a schedule's history, its recorded ticks, and links that lead nowhere."""

from collections.abc import Mapping
from typing import NamedTuple

from fencepost.model.recorded_tick import Recorded
from fencepost.ports.pruning import Watermark
from fencepost.ports.requests import VersionFact


class EveryLink(NamedTuple):
    """A run of an `every` schedule, and whether a tick counts from its end."""

    run_id: str
    tick_us: int
    ended_us: int | None
    has_successor: bool


class ScheduleHistory(NamedTuple):
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
