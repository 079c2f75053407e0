"""What is mounted where, as Linux tells it."""

from __future__ import annotations

from fencepost.model.fast_typing import NamedTuple


class Mount(NamedTuple):
    """One line of mountinfo: the part `root` of a file system of this kind is seen at `point`."""

    root: str
    point: str
    kind: str


def mounts() -> list[Mount]:
    """Return every mount, oldest first, or nothing where the host has no such list."""
    try:
        with open("/proc/self/mountinfo", "rb") as table:
            text = table.read().decode(errors="surrogateescape")
    except OSError:
        return []
    return [parse(line) for line in text.splitlines() if " - " in line]


def parse(line: str) -> Mount:
    """Read one line; the number of fields before the dash varies."""
    before, _, after = line.partition(" - ")
    fields = before.split(" ")
    return Mount(_plain(fields[3]), _plain(fields[4]), after.split(" ", 1)[0])


def _plain(field: str) -> str:
    """Undo the kernel's octal escapes of blank, tab, newline and backslash."""
    first, *escaped = field.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in escaped)
