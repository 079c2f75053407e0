"""Reads the figures, all of one snapshot, once for both dialects."""

from fencepost.ports.metering import Counts, Ended, Figures, Live, Sums, Tokens
from fencepost.stores.transaction import Dialect, Row, Transaction


class SqlMetering:
    """Figures over named statements."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def figures(self, tenant: str) -> Figures:
        """Return the figures of a tenant."""

        def work(tx: Transaction) -> Figures:
            ((now_us,),) = tx.rows("store_clock_us")
            return Figures(
                int(now_us),
                [Counts(*row) for row in tx.rows("meter_counts", tenant=tenant)],
                [Live(*row) for row in tx.rows("meter_live", tenant=tenant)],
                [_ended(row) for row in tx.rows("meter_runs", tenant=tenant)],
                [Tokens(*row) for row in tx.rows("meter_tokens", tenant=tenant)],
                Sums(*tx.rows("meter_sums", tenant=tenant)[0]),
            )

        return self._dialect.read(work)


def _ended(row: Row) -> Ended:
    schedule, agent, number, took_us, *within, cost_micro = row
    return Ended(schedule, agent, number, took_us, tuple(within), cost_micro)
