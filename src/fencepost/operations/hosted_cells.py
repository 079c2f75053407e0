"""What other machines may ask about the cells that are kept for them: read, swap, list."""

import os

from fencepost.model.cell import SIZE_MAX
from fencepost.model.errors import Busy, Invalid, Unknown
from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.stores.cells import SqlCells

CELLS_MAX = 10_000


class NoCell(Unknown):
    """There is no cell of that name: not an error, but an answer."""

    code = "no_cell"


class Moved(Busy):
    """Another document is there than the one that was expected; nothing was changed."""

    code = "moved"


class KeptCell(NamedTuple):
    """A cell as it is kept."""

    document: str
    tag: str


def read_cell(cells: "SqlCells", tenant: str, name: str) -> KeptCell:
    """Return a cell, or raise NoCell."""
    found = cells.cell(tenant, name)
    if found is None:
        raise NoCell(f"there is no cell {name}.")
    return KeptCell(*found)


def swap_cell(cells: "SqlCells", tenant: str, name: str, document: bytes | None, *, expected: str | None) -> str:
    """Put a document in the place of the expected one, or of none, or delete it; return its new tag, or raise Moved."""
    text = None if document is None else _text(document)
    tag = os.urandom(16).hex()
    if expected is not None:
        done = cells.swap_cell(tenant, name, text, expected=expected, tag=tag)
    elif text is None:
        raise Invalid("a cell is deleted with If-Match and its tag.")
    else:
        done = cells.make_cell(tenant, name, text, tag=tag, limit=CELLS_MAX)
    if not done:
        raise Moved(f"cell {name} is another one by now; read it again.")
    return tag


def list_cells(cells: "SqlCells", tenant: str, prefix: str) -> list[str]:
    """Return the names of a tenant's cells."""
    return cells.cell_names(tenant, prefix, limit=CELLS_MAX)


def _text(document: bytes) -> str:
    if len(document) > SIZE_MAX:
        raise Invalid(f"a cell has at most {SIZE_MAX} bytes, this one has {len(document)}.")
    try:
        text = document.decode()
    except UnicodeDecodeError:
        raise Invalid("a cell is JSON in UTF-8.") from None
    if not text.startswith("{") or "\0" in text:
        raise Invalid("a cell is a JSON object.")
    return text
