"""What a new tzdata does to a schedule's cursor: slots that were jumped over, and slots that come a second time.

The cursor is an instant, and everything up to it is decided. With the wall time that it stood for, written down by the
release of that day, a later release can tell which local slots the old one has seen.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from fencepost.model.disposition import Window
from fencepost.model.instants import from_wall, to_instant
from fencepost.model.missed import INSTANT
from fencepost.model.zone import Zone

REACH = timedelta(hours=48)  # local time is never further off than this
SECOND = timedelta(seconds=1)
PARTS = 3


class Noted(NamedTuple):
    """What the wall showed at a cursor, by which tzdata."""

    cursor_us: int
    tzdata: str
    wall: datetime

    def __str__(self) -> str:
        return f"{self.cursor_us} {self.tzdata} {self.wall.isoformat()}"

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Read a note back, if there is one."""
        parts = (text or "").split(" ")
        if len(parts) != PARTS:
            return None
        return cls(int(parts[0]), parts[1], datetime.fromisoformat(parts[2]))


@dataclass(frozen=True, slots=True)
class Shift:
    """Where to go on from, and the stretch behind it whose slots, as they lie now, were never looked at."""

    cursor: datetime
    lost: Window | None = None


def shifted(zone: Zone, cursor: datetime, *, wall_was: datetime) -> Shift:
    """Compare what the wall showed at the cursor with what it shows by this zone.

    If it is later now, the slots in between were never looked at. If it is earlier, those in between were: they come
    again after the cursor, and it moves past them.
    """
    wall_is = zone.local(cursor).replace(tzinfo=None)
    if wall_is == wall_was:
        return Shift(cursor)
    seen = from_wall(wall_was.replace(microsecond=0))
    if wall_is > wall_was:
        before = [to_instant(at) for at in zone.instants_of(seen) if to_instant(at) <= cursor]
        first = before[-1] + SECOND if before else to_instant(zone.first_from(seen))
        return Shift(cursor, Window(max(first, cursor - REACH), cursor + INSTANT))
    after = [to_instant(at) for at in zone.instants_of(seen) if to_instant(at) >= cursor]
    again_until = after[0] if after else to_instant(zone.first_from(seen))
    return Shift(min(max(cursor, again_until), cursor + REACH))
