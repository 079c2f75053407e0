"""The calling process's own children, without a look at the whole process table."""

from __future__ import annotations

import os

from fencepost.host.proc_table import proc_is_ours, proc_is_usable


def can_list_children() -> bool:
    """Tell whether the kernel lists them under the numbers that we know them by."""
    return proc_is_usable() and proc_is_ours() and os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def own_children() -> list[int]:
    """Return the children of a process with one thread, the dead ones that it has not waited for included."""
    return children_of(os.getpid())


def children_of(pid: int) -> list[int]:
    """Return the children that the first thread of a process has; none if it is gone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []
