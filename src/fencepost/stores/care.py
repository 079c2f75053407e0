"""What keeps a store in health, written once for both dialects: take it away, put it back, lift its fences."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from fencepost.model.errors import Invalid
from fencepost.stores.leases import lift
from fencepost.stores.transaction import Dialect, T, Transaction

RESTORED = "store restored"
BATCH = 500
KEPT = ("meta", "resource", "lease", "waiter", "workplace")  # these have rules of their own; all others are replaced

TableRow = tuple[str, Mapping[str, Any]]


class Snapshot(NamedTuple):
    """One state of a store, open for as long as somebody reads it."""

    store_id: str
    schema: int
    clock_us: int
    highest_fence: int
    rows: Iterator[TableRow]


class SqlCare:
    """The verbs of a store's keeper."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def export(self, receive: Callable[[Snapshot], T]) -> T:
        """Hand one state of the whole store to a receiver."""
        return self._dialect.read(lambda tx: receive(_snapshot(tx)), patient=True)

    def is_empty(self) -> bool:
        """Tell whether nothing was ever kept here."""
        return self._dialect.read(_is_empty)

    def clock_us(self) -> int:
        """Return the store's own time."""
        ((clock_us,),) = self._dialect.read(lambda tx: tx.rows("store_clock_us"))
        return int(clock_us)

    def highest(self) -> int:
        """Return a number that no fence has been above, and no fence will be below."""
        return self._dialect.read(_highest)

    def replace(self, rows: Callable[[], Iterable[TableRow]], *, store_id: str, above: int) -> int:
        """Go on as another store with these rows, every lease void, every fence above all earlier ones.

        Returns the new floor. A gate that either side owes stays owed. Open the store anew to lease from it.
        """
        floor = self._dialect.write(lambda tx: _replace(tx, rows(), store_id=store_id, above=above), patient=True)
        self._dialect.became(store_id)
        return floor


def _snapshot(tx: Transaction) -> Snapshot:
    meta: dict[str, str] = dict(tx.rows("all_meta"))
    ((clock_us,),) = tx.rows("store_clock_us")
    ((highest,),) = tx.rows("highest_fence")
    tables = tx.tables()
    rows = ((name, row) for name in tables.names() for row in tables.rows(name))
    return Snapshot(meta["store_id"], int(meta["schema"]), int(clock_us), int(highest), rows)


def _is_empty(tx: Transaction) -> bool:
    tables = tx.tables()
    return not any(True for name in tables.names() if name != "meta" for _ in tables.rows(name))


def _highest(tx: Transaction) -> int:
    ((clock_us,),) = tx.rows("store_clock_us")
    ((highest,),) = tx.rows("highest_fence")
    return max(int(clock_us), int(highest))


def _replace(tx: Transaction, rows: Iterable[TableRow], *, store_id: str, above: int) -> int:
    tx.rows("stand_still")
    tx.tables().lock()
    tx.rows("void_leases", why=RESTORED)
    tx.rows("void_resources")
    tx.rows("empty_queue")
    _replace_tables(tx, rows)
    floor = lift(tx, max(above, _highest(tx)))
    tx.rows("set_meta", key="store_id", value=store_id)
    return floor


def _replace_tables(tx: Transaction, rows: Iterable[TableRow]) -> None:
    tables = tx.tables()
    names = tables.names()
    for name in names:
        if name not in KEPT:
            tables.clear(name)
    for (name, _), group in groupby(rows, key=lambda one: (one[0], tuple(one[1]))):
        if name not in names:
            raise Invalid(f"the backup has a table {name}, which this Fencepost does not know. Nothing was changed.")
        for batch in _batches(row for _, row in group):
            _add(tx, name, batch)
    tables.settle()


def _add(tx: Transaction, table: str, rows: list[Mapping[str, Any]]) -> None:
    """Add rows of a table; what was known about leases then is merged with what is known now."""
    if table in ("resource", "lease"):
        for row in rows:
            tx.rows(f"import_{table}", **row)
    elif table not in KEPT:
        tx.tables().add(table, rows)


def _batches(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
