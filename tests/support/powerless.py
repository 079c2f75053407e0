"""Programs without privileges, also where the tests run as root: a user who may read only what is its own and open."""

import sys

# Root without capabilities is a user like any other, and unlike `nobody` it can read this program's own files.
_GIVE_UP = """
import ctypes, os, sys
if sys.platform == "linux" and os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        assert libc.prctl(24, capability, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"""


def powerless(*words: str) -> list[str]:
    """Return the command line that starts a program without privileges."""
    return [sys.executable, "-c", _GIVE_UP, *words]


def fencepost(*words: str) -> list[str]:
    """Return the command line that starts `fencepost` without privileges."""
    return powerless(sys.executable, "-m", "fencepost", *words)
