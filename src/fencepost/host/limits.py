"""What the host lets one process have."""

import os
import resource
from typing import NamedTuple


def raise_descriptor_limit() -> int | None:
    """Take as many descriptors as this user may have, and return how many: a thousand guards are a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS names a limit that it does not grant
            hard = soft
    return None if hard == resource.RLIM_INFINITY else hard


class Room(NamedTuple):
    """What is left for further agents; None where nothing is said about it."""

    processes: int | None
    descriptors: int | None  # of each process, once it has taken all that it may


def room_left() -> Room:
    """Return how many processes this user may still start, by its own limit and its cgroup's, and how many descriptors one may have."""
    by_user, by_cgroup = _left_by_user(), _left_by_cgroup()
    known = [one for one in (by_user, by_cgroup) if one is not None]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Room(min(known) if known else None, None if hard == resource.RLIM_INFINITY else hard)


def _left_by_user() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY or os.geteuid() == 0:  # root is not counted
        return None
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return None
    return max(0, soft - sum(_threads(name) for name in names))


def _threads(pid: str) -> int:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return 0
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0  # it is gone, or another's


def _left_by_cgroup() -> int | None:
    """Return what is left in the tightest of our own cgroups, from ours up to the root."""
    try:
        with open("/proc/self/cgroup") as file:
            own = next(line[3:].strip() for line in file if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    left = None
    path = f"/sys/fs/cgroup{own}".rstrip("/")
    while path.startswith("/sys/fs/cgroup/"):
        here = _left_in(path)
        left = here if left is None else left if here is None else min(left, here)
        path = os.path.dirname(path)
    return left


def _left_in(path: str) -> int | None:
    try:
        with open(f"{path}/pids.max") as most, open(f"{path}/pids.current") as now:
            limit = most.read().strip()
            return None if limit == "max" else max(0, int(limit) - int(now.read()))
    except OSError:
        return None
