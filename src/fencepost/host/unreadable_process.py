"""Keeps other processes of the same user from reading what this one has in its environment and its memory.

An agent that is handed no secret could else look one up in `/proc/<worker>/environ`. What we start is readable again, so
that the traces of a run are found. Nothing is hidden from root, and a hostile agent of the same user has other ways:
against that only another user helps.
"""

from __future__ import annotations

import os
import sys

from fencepost.host.libc import call

_PR_SET_DUMPABLE = 4
_CAP_SYS_PTRACE = 19


def become_unreadable() -> bool:
    """Close our /proc files to other processes of this user, and to those that we fork; False where that cannot be.

    Where /proc hides processes that one may not read (hidepid), workers and guards would no longer find each other, so
    that this is left alone.
    """
    if sys.platform != "linux" or hides_processes(_read("/proc/self/mountinfo")):
        return False
    return call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def reads_everything() -> bool:
    """Tell whether we, and so the agents that we start, may read all processes, as root does."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith(b"CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_PTRACE & 1)
    return os.geteuid() == 0


def hides_processes(mountinfo: bytes) -> bool:
    """Tell whether a list of mounts has a /proc that shows only what one may read."""
    for line in mountinfo.splitlines() if b"hidepid=" in mountinfo else ():
        before, _, after = line.partition(b" - ")
        at_proc = before.split(b" ")[4:5] == [b"/proc"]
        if at_proc and any(one.startswith(b"hidepid=") and one[8:] not in (b"0", b"off") for one in after.split(b",")):
            return True
    return False


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
