"""What the web door asks of a store about the cells that it keeps for other machines."""

from typing import Protocol


class CellKeeper(Protocol):
    """Documents of a tenant, each verb in one transaction."""

    def cell(self, tenant: str, name: str) -> tuple[str, str] | None:
        """Return a document and its tag."""
        ...

    def cell_names(self, tenant: str, prefix: str, *, limit: int) -> list[str]:
        """Return the names that begin like this."""
        ...

    def make_cell(self, tenant: str, name: str, document: str, *, tag: str, limit: int) -> bool:
        """Put a document where there is none; False if there is one. Beyond `limit` it is QueueFull."""
        ...

    def swap_cell(self, tenant: str, name: str, document: str | None, *, expected: str, tag: str) -> bool:
        """Put a document in the place of the one with a tag, or delete that one; False if it is another one."""
        ...
