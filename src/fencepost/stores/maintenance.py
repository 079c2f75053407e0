"""What keeps a store in health, written once for both dialects: take it away, put it back, lift its fences."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from fencepost.model.errors import Busy, Invalid
from fencepost.stores import audit_packs, past_runs
from fencepost.stores.audit_packs import plain_rows
from fencepost.stores.audit_writing import write_audit
from fencepost.stores.lease_grants import lift
from fencepost.stores.moved_tenants import come_back, leave
from fencepost.stores.transaction import Dialect, T, Tables, Transaction

RESTORED = "store restored"
BATCH = 500
NUMBERED = {"audit": "seq", "notice": "seq", "pause": "id"}  # another tenant's rows may have these numbers
KEPT = ("meta", "resource", "lease", "waiter", "workplace")  # these have rules of their own; all others are replaced

LAST = "manifest"  # to be emptied: its rows stay as long as a past run rests on them

TableRow = tuple[str, Mapping[str, Any]]


class Snapshot(NamedTuple):
    """One state of a store, open for as long as a reader needs it."""

    store_id: str
    schema: int
    clock_us: int
    highest_fence: int
    tenant: str | None  # whose rows; None: all tenants'
    rows: Iterator[TableRow]


class SqlCare:
    """The verbs of a store's keeper."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def export(self, receive: Callable[[Snapshot], T], tenant: str | None = None) -> T:
        """Hand one state of the whole store, or of one tenant, to a receiver."""
        return self._dialect.read(lambda tx: receive(_snapshot(tx, tenant)), patient=True)

    def is_empty(self, tenant: str | None = None) -> bool:
        """Tell whether nothing was ever kept here, or nothing of a tenant."""
        return self._dialect.read(lambda tx: _is_empty(tx, tenant))

    def send_away(self, tenant: str, *, actor: str) -> None:
        """Let nothing of a tenant happen here any more; raise Busy while something of it is leased.

        A transaction that is about to write finishes first, and all others find out: what is exported afterwards is all there is.
        """
        self._dialect.write(lambda tx: _send_away(tx, tenant, actor), patient=True)

    def take_in(self, rows: Callable[[], Iterable[TableRow]], *, tenant: str, above: int, actor: str) -> int:
        """Go on with a tenant of another store, its leases void, every fence above all earlier ones; return the floor."""

        def work(tx: Transaction) -> int:
            floor = _replace(tx, rows(), tenant=tenant, above=above)
            come_back(tx, tenant)
            write_audit(tx, tenant, actor=actor, verb="take_in", subject=f"tenant:{tenant}", detail={"floor": floor})
            return floor

        return self._dialect.write(work, patient=True)

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

        def work(tx: Transaction) -> int:
            floor = _replace(tx, rows(), tenant=None, above=above)
            tx.rows("set_meta", key="store_id", value=store_id)
            return floor

        floor = self._dialect.write(work, patient=True)
        self._dialect.became(store_id)
        return floor


def _snapshot(tx: Transaction, tenant: str | None) -> Snapshot:
    meta: dict[str, str] = dict(tx.rows("all_meta"))
    ((clock_us,),) = tx.rows("store_clock_us")
    ((highest,),) = tx.rows("highest_fence")
    rows = _all_rows(tx.tables(), tenant)
    return Snapshot(meta["store_id"], int(meta["schema"]), int(clock_us), int(highest), tenant, rows)


def _all_rows(tables: Tables, tenant: str | None) -> Iterator[TableRow]:
    """Yield every row; packed entries and past runs as plain ones, since their form is this store's own business."""
    for name in tables.names():
        if name == "audit":  # the packed ones first: they are older, and get their numbers in this order elsewhere
            yield from ((name, row) for row in plain_rows(tables.rows(audit_packs.TABLE, tenant)))
        if name != audit_packs.TABLE and name not in past_runs.TABLES:
            yield from ((name, row) for row in tables.rows(name, tenant))
        if name in past_runs.PLAIN:
            yield from ((name, past_runs.plain_row(row)) for row in tables.rows(past_runs.PLAIN[name], tenant))


def _is_empty(tx: Transaction, tenant: str | None) -> bool:
    tables = tx.tables()
    return not any(True for name in tables.names() if name != "meta" for _ in tables.rows(name, tenant))


def _send_away(tx: Transaction, tenant: str, actor: str) -> None:
    tx.rows("stand_still")
    tx.tables().lock()
    held = tx.rows("held_by", tenant=tenant)
    if held:
        raise Busy(
            f"tenant {tenant} cannot move while it holds {held[0][0]}; halt it, and try again when nothing of it runs "
            f"any more: fencepost halt --tenant {tenant}"
        )
    leave(tx, tenant, actor=actor)


def _highest(tx: Transaction) -> int:
    ((clock_us,),) = tx.rows("store_clock_us")
    ((highest,),) = tx.rows("highest_fence")
    return max(int(clock_us), int(highest))


def _replace(tx: Transaction, rows: Iterable[TableRow], *, tenant: str | None, above: int) -> int:
    tx.rows("stand_still")
    tx.tables().lock()
    whose = tenant or ""
    tx.rows("void_resources", tenant=whose)
    tx.rows("void_leases", why=RESTORED, tenant=whose)
    tx.rows("empty_queue", tenant=whose)
    _replace_tables(tx, rows, tenant)
    return lift(tx, max(above, _highest(tx)))


def _replace_tables(tx: Transaction, rows: Iterable[TableRow], tenant: str | None) -> None:
    tables = tx.tables()
    names = tables.names()
    for name in sorted(names, key=LAST.__eq__):
        if name not in KEPT:
            tables.clear(name, tenant)
    for (name, _), group in groupby(rows, key=lambda one: (one[0], tuple(one[1]))):
        if name not in names:
            raise Invalid(f"the backup has a table {name}, which this Fencepost does not know. Nothing was changed.")
        for batch in _batches(row for _, row in group):
            _add(tx, name, batch if tenant is None else [_numbered_anew(name, row) for row in batch])
    tables.settle()


def _numbered_anew(table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let a row that comes with its tenant get a number of this store; the audit's chain goes by the one it had."""
    number = NUMBERED.get(table)
    if number is None:
        return row
    kept = {name: value for name, value in row.items() if name != number}
    if table == "audit":
        kept["said_seq"] = None if row["place"] is None else row.get("said_seq") or row["seq"]
    return kept


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
