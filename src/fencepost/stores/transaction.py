"""What the verbs need of a dialect: named statements inside one transaction."""

from __future__ import annotations

from fencepost.model.errors import StoreUnavailable
from fencepost.model.fast_typing import Any, Callable, Iterator, Mapping, Protocol, Sequence, TypeVar

Row = tuple[Any, ...]
Later = Callable[[], list[Row]]
T = TypeVar("T")


class RowRefused(StoreUnavailable):
    """The database does not take what was to be written: asking again cannot help."""


class Transaction(Protocol):
    """One open transaction."""

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Run a named statement and return its rows."""
        ...

    def later(self, name: str, /, **values: object) -> Later:
        """Have a named statement run in its turn, and return a way to its rows; it may travel with those after it."""
        ...

    def remember(self, fence: int) -> None:
        """Make sure that this fence is never given out again, whatever happens to the store's last writes."""
        ...

    def tables(self) -> Tables:
        """Return the tables as such, for those who move all of them."""
        ...


class Tables(Protocol):
    """All tables of a store as the database lists them, so that a backup forgets none that is new."""

    def names(self) -> list[str]:
        """Return the names of all tables."""
        ...

    def rows(self, table: str, tenant: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table one by one, however many there are, as plain JSON values by column."""
        ...

    def lock(self) -> None:
        """Let no other transaction write to any table until this one ends."""
        ...

    def clear(self, table: str, tenant: str | None = None) -> None:
        """Delete all rows of a table."""
        ...

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows that have the same columns; those that are not named get their default."""
        ...

    def settle(self) -> None:
        """Let counters go on above what was added."""
        ...


class Dialect(Protocol):
    """How a store carries out transactions.

    The work is a function and not a block, because a server may ask for it to be done all over again.
    """

    works_apart: bool  # whether statements are carried out by another process, while this one goes on

    def write(self, work: Callable[[Transaction], T], /, *, patient: bool = False, often: bool = False) -> T:
        """Do the work in one transaction that is durable when this returns, or has no effect if it raises.

        Patient work may take minutes; no request waits for it. For work that is done often, a server may keep its plans.
        """
        ...

    def read(self, work: Callable[[Transaction], T], /, *, patient: bool = False) -> T:
        """Do the work on one state of the store, writing nothing."""
        ...

    def give_way(self) -> None:
        """Let others write before the next part of a work that is cut into parts."""
        ...

    def became(self, store_id: str, /) -> None:
        """Take note that the store now goes by another id."""
        ...
