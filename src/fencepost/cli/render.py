"""How things look: tables and lines that fit a terminal, and are whole everywhere else."""

import os
import select
import sys

from fencepost.model.terminal_text import tame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 80
UNBOUNDED = 1_000_000  # no line of ours is longer
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
        return  # there is no terminal


def width() -> int:
    """Return how long a line may be: as wide as the terminal, and never cut for a program or a file that reads it."""
    if sys.stdout is None or not sys.stdout.isatty():
        return UNBOUNDED
    import shutil

    return max(WIDTH, shutil.get_terminal_size().columns)


def frame_width() -> int:
    """Return how wide a picture is drawn: as wide as the terminal, and 80 columns where its width is not known."""
    return width() if sys.stdout is not None and sys.stdout.isatty() else WIDTH


def room(least: int) -> int:
    """Return how wide a cell may be that has this much room on 80 columns."""
    return least + (width() - WIDTH) // 2


def table(head: "Sequence[str]", rows: "Sequence[Sequence[str]]", *, size: int | None = None) -> str:
    """Align columns; the last one gives way when the line is too long, then the widest behind the first."""
    size = width() if size is None else size
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    widths[-1] = max(len(head[-1]), min(widths[-1], size - sum(widths[:-1]) - 2 * (len(head) - 1)))
    over = sum(widths) + 2 * (len(head) - 1) - size
    if over > 0 and len(head) > 2:  # noqa: PLR2004  # there is one in between
        widest = max(range(1, len(head) - 1), key=widths.__getitem__)
        widths[widest] = max(len(head[widest]), widths[widest] - over)
    return "\n".join("  ".join(map(fit, row, widths)).rstrip() for row in [head, *rows])


def fit(text: str, size: int) -> str:
    """Pad a cell, or cut it with an ellipsis."""
    return cut(text, size).ljust(size)


def cut(text: str, size: int) -> str:
    """Cut a text that is too long, with an ellipsis."""
    return text if len(text) <= size else f"{text[: size - 1]}…"


def line(text: str) -> str:
    """Show text of unknown origin on one line that fits."""
    return cut(plain(text), width()).rstrip()


def plain(text: str) -> str:
    """Show text of unknown origin without letting it steer the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
