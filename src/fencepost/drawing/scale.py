"""Scales and their axes: which place an instant or a number has, and where the labels stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from math import ceil, floor, log10
from typing import NamedTuple

from fencepost.model.instants import from_us

SECOND_US = 1_000_000
MINUTE, HOUR, DAY = 60, 3600, 86_400
STEPS = (
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 7 * DAY, 14 * DAY),
)
LETTER_PX, MARGIN_PX = 7.2, 5  # of a word at an axis: the widest letters on average; what may stand over the edge
MONDAY = 4 * DAY  # the first one after 1970, from which weeks are counted


class Label(NamedTuple):
    """A word at a place of an axis; a `strong` one begins a day."""

    place: float
    text: str
    strong: bool = False

    def fits(self, width_px: int) -> bool:
        """Tell whether the whole word, which stands right of its place, is seen in a picture so wide."""
        return self.place * width_px + LETTER_PX * len(self.text) <= width_px + MARGIN_PX


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Maps [from, until) to [0, 1)."""

    from_us: int
    until_us: int

    def __post_init__(self) -> None:
        assert self.from_us < self.until_us, "time runs to the right"

    @property
    def span_us(self) -> int:
        """How long it is."""
        return self.until_us - self.from_us

    def place(self, us: int) -> float:
        """Return where an instant lies; what is outside lies on the edge."""
        return min(1.0, max(0.0, (us - self.from_us) / self.span_us))

    def holds(self, us: int) -> bool:
        """Tell whether an instant is inside."""
        return self.from_us <= us < self.until_us

    def labels(self, most: int = 8) -> list[Label]:
        """Return round instants in UTC, at most so many."""
        step_us = next((one for one in STEPS if self.span_us <= one * SECOND_US * most), 30 * DAY) * SECOND_US
        offset_us = MONDAY * SECOND_US if step_us % (7 * DAY * SECOND_US) == 0 else 0
        first_us = -(-(self.from_us - offset_us) // step_us) * step_us + offset_us
        found = range(first_us, self.until_us, step_us)
        return [_label(self, us) for us in found]


def _label(scale: TimeScale, us: int) -> Label:
    at = from_us(us)
    midnight = us % (DAY * SECOND_US) == 0
    text = f"{at:%a} {at.day} {at:%b}" if midnight else f"{at:%H:%M}"
    return Label(scale.place(us), text, midnight)


def round_up(value: float) -> float:
    """Return the next number that is easy to read: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def steps_up_to(most: float, *, parts: int = 3, whole: bool = False) -> list[float]:
    """Return readable numbers from 0 to at least the largest value, the last one being the end of the axis."""
    step = round_up(most / parts)
    if whole:
        step = max(1.0, ceil(step))
    number = max(1, ceil(most / step - 1e-9))
    return [step * place for place in range(number + 1)]


def days(from_us: int, until_us: int, zone: tzinfo) -> Iterator[tuple[int, datetime]]:
    """Yield the beginning of each local day that touches [from, until), with its date; days are not all equally long."""
    day = from_us_local(from_us, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    start_us = round(day.timestamp() * SECOND_US)
    while start_us < until_us:
        yield start_us, day
        start_us, day = next_day(day)


def next_day(day: datetime) -> tuple[int, datetime]:
    """Return the beginning of the local day after one, with its date."""
    following = datetime.combine(day.date() + timedelta(days=1), datetime.min.time(), day.tzinfo)
    return round(following.timestamp() * SECOND_US), following


def from_us_local(us: int, zone: tzinfo) -> datetime:
    """Return an instant as a zone's wall shows it."""
    return from_us(us).astimezone(zone)
