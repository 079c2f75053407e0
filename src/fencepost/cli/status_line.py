"""One line at the bottom of a terminal that is kept current while a person waits."""

from __future__ import annotations

import os

from fencepost.cli import render

CLEAR = "\r\033[K"


class StatusLine:
    """Shows a text in place, and makes room for what is said in between."""

    __slots__ = ("_shown",)

    def __init__(self) -> None:
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace what stands in the line; nothing takes it away. A text that is too long could not be replaced."""
        if not text:
            self.clear()
        elif text != self._shown:
            self._shown = text
            render.tell_raw(f"{CLEAR}{render.fit(render.plain(f'fencepost: {text}'), self._width()).rstrip()}")

    def say(self, text: str) -> None:
        """Say something that stays."""
        self.clear()
        render.tell(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = ""
            render.tell_raw(CLEAR)

    def _width(self) -> int:
        try:
            return max(20, os.get_terminal_size(2).columns - 1)
        except OSError:
            return render.WIDTH - 1
