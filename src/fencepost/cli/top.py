"""`fencepost top`: what runs, waits, comes next and spends, kept current on a terminal."""

import argparse
import contextlib
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator

from fencepost.cli import options, ps, render
from fencepost.drawing.blocks import LETTERS, strip
from fencepost.model.budget import money
from fencepost.operations.overview import Glance, glance
from fencepost.operations.phrases import ago, rfc3339

EXAMPLES = """\
  fencepost top
  fencepost top --once                    one look, for a script or a mail
"""
COLOURS = {
    "succeeded": options.GREEN,
    "running": options.GREEN,
    "dead": options.RED,
    "lost": options.RED,
    "failed": options.YELLOW,
    "missed": options.YELLOW,
    "overlap": options.YELLOW,
    "budget": options.YELLOW,
}
ENTER, LEAVE, HOME, REST = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l", "\033[H", "\033[J"
ROWS_PIPED = 40


def main(argv: list[str]) -> int:
    """Show frame after frame until q is pressed; one frame where there is no keyboard."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        tenant = options.tenant_of(args)
        if args.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            for line in frame(glance(store, tenant, schedules=ROWS_PIPED), tenant, render.frame_width(), None):
                print(line)
            return 0
        with _screen():
            while True:
                columns, rows = shutil.get_terminal_size()
                seen = glance(store, tenant, schedules=max(1, rows))
                lines = frame(seen, tenant, columns, rows - 1)
                sys.stdout.write(HOME + "\033[K\n".join(lines) + "\033[K" + REST)
                sys.stdout.flush()
                if _key(args.every) in ("q", "Q", "\x03", "\x1b"):
                    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "top",
        "Show what runs, waits, comes next and spends, kept current. q leaves; in a pipe it looks once.",
        EXAMPLES,
    )
    made.add_argument("--once", action="store_true", help="one look, and end")
    made.add_argument("--every", type=options.positive, default=2, metavar="SECONDS", help="how often (default 2)")
    options.add_store(made)
    return made


def frame(seen: Glance, tenant: str, width: int, height: int | None) -> list[str]:
    """Compose a screen; what does not fit is left out from the bottom, the schedules last."""
    board = seen.board
    head = f"fencepost · {render.plain(tenant)} · {board.headline.text}"
    figures = (
        f"{board.health.running} running  {board.health.ready} waiting  {board.health.dead} dead  "
        f"{money(seen.spent_micro)} in 24h  {rfc3339(board.now_us)}"
    )
    lines = [options.paint(render.fit(head, width).rstrip(), "\033[1m"), render.fit(figures, width).rstrip(), ""]
    lines += _table(("RUNNING", "FOR", "TRY", "FENCE", "ON"), _running(seen), width, "Nothing runs.")
    lines += _table(("WAITING", "FOR", "POS", "BEHIND"), _waiting(seen), width, "Nothing waits.")
    lines += list(_schedules(seen, width))
    lines.append(_legend(seen, width, live=height is not None))
    if height is not None and len(lines) > height:
        lines = [*lines[: height - 1], options.paint("… more than fits; q leaves", options.FAINT)]
    return lines


def _running(seen: Glance) -> list[list[str]]:
    rows = (ps.running_row(one, seen.board.now_us) for one in seen.board.live.inside)
    return [[f"{what}  {run}", *rest] for run, what, *rest in rows]


def _waiting(seen: Glance) -> list[list[str]]:
    rows = (ps.waiting_row(one, seen.board.now_us) for one in seen.board.live.waiting)
    return [[f"{what}  {run}", *rest] for run, what, *rest in rows]


def _table(head: tuple[str, ...], rows: list[list[str]], width: int, none: str) -> list[str]:
    if not rows:
        return [options.paint(f"{head[0]}  {none}", options.FAINT), ""]
    lines = render.table(head, [[render.plain(cell) for cell in row] for row in rows], size=width).split("\n")
    return [options.paint(lines[0], options.FAINT), *lines[1:], ""]


def _schedules(seen: Glance, width: int) -> Iterator[str]:
    """Yield each schedule with its next tick, what it spent within a day, and a letter for each of its last ticks."""
    name_width = min(28, max((len(one.facts.name) for one in seen.lines), default=8))
    room = max(10, width - name_width - 24)
    yield options.paint(f"{'SCHEDULE':<{name_width}}  {'NEXT':<11}  {'SPENT':>7}  LAST TICKS", options.FAINT)
    for one in seen.lines:
        due = ago(one.facts.due_us, seen.board.now_us) if one.facts.due_us is not None else ""
        due = "paused" if one.facts.name in seen.board.held_back else due
        spent = money(one.spent_micro) if one.spent_micro else ""
        drawn = strip(one.kinds[-room:])
        letters = "".join(
            options.paint(letter, COLOURS.get(kind, "")) for letter, kind in zip(drawn.text, drawn.kinds, strict=True)
        )
        name = render.fit(render.plain(one.facts.name), name_width)
        yield f"{name}  {render.fit(due, 11)}  {spent:>7}  {letters}"
    if seen.more:
        yield options.paint(f"and {seen.more} more; all of them: fencepost schedule list", options.FAINT)


def _legend(seen: Glance, width: int, *, live: bool) -> str:
    used = {kind for one in seen.lines for kind in one.kinds}
    words = ["q leaves"] if live else []
    words += [f"{letter} {kind}" for kind, letter in LETTERS.items() if kind in used]
    return options.paint(render.fit("  ".join(words), width).rstrip(), options.FAINT)


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """Take the whole terminal for a while, and give it back as it was, whatever happens."""
    before = termios.tcgetattr(0)
    sys.stdout.write(ENTER)
    tty.setcbreak(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _key(seconds: float) -> str:
    """Wait for a key, or for the next look."""
    ready, _, _ = select.select([0], [], [], seconds)
    return os.read(0, 1).decode(errors="replace") if ready else ""
