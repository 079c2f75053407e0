"""Cursors: where the next part of a listing begins, as text that means nothing to whoever sends it back."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from fencepost.model.errors import Invalid

LIMIT = 100
LIMIT_MAX = 1_000
CURSOR_MAX = 2_000
BIGGEST = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="how many at most")]
Cursor = Annotated[str, Query(max_length=CURSOR_MAX, description="`next` of the part before")]
T = TypeVar("T")


def page(rows: Sequence[T], limit: int, spell: Callable[[T], dict[str, object]], place: Callable[[T], object]) -> dict:  # type: ignore[type-arg]
    """Return one part of a listing; `rows` has one more than fits if there is another part."""
    kept = rows[:limit]
    more = len(rows) > limit
    return {"items": [spell(one) for one in kept], "next": spelled(place(kept[-1])) if more else None}


def pair(cursor: str) -> tuple[int, str] | None:
    """Read a cursor that is an instant and an id."""
    found = _read(cursor)
    if found is None:
        return None
    if isinstance(found, list) and len(found) == 2 and _is_number(found[0]) and _is_text(found[1]):  # noqa: PLR2004
        return found[0], found[1]
    raise _wrong()


def number(cursor: str) -> int | None:
    """Read a cursor that is a number."""
    found = _read(cursor)
    if found is None or _is_number(found):
        return found  # type: ignore[return-value]  # it was looked at
    raise _wrong()


def name(cursor: str) -> str:
    """Read a cursor that is a name."""
    found = _read(cursor)
    if found is None:
        return ""
    if _is_text(found):
        return str(found)
    raise _wrong()


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -BIGGEST <= value <= BIGGEST


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and value.isprintable()


def spelled(place: object) -> str:
    """Spell where the next part begins."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _read(cursor: str) -> object:
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError, binascii.Error):
        raise _wrong() from None


def _wrong() -> Invalid:
    return Invalid("the cursor is none of ours; send `next` of the part before, unchanged, or leave it out.")
