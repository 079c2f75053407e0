"""The one object that decides: the marks, and which object holds the data.

Conditions of S3 are about one key, and an ETag is a checksum of the content. So marks and the name of the data are one
object, and each edition of it is unlike all others: an ETag never comes back.
"""

import json
from typing import NamedTuple

from fencepost.gates.mark_text import decode, encode
from fencepost.model.errors import Misconfigured
from fencepost.model.gate import Mark


class Pointer(NamedTuple):
    """What stands under the key that readers know."""

    marks: dict[str, Mark]
    data: str = ""  # the key of the newest data; empty before the first write
    previous: str = ""  # of those before, which a reader may still be fetching
    stamp: str = ""  # makes each edition unique

    def text(self) -> bytes:
        """Write it down."""
        document = json.loads(encode(self.marks))
        rest = {"data": self.data, "previous": self.previous, "stamp": self.stamp}
        return json.dumps({**rest, **document}, indent=1).encode() + b"\n"


class FoundPointer(NamedTuple):
    """A pointer and the ETag under which it was found; None if there is none."""

    pointer: Pointer
    etag: str | None


NOTHING = FoundPointer(Pointer({}), None)


def parse(content: bytes, target: str) -> Pointer:
    """Read a pointer, or raise Misconfigured: an object that is none was put there by somebody else."""
    try:
        document = json.loads(content)
        texts = [document["data"], document["previous"], document["stamp"]]
        return Pointer(decode(content), *(_text(text) for text in texts))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Misconfigured(
            f"{target} holds something that is no pointer of this gate, so nobody passes. Name another key, or move that object away."
        ) from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
