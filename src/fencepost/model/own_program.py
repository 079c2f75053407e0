"""How Fencepost starts itself: the one place that knows the interpreter and its switches.

Every process of ours that another one starts, and every line of ours in the file of another program (a git hook, an
agent's settings, a service), begins with these words.
"""

from __future__ import annotations

import os
import sys


def own_program(module: str = "fencepost") -> tuple[str, ...]:
    """Return the words that start one of our modules as a program.

    Without -P, `python -m` looks for modules in the working folder first: a `select.py` or `fencepost.py` that lies in
    an agent's project, or in a folder that other users may write, would run in our place. Not -I: it also hides the
    user's own site-packages and PYTHONPATH, and Fencepost may be installed there; both are the user's own word.
    """
    return (sys.executable, "-P", "-m", module)


def own_script() -> tuple[str, ...]:
    """Return the shortest words that start `fencepost` by its full path, for a line that a person reads."""
    beside = os.path.join(os.path.dirname(sys.executable), "fencepost")
    return (beside,) if os.access(beside, os.X_OK) else own_program()
