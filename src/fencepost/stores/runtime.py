"""The whole store of the runtime: leases, registry, ticks and runs over one dialect."""

from fencepost.model.fast_typing import TYPE_CHECKING, Protocol
from fencepost.ports.agenda import Agenda
from fencepost.ports.store import StoreFacts
from fencepost.stores.audit import SqlAudit
from fencepost.stores.history import SqlHistory
from fencepost.stores.lease_custody import SqlCustody
from fencepost.stores.notices import SqlNotices
from fencepost.stores.past_runs import SqlPastRuns
from fencepost.stores.pruning import SqlPruning
from fencepost.stores.requests import SqlRequests
from fencepost.stores.transaction import Dialect, Transaction
from fencepost.stores.workplaces import SqlWorkplaces

if TYPE_CHECKING:
    from fencepost.stores.cells import SqlCells
    from fencepost.stores.charts import SqlCharts
    from fencepost.stores.deliveries import SqlDeliveries
    from fencepost.stores.keys import SqlKeys
    from fencepost.stores.metering import SqlMetering
    from fencepost.stores.reads import SqlReads
    from fencepost.stores.registry import SqlRegistry
    from fencepost.stores.webhooks import SqlWebhooks


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


class Opened(Protocol):
    """A store that was opened and checked."""

    @property
    def dialect(self) -> Dialect:
        """How it carries out transactions."""
        ...

    def facts(self) -> StoreFacts:
        """Say who it is."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class RuntimeStore(SqlRequests, SqlCustody, SqlAgenda, SqlHistory, SqlPruning, SqlWorkplaces):
    """Every verb that the scheduler, the workers and the doors need."""

    def __init__(self, opened: Opened) -> None:
        """Speak over the connection of a store that was opened and checked."""
        super().__init__(opened.dialect, opened.facts().id)
        self._opened = opened

    def facts(self) -> StoreFacts:
        """Say who this store is."""
        return self._opened.facts()

    def audit_chain(self) -> SqlAudit:
        """Return the verbs of the notary."""
        return SqlAudit(self._dialect)

    def notices(self) -> SqlNotices:
        """Return the verbs of the outbox."""
        return SqlNotices(self._dialect)

    def past_runs(self) -> SqlPastRuns:
        """Return the verbs about runs that are not changed any more."""
        return SqlPastRuns(self._dialect)

    def close(self) -> None:
        """Let go of the connection."""
        self._opened.close()

    def registry(self) -> "SqlRegistry":
        """Return the registry's verbs."""
        from fencepost.stores.registry import SqlRegistry

        return SqlRegistry(self._dialect)

    def keys(self) -> "SqlKeys":
        """Return the verbs about keys of the web door."""
        from fencepost.stores.keys import SqlKeys

        return SqlKeys(self._dialect)

    def cells(self) -> "SqlCells":
        """Return the verbs about cells of other machines."""
        from fencepost.stores.cells import SqlCells

        return SqlCells(self._dialect)

    def hooks(self) -> "SqlWebhooks":
        """Return the verbs about webhooks."""
        from fencepost.stores.webhooks import SqlWebhooks

        return SqlWebhooks(self._dialect)

    def deliveries(self) -> "SqlDeliveries":
        """Return the verbs about deliveries of webhooks."""
        from fencepost.stores.deliveries import SqlDeliveries

        return SqlDeliveries(self._dialect, self._limits)

    def metering(self) -> "SqlMetering":
        """Return how the figures are read."""
        from fencepost.stores.metering import SqlMetering

        return SqlMetering(self._dialect)

    def reads(self, tenant: str) -> "SqlReads":
        """Return the questions about one tenant that write nothing."""
        from fencepost.stores.reads import SqlReads

        return SqlReads(self._dialect, tenant)

    def charts(self, tenant: str) -> "SqlCharts":
        """Return what the pictures of one tenant are drawn from."""
        from fencepost.stores.charts import SqlCharts

        return SqlCharts(self._dialect, tenant)
