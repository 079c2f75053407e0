"""Durations as people write them: 300ms, 3s, 10m, 4h, 2d, and sums such as 1h30m.

`exec` reads durations from crontab lines, so this imports nothing but the errors.
"""

from __future__ import annotations

from fencepost.model.errors import Invalid

UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}  # in milliseconds, largest first
LONG_NAMES = {
    "w": "d (7d is a week)", "week": "d (7d is a week)", "weeks": "d (7d is a week)",
    "day": "d", "days": "d",
    "hour": "h", "hours": "h", "hr": "h", "hrs": "h",
    "minute": "m", "minutes": "m", "min": "m", "mins": "m",
    "second": "s", "seconds": "s", "sec": "s", "secs": "s",
    "millisecond": "ms", "milliseconds": "ms", "msec": "ms", "msecs": "ms",
}  # fmt: skip
DIGITS = "0123456789"
DIGITS_MAX = 15
LONGEST_MS = 36_500 * UNITS["d"]
SHOWN_MAX = 40


def parse_duration(text: str) -> float:
    """Return the seconds that a duration means."""
    rest = text.strip(" \t")
    if not rest:
        raise _refused(text, "it is empty")
    total, units = 0, list(UNITS)
    while rest:
        number, rest = _take(rest, DIGITS + ".")
        unit, rest = _take(rest, DIGITS + ".", until=True)
        total += _milliseconds(text, number, _unit(text, unit, units))
    if total > LONGEST_MS:
        raise _refused(text, "it is longer than 100 years (36500d)")
    return total / 1000


def format_duration(seconds: float) -> str:
    """Return the shortest spelling, to the millisecond: 90.5 is 1m30s500ms."""
    rest = round(abs(seconds) * 1000)
    parts = ["-" if seconds < 0 and rest else ""]
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _take(text: str, characters: str, *, until: bool = False) -> tuple[str, str]:
    end = 0
    while end < len(text) and (text[end] in characters) is not until:
        end += 1
    return text[:end], text[end:]


def _unit(text: str, unit: str, left: list[str]) -> str:
    """Return a unit that is smaller than the ones before it, and take it and the larger ones off the list."""
    if unit not in UNITS:
        raise _refused(text, _no_unit(text, unit))
    if unit not in left:
        raise _refused(text, f"{unit!r} is out of order: the largest unit comes first, each once, as in 1h30m")
    del left[: left.index(unit) + 1]
    return unit


def _no_unit(text: str, unit: str) -> str:
    if not unit:
        return f"it has no unit; did you mean '{_shown(text.strip())}s'?"
    meant = LONG_NAMES.get(unit.strip(" \t").lower()) or (unit.lower() if unit.lower() in UNITS else "")
    return f"{_shown(unit)!r} is no unit" + (f"; did you mean {meant}?" if meant else "")


def _milliseconds(text: str, number: str, unit: str) -> int:
    whole, dot, fraction = number.partition(".")
    if not whole or (dot and not fraction) or "." in fraction or len(number) > DIGITS_MAX:
        raise _refused(text, f"{_shown(number)!r} is no number" if number else f"no number stands before {unit!r}")
    value, remainder = divmod(int(whole + fraction) * UNITS[unit], int("1" + "0" * len(fraction)))
    if remainder:
        raise _refused(text, f"{number}{unit} is finer than a millisecond")
    return value


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"


def _refused(text: str, reason: str) -> Invalid:
    end = "" if reason.endswith("?") else "."
    return Invalid(
        f"{_shown(text)!r} is no duration: {reason}{end} Write a number and a unit: 300ms 3s 10m 4h 2d or 1h30m."
    )
