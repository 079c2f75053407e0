"""Cursors: where the next part of a listing begins, as text that callers send back and do not read."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from fencepost.model.errors import Invalid

LIMIT = 100
LIMIT_MAX = 1_000
CURSOR_MAX = 2_000
BIGGEST = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="how many at most")]
Cursor = Annotated[str, Query(max_length=CURSOR_MAX, description="`next` of the part before")]
T = TypeVar("T")


def page(rows: Sequence[T], limit: int, spell: Callable[[T], object], place: Callable[[T], object]) -> dict:  # type: ignore[type-arg]
    """Return one part of a listing; `rows` has one more than fits if there is another part."""
    kept = rows[:limit]
    more = len(rows) > limit
    return {"items": [spell(one) for one in kept], "next": spelled(place(kept[-1])) if more else None}


def pair(cursor: str) -> tuple[int, str] | None:
    """Read a cursor that is an instant and an id."""
    return _parts(cursor, _is_number, _is_text)  # type: ignore[no-any-return]  # it was looked at


def numbers(cursor: str) -> tuple[int, int] | None:
    """Read a cursor that is an instant and a number."""
    return _parts(cursor, _is_number, _is_number)  # type: ignore[no-any-return]  # likewise


def names(cursor: str) -> tuple[int, str, str] | None:
    """Read a cursor that is an instant and two names."""
    return _parts(cursor, _is_number, _is_text, _is_text)  # type: ignore[no-any-return]  # likewise


def turn(cursor: str) -> tuple[int, int, int, str] | None:
    """Read a cursor that is a place in the line."""
    return _parts(cursor, _is_number, _is_number, _is_number, _is_text)  # type: ignore[no-any-return]  # likewise


def number(cursor: str) -> int | None:
    """Read a cursor that is a number."""
    found = _read(cursor)
    if found is None or _is_number(found):
        return found  # type: ignore[return-value]  # it was looked at
    raise wrong_cursor()


def name(cursor: str) -> str:
    """Read a cursor that is a name."""
    found = _read(cursor)
    if found is None:
        return ""
    if _is_text(found):
        return str(found)
    raise wrong_cursor()


def _parts(cursor: str, *kinds: Callable[[object], bool]) -> Any:  # noqa: ANN401  # a tuple of these kinds, or None
    found = _read(cursor)
    if found is None:
        return None
    if isinstance(found, list) and len(found) == len(kinds) and all(map(_holds, kinds, found)):
        return tuple(found)
    raise wrong_cursor()


def _holds(kind: Callable[[object], bool], value: object) -> bool:
    return kind(value)


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
        raise wrong_cursor() from None


def wrong_cursor() -> Invalid:
    """Return what is said about a cursor that we never gave."""
    return Invalid("the cursor is none of ours; send `next` of the part before, unchanged, or leave it out.")
