"""The auditor's questions: history as it is recorded, one schedule at a time, all of it at one moment."""

from collections.abc import Iterator
from typing import Any

from fencepost.model.recorded_tick import Recorded
from fencepost.ports.history import EveryLink, ScheduleHistory
from fencepost.ports.requests import VersionFact
from fencepost.stores.pruning import watermark_of
from fencepost.stores.ticks import clock
from fencepost.stores.transaction import Dialect, Transaction

PAGE = 5_000


class SqlHistory:
    """The auditor's questions."""

    def __init__(self, dialect: Dialect) -> None:
        """Read through a store's dialect."""
        self._dialect = dialect

    def clock_us(self) -> int:
        """Return the store's own time."""
        return self._dialect.read(clock)

    def history_names(self, tenant: str) -> list[str]:
        """Return every schedule that there ever was."""
        return self._dialect.read(lambda tx: [str(name) for (name,) in tx.rows("history_names", tenant=tenant)])

    def history(self, tenant: str, name: str, *, from_us: int, until_us: int) -> ScheduleHistory:
        """Return what is recorded about a schedule in [from_us, until_us)."""
        return self._dialect.read(lambda tx: _history(tx, tenant, name, from_us, until_us), patient=True)


def _history(tx: Transaction, tenant: str, name: str, from_us: int, until_us: int) -> ScheduleHistory:
    which: dict[str, Any] = {"tenant": tenant, "schedule": name}
    watermark = watermark_of(tx, tenant, name)
    if watermark is not None:
        from_us = max(from_us, watermark.pruned_us + 1)
    window = {"from_us": from_us, "until_us": until_us}
    rows = tx.rows("history_schedule", **which)
    cursor_us, due_us, once_done, retired, last_run, last_ended_us = (
        rows[0] if rows else (0, None, False, False, None, None)
    )
    return ScheduleHistory(
        name=name,
        now_us=clock(tx),
        exists=bool(rows),
        cursor_us=cursor_us,
        due_us=due_us,
        once_done=bool(once_done),
        retired=bool(retired),
        last_run=last_run,
        last_ended_us=last_ended_us,
        versions=tuple(VersionFact(*row) for row in tx.rows("versions_to_run", tenant=tenant, name=name)),
        ticks=tuple(_ticks(tx, which, window)),
        runless=tuple((str(one), int(at)) for one, at in tx.rows("runless_ticks", **which, **window)),
        tickless=tuple((str(one), int(at)) for one, at in tx.rows("tickless_runs", **which, **window)),
        every=tuple(_link(*row) for row in tx.rows("every_links", **which, **window)),
        starts={int(version): int(at) for version, at in tx.rows("first_starts", **which)},
        watermark=watermark,
    )


def _link(run_id: str, tick_us: int, ended_us: int | None, has_successor: object) -> EveryLink:
    return EveryLink(run_id, tick_us, ended_us, bool(has_successor))


def _ticks(tx: Transaction, which: dict[str, Any], window: dict[str, int]) -> Iterator[Recorded]:
    """Read page by page: a schedule may have hundreds of thousands of ticks."""
    after_us, after = -(1 << 62), ""
    while True:
        rows = tx.rows("history_ticks", **which, **window, after_us=after_us, after=after, limit=PAGE)
        yield from (Recorded(*row) for row in rows)
        if len(rows) < PAGE:
            return
        after_us, after = rows[-1][3], rows[-1][0]
