"""How Fencepost starts itself: the one place that knows the interpreter and its switches.

Every process of ours that another one starts, and every line of ours in the file of another program (a git hook, an
agent's settings, a service), begins with these words.
"""

from __future__ import annotations

import os
import sys

FIRST_LINE_MAX = 120  # Linux before 5.1 reads 127 bytes of it


def own_program(module: str = "fencepost") -> tuple[str, ...]:
    """Return the words that start one of our modules as a program.

    Without -P, `python -m` looks for modules in the working folder first: a `select.py` or `fencepost.py` that lies in
    an agent's project, or in a folder that other users may write, would run in our place. Not -I: it also hides the
    user's own site-packages and PYTHONPATH, and Fencepost may be installed there; both are the user's own word.
    """
    return (sys.executable, "-P", "-m", module)


def own_file(path: str) -> tuple[str, ...]:
    """Return the words that start one of our files on Python's own library alone: it finds our modules by its own place."""
    return (sys.executable, "-I", "-S", path)


def own_script() -> tuple[str, ...]:
    """Return the shortest words that start `fencepost` by its full path, for a line that a person reads."""
    beside = os.path.join(os.path.dirname(sys.executable), "fencepost")
    return (beside,) if _can_start(beside) else own_program()


def _can_start(script: str) -> bool:
    """Tell whether the kernel can follow a script's first line: it cuts the path of Python at a space, or when it is long.

    Agents take a hook that cannot start for a yes, so that this is not found out there.
    """
    return os.access(script, os.X_OK) and " " not in script and len(script) < FIRST_LINE_MAX


def own_executable() -> str:
    """Return the full path of the program `fencepost`, for those whose PATH may be another one; empty if there is none."""
    folder = own_folder()
    return os.path.join(folder, "fencepost") if folder else ""


def own_folder() -> str | None:
    """Return the folder of the program `fencepost` that this is, or that belongs to the Python that runs it."""
    for program in (sys.argv[0] if sys.argv else "", sys.executable):
        folder = os.path.dirname(os.path.abspath(program))
        if os.access(os.path.join(folder, "fencepost"), os.X_OK) and not os.path.isdir(
            os.path.join(folder, "fencepost")
        ):
            return folder
    return None
