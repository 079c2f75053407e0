"""Whether the store's clock was set: it moved otherwise than ours, by more than asking for it may explain."""

from typing import NamedTuple

JUMP_MIN_US = 5_000_000  # a clock that is slewed, or a slow answer, is no jump


class ClockReading(NamedTuple):
    """What the store's clock showed, between two looks at a clock of our own that cannot be set."""

    store_us: int
    before_ns: int
    after_ns: int


def jump_between(last: ClockReading, now: ClockReading) -> int:
    """Return by how many microseconds the store's clock was set ahead, or back if negative; 0: it was not."""
    moved_us = now.store_us - last.store_us
    least_us = (now.before_ns - last.after_ns) // 1000
    most_us = (now.after_ns - last.before_ns) // 1000
    if moved_us > most_us + JUMP_MIN_US:
        return moved_us - most_us
    if moved_us < least_us - JUMP_MIN_US:
        return moved_us - least_us
    return 0
