"""Marks as text: one JSON document, the same in a file beside a target and in a repository."""

import json

from fencepost.model.gate import Mark

_FORMAT = 1


def encode(marks: dict[str, Mark]) -> bytes:
    """Write marks down."""
    document = {"format": _FORMAT, "marks": {key: mark._asdict() for key, mark in sorted(marks.items())}}
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(content: bytes) -> dict[str, Mark]:
    """Read marks back, or raise ValueError, TypeError, KeyError or AttributeError: the caller says where they were."""
    document = json.loads(content)
    if document["format"] != _FORMAT:
        raise ValueError("it was written by another release of Fencepost")
    return {key: _mark(fields) for key, fields in document["marks"].items()}


def _mark(fields: dict[str, object]) -> Mark:
    mark = Mark(**fields)  # type: ignore[arg-type]  # looked at in the next line
    if not all(type(value) is kind for value, kind in zip(mark, (int, str, str, str, int), strict=True)):
        raise ValueError("a mark has a field of the wrong type")
    return mark
