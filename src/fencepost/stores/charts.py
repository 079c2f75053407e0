"""What pictures are drawn from, asked of the store: once for both dialects, each question about one tenant."""

import json
from collections.abc import Sequence

from fencepost.ports.charts import AttemptFact, DayFact, RunBin, RunlessTick, TickBin
from fencepost.stores.transaction import Dialect, Row

APART_US = 2 * 86_400_000_000  # how long before a stretch the runs were made that are looked for in it

STATEMENTS = {
    "schedule": "chart_bins",
    "project": "chart_bins_of_projects",  # each with its schedule
    "worker": "chart_bins_of_workers",
}


class SqlCharts:
    """Questions over named statements."""

    __slots__ = ("_dialect", "_tenant")

    def __init__(self, dialect: Dialect, tenant: str) -> None:
        self._dialect = dialect
        self._tenant = tenant

    def made(self, from_us: int, until_us: int, *, schedule: str = "", project: str = "", limit: int) -> int:
        """Return how many runs were made in [from, until), or the limit if there are more."""
        ((number,),) = self._rows(
            "chart_made", from_us=from_us, until_us=until_us, schedule=schedule, project=project, limit=limit
        )
        return int(number)

    def attempts(
        self, from_us: int, until_us: int, *, schedule: str = "", project: str = "", limit: int
    ) -> list[AttemptFact]:
        """Return the tries at the runs of [from, until), newest first; not those that were made days before it."""
        rows = self._rows(
            "chart_attempts",
            since_us=from_us - APART_US,
            from_us=from_us,
            until_us=until_us,
            schedule=schedule,
            project=project,
            limit=limit,
        )
        return [AttemptFact(*row) for row in rows]

    def bins(
        self, from_us: int, until_us: int, *, bin_us: int, by: str, schedule: str = "", project: str = ""
    ) -> list[RunBin]:
        """Return how many runs of each kind began in each part of [from, until), by schedule, project or worker."""
        rows = self._rows(
            STATEMENTS["project" if project and by == "schedule" else by],
            since_us=from_us - APART_US,
            from_us=from_us,
            until_us=until_us,
            bin_us=bin_us,
            schedule=schedule,
            project=project,
        )
        return [RunBin(*row) for row in rows]

    def ticks(self, from_us: int, until_us: int, *, schedule: str = "", limit: int) -> list[RunlessTick]:
        """Return the ticks of [from, until) that made no run, newest first; not those that were decided days later."""
        rows = self._rows(
            "chart_ticks",
            from_us=from_us,
            until_us=until_us,
            decided_us=until_us + APART_US,
            schedule=schedule,
            limit=limit,
        )
        return [RunlessTick(*row) for row in rows]

    def tick_bins(self, from_us: int, until_us: int, *, bin_us: int) -> list[TickBin]:
        """Return how many ticks were decided in each part of [from, until), by what became of them."""
        rows = self._rows("chart_tick_bins", from_us=from_us, until_us=until_us, bin_us=bin_us)
        return [TickBin(*row) for row in rows]

    def days(self, schedule: str, edges: Sequence[int]) -> list[DayFact]:
        """Return what the runs of a schedule took and cost on each day; a day reaches from one edge to the next."""
        spelled = json.dumps(list(edges))
        rows = self._rows("chart_days", schedule=schedule, edges=spelled, from_us=edges[0], until_us=edges[-1])
        return [DayFact(*row) for row in rows]

    def _rows(self, statement: str, /, **values: object) -> list[Row]:
        return self._dialect.read(lambda tx: tx.rows(statement, tenant=self._tenant, **values))
