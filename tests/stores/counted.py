"""Counts the statements of a store, for tests about what a verb costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fencepost.stores.postgres.dialect import PostgresTransaction
from fencepost.stores.sqlite.dialect import SqliteTransaction


@contextmanager
def counted_statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note the name of every statement that is carried out inside."""
    seen: list[str] = []

    def noting(real: Any) -> Any:  # noqa: ANN401  # a method of either dialect
        def carry_out(self: object, name: str, /, **values: object) -> Any:  # noqa: ANN401  # likewise
            seen.append(name)
            return real(self, name, **values)

        return carry_out

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTransaction, "later", noting(PostgresTransaction.later))  # rows() goes through it
        patch.setattr(SqliteTransaction, "rows", noting(SqliteTransaction.rows))  # later() goes through it
        yield seen
