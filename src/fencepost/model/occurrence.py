"""What a tick is, also when clocks and zone tables change: zone, local slot and fold."""

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from json import dumps
from typing import Self

from fencepost.model.instants import format_instant, to_instant, to_wall
from fencepost.model.zoned_cron import Slot

KEY_FORM = "fencepost-tick-1"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The identity of a tick, and as attributes its UTC instant and what DST did to it.

    Two occurrences are equal if zone, slot and fold are, also when a new tzdata moved the instant.
    """

    zone: str
    slot: datetime  # naive, as the wall shows it
    fold: int
    tick_at: datetime = field(compare=False)  # for a missing slot, the instant at which its gap ends
    missing: bool = field(default=False, compare=False)  # skipped: the slot does not exist on that day
    twice: bool = field(default=False, compare=False)  # the wall shows this slot two times

    @classmethod
    def of(cls, zone: str, slot: Slot) -> Self:
        """Return the occurrence of a slot in a zone."""
        return cls(zone, to_wall(slot.wall), slot.fold, to_instant(slot.at), slot.missing, slot.twice)

    @property
    def key(self) -> str:
        """The identity as text, such as Europe/Berlin|2026-03-29T03:00:00|0."""
        return f"{self.zone}|{self.slot.isoformat()}|{self.fold}"


def every_key(predecessor: str | None) -> str:
    """Return the occurrence of an `every` tick: the run it follows, or the anchor."""
    return f"every:{predecessor}" if predecessor else "every:anchor"


def idempotency_key(tenant: str, schedule: str, version: int, tick_at: datetime) -> str:
    """Return the key that an agent hands on to the services that it calls, the same for every attempt at a tick.

    It is the SHA-256 of a JSON list, in ASCII and without blanks, so that no two ticks share an encoding.
    """
    parts = [KEY_FORM, tenant, schedule, version, format_instant(tick_at)]
    return sha256(dumps(parts, separators=(",", ":")).encode("ascii")).hexdigest()
