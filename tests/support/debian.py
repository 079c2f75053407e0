"""Programs of the system that tests want: found, or installed from Debian's packages where that may be done."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

QUIET = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # no questions, and no service is started
WAITING = ("-o", "DPkg::Lock::Timeout=300")  # for whoever else installs something on this machine
SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


def program(*names: str, packages: Sequence[str] = ()) -> str:
    """Find a program by one of its names, or install it; a machine that lets us do neither fails the test that wants it."""
    wanted = list(packages or names[:1])
    path = find(*names) or install(*names, packages=wanted)
    assert path, f"no {names[0]}: install it (Debian: apt-get install {' '.join(wanted)}), or run the tests as root"
    return path


def find(*names: str) -> str | None:
    """Return the path of the first of these programs that is there."""
    return next((path for name in names if (path := shutil.which(name, path=SEARCHED))), None)


def install(*names: str, packages: Sequence[str]) -> str | None:
    """Install packages as root; other pytest workers may want some too, and apt-get suffers only one at a time."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not find(*names):
            for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
                words = ["apt-get", *command, *WAITING]
                subprocess.run(words, check=True, capture_output=True, timeout=600, env={**os.environ, **QUIET})
    return find(*names)
