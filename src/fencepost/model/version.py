"""Versions of other programs, as they tell them: numbers with dots, somewhere in a line."""

import re

Version = tuple[int, ...]

_VERSION = re.compile(r"(?<![0-9.])([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})")


def version_in(text: object) -> Version | None:
    """Return the first version in a text, such as `codex-cli 0.166.0`; None if there is none."""
    found = _VERSION.search(text) if isinstance(text, str) else None
    return tuple(int(part) for part in found[1].split(".")) if found else None


def show_version(version: Version) -> str:
    """Write a version as people do."""
    return ".".join(str(part) for part in version)
