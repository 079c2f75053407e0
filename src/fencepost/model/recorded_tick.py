"""What was written down about a tick."""

from typing import NamedTuple


class Recorded(NamedTuple):
    """A recorded tick, or a range of neighbours."""

    occurrence: str
    slot: str
    slot_until: str
    start_us: int
    end_us: int
    number: int
    disposition: str
    tzdata: str
