"""Text that came from elsewhere, on its way to a terminal or a log."""

from __future__ import annotations


def tame(text: str) -> str:
    """Let nothing in a text steer a terminal, or begin a line as if we had said it.

    Keys, names and paths are chosen by others: an escape sequence in them could clear the screen, rename the window or
    hide what was said before.
    """
    if text.isprintable():
        return text
    shown = "".join(one if one.isprintable() or one in "\n\t" else "�" for one in text)
    first, *others = shown.split("\n")
    return "\n".join([first, *(line if line.startswith((" ", "\t")) else f"  {line}" for line in others)])
