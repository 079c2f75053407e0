"""How instants, spans and reasons are told to people; the same through every door."""

import re
from datetime import datetime

from fencepost.model.duration import format_duration
from fencepost.model.instants import FOREVER_US, format_instant, from_us
from fencepost.model.run_page import fate as fate  # noqa: PLC0414  # the words of every door
from fencepost.model.run_page import why_so as why_so  # noqa: PLC0414  # likewise
from fencepost.model.zone import Zone

SECOND_US = 1_000_000
MINUTE, HOUR, DAY = 60, 3600, 86_400
SHOWN_MAX = 200
COLOUR = re.compile("\033\\[[0-9;:]*m")  # what programs colour their output with; it says nothing


def rfc3339(us: int | None) -> str | None:
    """Spell a kept instant as RFC 3339 in UTC, to the second; one that never comes, or is not known, is nothing."""
    return None if us is None or us >= FOREVER_US else format_instant(from_us(us).replace(microsecond=0))


def span(us: int) -> str:
    """Say how long something takes, as finely as it matters: 850ms, 12s, 3m12s, 4h5m, 3d4h."""
    seconds = abs(us) / SECOND_US
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < HOUR:
        return format_duration(int(seconds))
    if seconds < DAY:
        return format_duration(int(seconds) // MINUTE * MINUTE)
    return format_duration(int(seconds) // HOUR * HOUR)


def ago(us: int, now_us: int) -> str:
    """Say how far an instant is from now."""
    if abs(now_us - us) < SECOND_US:
        return "just now"
    return f"{span(now_us - us)} ago" if us < now_us else f"in {span(us - now_us)}"


def wall(us: int, zone: Zone | None) -> str:
    """Spell an instant as the wall of its zone shows it, with the instant in UTC."""
    utc = rfc3339(us)
    if zone is None or zone.name == "UTC" or utc is None:
        return str(utc)
    return f"{local(from_us(us), zone)} {zone.name} ({utc})"


def local(at: datetime, zone: Zone) -> str:
    """Spell an instant as its zone's wall clock shows it."""
    return slot_words(zone.local(at).replace(tzinfo=None))


def slot_words(slot: datetime) -> str:
    """Spell a wall time with its weekday; seconds only where there are any."""
    return f"{slot:%a %Y-%m-%d} {clock(slot)}"


def clock(slot: datetime) -> str:
    """Spell a time of day; seconds only where there are any."""
    return f"{slot:%H:%M:%S}".removesuffix(":00")


def waited(since_us: int, now_us: int) -> str:
    """Say how long something has waited, or in how long it begins to."""
    return f"for {span(now_us - since_us)}" if since_us <= now_us else f"in {span(since_us - now_us)}"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Say how many."""
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or f'{noun}s'}"


def kept_words(kept_for_us: int) -> str:
    """Say for how long records are kept."""
    return f"records are kept for {format_duration(kept_for_us // SECOND_US)}"


def plain(text: str) -> str:
    """Show text of unknown origin on one line, without letting it steer a terminal."""
    shown = "".join(one if one.isprintable() else "�" for one in COLOUR.sub("", text))
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"


def readable(text: str) -> str:
    """Show text of unknown origin on its own lines, without letting it steer a terminal, a page or the eye."""
    lines = COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(one if one.isprintable() or one in "\n\t" else "�" for one in lines)


def gate_words(last_log: str) -> str:
    """Return what a run that was not started says about the gate in its way, whole: it may hold a command to copy."""
    return readable((last_log.strip().splitlines() or [""])[-1]).removeprefix("fencepost: ")


def last_line(text: str | None) -> str:
    """Return the last line of a log that says anything."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return plain(lines[-1].strip()) if lines else ""
