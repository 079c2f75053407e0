"""What a cron line says and people mostly do not mean: said where schedules are written, never where they run."""

from collections.abc import Iterable, Iterator

from fencepost.model.cron import FIELDS
from fencepost.model.cron_fields import DAY, HOUR, MINUTE, SECOND, WEEKDAY, CronField

ROUND = (SECOND, MINUTE, HOUR)  # fields that begin again after their last value
UNITS = {SECOND.name: "s", MINUTE.name: "m", HOUR.name: "h"}
FIXED = {"EST": "America/New_York", "MST": "America/Denver", "HST": "Pacific/Honolulu"}
OFFSETS = "Etc/GMT"


def cron_warnings(lines: str | Iterable[str], zone: str) -> Iterator[str]:
    """Yield what to say about cron lines in a zone; nothing where there is no line."""
    written = [line for line in ([lines] if isinstance(lines, str) else lines) if line]
    for line in written:
        fields = _fields(line)
        for field, text in fields.items():
            yield from _about_steps(field, text)
        yield from _about_days(fields.get(DAY, "*"), fields.get(WEEKDAY, "*"))
    yield from _about_zone(zone) if written else ()


def _fields(line: str) -> dict[CronField, str]:
    words = line.split()
    named = FIELDS if len(words) == len(FIELDS) else FIELDS[1:]
    return dict(zip(named, words, strict=False)) if len(words) == len(named) else {}


def _about_steps(field: CronField, text: str) -> Iterator[str]:
    """Name a step that does not divide its field: the last gap before it begins again is shorter."""
    for item in text.split(","):
        star, slash, step = item.partition("/")
        size = field.high - field.low + 1
        if field not in ROUND or star != "*" or not slash or not step.isdigit() or not 0 < int(step) <= size:
            continue
        if size % int(step):
            values = list(range(field.low, field.high + 1, int(step)))
            shown = ", ".join(map(str, values[:3])) + (" …" if len(values) > 3 else "")  # noqa: PLR2004  # enough to see it
            unit = UNITS[field.name]
            yield (
                f"{item} in the {field.name} field means {shown} and begins again: {step}{unit} apart, then "
                f'{size - values[-1]}{unit}. For a fixed distance write every = "{step}{unit}", align = "start".'
            )


def _about_days(day: str, weekday: str) -> Iterator[str]:
    if not day.startswith("*") and not weekday.startswith("*"):
        yield (
            f"day of month {day} and day of week {weekday}: cron fires on days that match either of them, not both. "
            "For both, name the days by one field, such as 1#1 for the first Monday."
        )


def _about_zone(zone: str) -> Iterator[str]:
    if zone in FIXED:
        yield f"{zone} is a fixed offset that knows no daylight saving time; for a place write {FIXED[zone]}, say."
    elif zone.startswith(OFFSETS) and zone.removeprefix(OFFSETS).strip("+-0"):
        sign = "behind" if "+" in zone else "ahead of"
        hours = zone.removeprefix(OFFSETS)[1:]
        yield f"{zone} is {hours} hours {sign} UTC, by the sign's old meaning, all year; for a place write its zone."
