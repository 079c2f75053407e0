"""How things look on a terminal: instants, ages, and tables that fit 80 columns."""

import os
import select
import sys

from fencepost.model.tame import tame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 80
PATIENCE_SECONDS = 0.2
LINE_MAX = 4000  # what a pipe that select calls writable takes without blocking


def tell(text: str) -> None:
    """Tell a person on stderr, but do not wait for one who has stopped reading: a lease may hang on it."""
    tell_raw(f"fencepost: {tame(text)}"[:LINE_MAX], end=b"\n")


def tell_raw(text: str, end: bytes = b"") -> None:
    """Write to stderr as it is, under the same condition."""
    if sys.stderr is None:
        return
    line = text.encode(errors="backslashreplace")[:LINE_MAX] + end
    try:
        if select.select([], [2], [], PATIENCE_SECONDS)[1]:
            os.write(2, line)
    except OSError:
        return  # nobody is there to be told


def table(head: "Sequence[str]", rows: "Sequence[Sequence[str]]", *, width: int = WIDTH) -> str:
    """Align columns; the last one gives way when the line is too long, then the widest behind the first."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    widths[-1] = max(len(head[-1]), min(widths[-1], width - sum(widths[:-1]) - 2 * (len(head) - 1)))
    over = sum(widths) + 2 * (len(head) - 1) - width
    if over > 0 and len(head) > 2:  # noqa: PLR2004  # there is one in between
        widest = max(range(1, len(head) - 1), key=widths.__getitem__)
        widths[widest] = max(len(head[widest]), widths[widest] - over)
    return "\n".join("  ".join(map(fit, row, widths)).rstrip() for row in [head, *rows])


def fit(text: str, width: int) -> str:
    """Pad a cell, or cut it with an ellipsis."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def plain(text: str) -> str:
    """Show text of unknown origin without letting it steer the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
