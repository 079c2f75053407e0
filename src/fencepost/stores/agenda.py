"""What a worker asks before it asks for a run: whether there is any, and when there will be."""

from fencepost.ports.agenda import Agenda
from fencepost.stores.transaction import Dialect, Transaction


class SqlAgenda:
    """What the loop of a worker or a scheduler asks to know when to wake up."""

    def __init__(self, dialect: Dialect) -> None:
        """Read through a store's dialect."""
        self._dialect = dialect

    def agenda(self, limit: int) -> Agenda:
        """Return how many runs wait (up to a limit), and when the next run or tick is due, all at one moment."""

        def look(tx: Transaction) -> Agenda:
            ((ready,),) = tx.rows("ready_count", limit=limit)
            ((next_ready,),) = tx.rows("next_ready_after")
            ((next_due,),) = tx.rows("next_due")
            ((now,),) = tx.rows("clock")
            return Agenda(now, ready, next_ready, next_due)

        return self._dialect.read(look)
