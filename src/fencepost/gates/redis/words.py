"""Marks as a hash of Redis keeps them, and the script that compares them."""

import json
import os
from functools import lru_cache

from fencepost.model.errors import Misconfigured
from fencepost.model.gate import Mark

PAYLOAD = "--PAYLOAD--"


def encode(mark: Mark | None) -> bytes:
    """Write one mark down; the same mark is always the same text, so that two can be compared. None is empty."""
    return b"" if mark is None else json.dumps([*mark], ensure_ascii=True, separators=(",", ":")).encode()


def decode(value: bytes, target: str) -> Mark:
    """Read one mark back, or raise Misconfigured: who cannot be compared does not pass."""
    try:
        mark = Mark(*json.loads(value))
    except (ValueError, TypeError):
        mark = None
    if mark is None or [type(field) for field in mark] != [int, str, str, str, int] or encode(mark) != value:
        raise Misconfigured(
            f"{target} has a mark that cannot be read, so it lets nobody pass. Look at it with HGETALL; to start "
            "anew, delete that hash and raise the gate."
        )
    return mark


@lru_cache(maxsize=64)
def script(body: str) -> str:
    """Return the whole script for a payload."""
    with open(os.path.join(os.path.dirname(__file__), "pass.lua"), encoding="utf-8") as file:
        return file.read().replace(PAYLOAD, body)
