"""A bar on the terminal for work that takes longer than a second; scripts and pipes never see it."""

import sys
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self, TypeVar

from fencepost.cli.status_line import StatusLine
from fencepost.service.following import system_clock

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.2
WIDTH = 24
EIGHTHS = " ▏▎▍▌▋▊▉"
T = TypeVar("T")


class ProgressBar:
    """Says what is being done, how far it is if that is known, and for how long; only on a terminal, only after a second."""

    def __init__(self, what: str) -> None:
        """Say what is being done, such as: backing up."""
        self._what = what
        self._line = StatusLine()
        self._share: float | None = None
        self._words = ""
        self._quiet = False
        self._over = Event()
        self._clock = system_clock()
        self._began_ns = self._clock.awake_ns()
        shown = sys.stderr is not None and sys.stderr.isatty()
        self._thread = Thread(target=self._draw, name="progress", daemon=True) if shown else None

    def __enter__(self) -> Self:
        """Begin to count the time."""
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the bar away."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._line.clear()

    def to(self, done: float, of: float | None = None, words: str = "") -> None:
        """Say how far it is: so much of so much, or so much of an unknown whole."""
        self._share = None if not of else min(1.0, max(0.0, done / of))
        self._words = words or (f"{done:,.0f} of {of:,.0f}" if of else f"{done:,.0f}")

    def aside(self, ask: Callable[[], T]) -> T:
        """Keep quiet while a person is asked something."""
        self._quiet = True
        self._line.clear()
        try:
            return ask()
        finally:
            self._quiet = False

    def _draw(self) -> None:
        wait = AFTER_SECONDS
        while not self._over.wait(wait):
            wait = EVERY_SECONDS
            if self._quiet:
                continue
            seconds = (self._clock.awake_ns() - self._began_ns) / 1e9
            self._line.show(bar_text(self._what, self._share, self._words, seconds))


def bar_text(what: str, share: float | None, words: str, seconds: float) -> str:
    """Spell a bar: filled by its share, or with a piece that wanders where no share is known."""
    if share is None:
        at = int(seconds / EVERY_SECONDS) % (2 * (WIDTH - 4))
        place = min(at, 2 * (WIDTH - 4) - at)
        bar = f"{' ' * place}▰▰▰▰{' ' * (WIDTH - 4 - place)}"
        return f"{what} ▕{bar}▏ {f'{words}, ' if words else ''}{seconds:.0f}s"
    whole, rest = divmod(round(share * WIDTH * 8), 8)
    bar = ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(WIDTH)[:WIDTH]
    return f"{what} ▕{bar}▏ {share:4.0%} {words}, {seconds:.0f}s"
