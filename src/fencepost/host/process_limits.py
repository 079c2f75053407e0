"""What the host lets one process have."""

import os
import resource
from typing import NamedTuple

PROCESSES, FILES = "Max processes", "Max open files"  # as the kernel of Linux calls them
CGROUPS = "/sys/fs/cgroup"
BOUNDS = {  # the most and what is used, by either version
    "pids": [("pids.max", "pids.current")],
    "memory": [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")],
}


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
    memory: int | None = None  # bytes


def room_left(pid: int | None = None) -> Room:
    """Return what this process, or one of this user, may still have, by its own limits, its cgroups' and the machine's.

    A service has other limits than the shell from which one looks at it.
    """
    process = f"/proc/{pid or 'self'}"
    limits = _limits(process) if pid else _own_limits()
    by_user = _left_by_user(limits.get(PROCESSES))
    return Room(
        _least(by_user, _left_in_cgroups(process, "pids")),
        limits.get(FILES),
        _least(_available(), _left_in_cgroups(process, "memory")),
    )


def _own_limits() -> dict[str, int]:
    """Return the limits of this process that are limits."""
    asked = {PROCESSES: resource.RLIMIT_NPROC, FILES: resource.RLIMIT_NOFILE}
    known = {name: resource.getrlimit(number) for name, number in asked.items()}
    bounds = {PROCESSES: known[PROCESSES][0], FILES: known[FILES][1]}
    return {name: bound for name, bound in bounds.items() if bound != resource.RLIM_INFINITY}


def _limits(process: str) -> dict[str, int]:
    """Return those of another process: of processes the soft one, of files the hard one, which every worker takes."""
    rows = [(line[:26].strip(), line[26:].split()) for line in _lines(f"{process}/limits")]
    known = {name: values[name == FILES] for name, values in rows if name in (PROCESSES, FILES)}
    return {name: int(bound) for name, bound in known.items() if bound.isdigit()}


def _left_by_user(limit: int | None) -> int | None:
    if limit is None or os.geteuid() == 0:  # root is not counted
        return None
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return None
    return max(0, limit - sum(_threads(name) for name in names))


def _threads(pid: str) -> int:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return 0
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0  # it is gone, or another's


def _available() -> int | None:
    """Return what the machine has left without swapping."""
    found = [line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def _left_in_cgroups(process: str, controller: str) -> int | None:
    """Return what is left in the tightest of a process's cgroups, from its own up to the root."""
    left = None
    for line in _lines(f"{process}/cgroup"):
        _, controllers, own = line.strip().split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{CGROUPS}/{controller}" if controllers else CGROUPS
        path = f"{root}{own}".rstrip("/")
        while path.startswith(f"{root}/"):
            here = _least(*(_left_in(path, *names) for names in BOUNDS[controller]))
            spare = _reclaimable(path) if controller == "memory" else 0
            left = _least(left, None if here is None else here + spare)
            path = os.path.dirname(path)
    return left


def _left_in(path: str, most: str, now: str) -> int | None:
    limit, used = "".join(_lines(f"{path}/{most}")).strip(), "".join(_lines(f"{path}/{now}")).strip()
    if not (limit.isdigit() and used.isdigit()):
        return None
    return max(0, int(limit) - int(used))


def _reclaimable(path: str) -> int:
    """Return how much of a cgroup's memory are copies of files that can be dropped."""
    return sum(int(line.split()[1]) for line in _lines(f"{path}/memory.stat") if line.startswith("inactive_file "))


def _least(*known: int | None) -> int | None:
    return min((one for one in known if one is not None), default=None)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []  # another kind of host, or the process is gone
