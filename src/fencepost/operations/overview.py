"""Everything at a glance, for a terminal that is looked at for hours: what runs, waits, comes next and spends."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.operations.board import Board, look_around
from fencepost.operations.run_queries import Store
from fencepost.ports.read_rows import ScheduleFacts, TickRow

if TYPE_CHECKING:
    from fencepost.stores.charts import SqlCharts

DAY_US = 86_400_000_000
ATTEMPTS_MAX = 6_000
STRIP = 60  # ticks


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule, and what became of its last ticks, oldest first."""

    facts: ScheduleFacts
    kinds: tuple[str, ...]
    spent_micro: int  # within the last day


@dataclass(frozen=True, slots=True)
class Glance:
    """What is seen."""

    board: Board
    lines: list[ScheduleLine]
    spent_micro: int  # by runs that were made within the last day
    more: int  # schedules that did not fit


def glance(store: Store, tenant: str, *, schedules: int) -> Glance:
    """Look once, at so many schedules: those whose turn comes first."""
    board = look_around(store, tenant)
    look = store.reads(tenant)
    following = look.next_due(limit=schedules)
    ticks = {one.name: look.ticks(one.name, limit=STRIP)[::-1] for one in following}
    runs = look.named_runs(tick.run_id for rows in ticks.values() for tick in rows if tick.run_id)
    states = {run_id: run.state for run_id, run in runs.items()}
    spent, total = _spent(store.charts(tenant), board.now_us)
    lines = [ScheduleLine(one, _kinds(ticks[one.name], states), spent.get(one.name, 0)) for one in following]
    return Glance(board, lines, total, max(0, board.health.schedules - len(lines)))


def _kinds(ticks: list[TickRow], states: dict[str, str]) -> tuple[str, ...]:
    """Say of each tick how its run stands, or why it has none; a range of ticks counts once."""
    return tuple(states.get(one.run_id or "", one.disposition) for one in ticks)


def _spent(charts: "SqlCharts", now_us: int) -> tuple[dict[str, int], int]:
    """Return what the runs of the last day have cost, by schedule and in all."""
    costs = {
        one.run_id: (one.schedule or "", one.cost_micro or 0)
        for one in charts.attempts(now_us - DAY_US, now_us + 1, limit=ATTEMPTS_MAX)
        if one.created_us >= now_us - DAY_US
    }
    found: dict[str, int] = {}
    for schedule, cost in costs.values():
        found[schedule] = found.get(schedule, 0) + cost
    return found, sum(found.values())
