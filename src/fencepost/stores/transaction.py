"""What the verbs need of a dialect: named statements inside one transaction."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Transaction(Protocol):
    """One open transaction."""

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a named statement and return its rows."""
        ...

    def remember(self, fence: int) -> None:
        """Make sure that this fence is never given out again, whatever happens to the store's last writes."""
        ...


class Dialect(Protocol):
    """How a store opens its transactions."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that commits at the end of the block and rolls back on an error."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that sees one state and writes nothing."""
        ...
