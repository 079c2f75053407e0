"""The key that authorises a process of a run on the run's socket, by two names.

Programs that start others leave out variables whose names look secret: Gemini hands its MCP servers none with KEY, TOKEN,
SECRET, AUTH or the like in it. Under its second name the same key passes; the first is older, and stays.
"""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Mapping

NAMES = ("FENCEPOST_RUN_KEY", "FENCEPOST_RUN_PROOF")


def key_variables(key: str) -> dict[str, str]:
    """Return the variables that carry a run's key."""
    return dict.fromkeys(NAMES, key)


def key_in(environ: Mapping[str, str]) -> str:
    """Return the key of the run that this environment belongs to; empty if it names none."""
    for name in NAMES:
        if environ.get(name):
            return environ[name]
    return ""
