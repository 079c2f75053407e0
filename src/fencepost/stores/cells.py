"""The verbs about cells that are kept for other machines, once for both dialects."""

from fencepost.model.errors import QueueFull
from fencepost.stores.transaction import Dialect, Transaction


class SqlCells:
    """The documents of a tenant, each verb in one transaction."""

    def __init__(self, dialect: Dialect) -> None:
        """Speak to a store through its dialect."""
        self._dialect = dialect

    def cell(self, tenant: str, name: str) -> tuple[str, str] | None:
        """Return a document and its tag."""
        rows = self._dialect.read(lambda tx: tx.rows("cell", tenant=tenant, name=name))
        return (str(rows[0][0]), str(rows[0][1])) if rows else None

    def cell_names(self, tenant: str, prefix: str, *, limit: int) -> list[str]:
        """Return the names that begin like this."""
        rows = self._dialect.read(lambda tx: tx.rows("cell_names", tenant=tenant, prefix=prefix, limit=limit))
        return [str(name) for (name,) in rows]

    def make_cell(self, tenant: str, name: str, document: str, *, tag: str, limit: int) -> bool:
        """Put a document where there is none; False if there is one. Beyond `limit` it is QueueFull."""

        def make(tx: Transaction) -> bool:
            ((count,),) = tx.rows("count_cells", tenant=tenant)
            if count >= limit:
                raise QueueFull(f"tenant {tenant} has {count} cells, and no more are kept; delete some.")
            return bool(tx.rows("make_cell", tenant=tenant, name=name, tag=tag, document=document))

        return self._dialect.write(make)

    def swap_cell(self, tenant: str, name: str, document: str | None, *, expected: str, tag: str) -> bool:
        """Put a document in the place of the one with a tag, or delete that one; False if it is another one."""
        where = {"tenant": tenant, "name": name, "expected": expected}
        if document is None:
            return bool(self._dialect.write(lambda tx: tx.rows("drop_cell", **where)))
        return bool(self._dialect.write(lambda tx: tx.rows("swap_cell", **where, tag=tag, document=document)))
