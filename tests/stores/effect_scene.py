"""A run under way, for tests that speak to single statements of a store; whatever they do is rolled back."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fencepost.model.definition import AgentDefinition
from fencepost.model.effect_ledger import EffectCall
from tests.support.runtime import Runtime

TABLES = (
    "resource",
    "lease",
    "run",
    "attempt",
    "checkpoint",
    "completion",
    "ledger",
    "guarded_tick",
    "guarded_command",
)


class EffectScene:
    """A run under way that has begun an effect; whatever a test does to it is rolled back."""

    def __init__(self, runtime: Runtime) -> None:
        runtime.apply(AgentDefinition("agent", command=("true",)))
        runtime.cron()
        runtime.tick_at("2027-01-15T08:01:00")
        self.leased = runtime.leased(start=True)
        runtime.store.ledger().begin(self.leased.lease, EffectCall("invoice", "call-1"))
        runtime.pass_time(1)
        self.fence = self.leased.lease.fence
        self.schema = "fencepost." if runtime.kind == "postgresql" else ""
        self._dialect = runtime.store._dialect
        record = {"tenant": "default", "resource": self.leased.lease.resources[0], "job": "digest", "record": "{}"}
        self._dialect.write(lambda tx: tx.rows("put_tick_record", **record, fence=self.fence))
        self._dialect.write(lambda tx: tx.rows("note_command", id=self.leased.lease.id, fence=self.fence))

    def play(self, act: Callable[[Any], None]) -> None:
        """Do something in a transaction that comes to nothing."""

        def work(tx: Any) -> None:  # noqa: ANN401  # of either dialect
            act(tx)
            raise _RolledBackError

        with suppress(_RolledBackError):
            self._dialect.write(work)

    def by_hand(self, tx: Any, text: str) -> list[Any]:  # noqa: ANN401  # of either dialect
        """Run a statement of ours; $ stands for the schema."""
        cursor = tx._connection.execute(text.replace("$", self.schema))
        return list(cursor) if text.startswith("SELECT") else []

    def columns(self, tx: Any, table: str) -> list[str]:  # noqa: ANN401  # of either dialect
        """Return the names of a table's columns."""
        cursor = tx._connection.execute(f"SELECT * FROM {self.schema}{table}")
        return [column[0] for column in cursor.description]

    def contents(self, tx: Any) -> list[list[str]]:  # noqa: ANN401  # of either dialect
        """Return what there is in every table that has fences."""
        return [sorted(map(repr, self.by_hand(tx, f"SELECT * FROM ${table}"))) for table in TABLES]


class _RolledBackError(Exception):
    """That was all."""
