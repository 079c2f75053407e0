"""What is wrong with a file, all of it at once: where, what, why, and how to put it right."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.model.errors import Invalid

SHOWN_MAX = 100


class TextPlace(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """One thing that is wrong."""

    place: TextPlace
    message: str


class InvalidConfig(Invalid):
    """A configuration that cannot be used; nothing stored was changed."""

    code = "invalid_config"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        """Say everything that is wrong with the file, in its order."""
        self.path = path
        self.problems = tuple(sorted(problems))
        super().__init__(_text(path, self.problems))


def _text(path: str, problems: Sequence[Problem]) -> str:
    lines = [f"{path}:{place.line}:{place.column}: {message}" for place, message in problems]
    if len(lines) == 1:
        return lines[0]
    if len(lines) > SHOWN_MAX:
        lines = [*lines[:SHOWN_MAX], f"… and {len(lines) - SHOWN_MAX} more"]
    return "\n  ".join([f"{len(problems)} problems; nothing was changed:", *lines])
