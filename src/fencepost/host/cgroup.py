"""A cgroup of the attempt's own, where the host allows one: nothing that the agent starts can leave it by forking.

Nothing here fails: a host without cgroup v2, or without the right to use it, gets None or False,
and the run's processes are found by their other traces.
"""

from __future__ import annotations

import os

from fencepost.host.mounts import mounts
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterable, Iterator

_PREFIX = "fencepost-"
_APART = "."  # stands between the run and the lease; in neither of them
_ID_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_ID_MAX = 128
_LINKS_ALONE = 2  # its own name, and that of itself


def plan(run_id: str, lease_id: str = "") -> str | None:
    """Return where the cgroup of a run would be, below our own; nothing is made yet. None where there can be none.

    With its lease's id each attempt has one of its own: a worker that wakes up late kills the cgroup of its own attempt,
    and never that of the next one.
    """
    parent = None if os.environ.get("FENCEPOST_CGROUP") == "off" else _own()
    path = f"{parent}/{_PREFIX}{run_id}{_APART}{lease_id}" if lease_id else f"{parent}/{_PREFIX}{run_id}"
    return path if parent is not None and _is_ours(path) and _may_move(parent) else None


def make(path: str) -> bool:
    """Make a planned cgroup; return False where that cannot be."""
    if not _is_ours(path):
        return False
    try:
        os.mkdir(path)
    except FileExistsError:  # made by an earlier attempt at the same run
        pass
    except OSError:
        return False
    if not _may_move(path):
        remove(path)
        return False
    return True


def enter(path: str) -> bool:
    """Move the calling process, and all that it starts from now on, into the run's cgroup."""
    return _write(path, "cgroup.procs", "0")


def adopt(path: str, members: Iterable[int]) -> None:
    """Move processes that run already into the run's cgroup; one that has ended meanwhile is let go."""
    for pid in members:
        _write(path, "cgroup.procs", str(pid))


def pids(path: str) -> list[int]:
    """Return the processes in the cgroup and in those below it."""
    return [pid for folder in _bottom_up(path) for pid in _procs(folder)]


def kill(path: str) -> bool:
    """Kill all of it at once, forks in flight included; False where the kernel cannot (before Linux 5.14)."""
    return _write(path, "cgroup.kill", "1")


def freeze(path: str) -> bool:
    """Let nothing in the cgroup run until it is thawed."""
    return _write(path, "cgroup.freeze", "1")


def thaw(path: str) -> bool:
    """Let a frozen cgroup go on."""
    return _write(path, "cgroup.freeze", "0")


def remove(path: str) -> bool:
    """Remove the cgroup and those the agent made below it; return False while something still runs there."""
    for folder in _bottom_up(path):
        try:
            os.rmdir(folder)
        except FileNotFoundError:  # another process was faster
            continue
        except OSError:
            return False
    return True


def is_run_id(text: str) -> bool:
    """Tell whether this can safely be part of a path."""
    return 0 < len(text) <= _ID_MAX and _ID_LETTERS.issuperset(text)


def belongs_to(path: str, run_id: str) -> bool:
    """Tell whether this path names the cgroup of this very run; what a store remembers is not taken on trust."""
    return _is_ours(path) and os.path.basename(path).partition(_APART)[0] == f"{_PREFIX}{run_id}"


def _own() -> str | None:
    """Return the folder of the cgroup that we are in."""
    ours = _own_name()
    if ours is None:
        return None
    for mount in mounts():
        root = mount.root.rstrip("/")
        if mount.kind == "cgroup2" and f"{ours}/".startswith(f"{root}/"):
            return f"{mount.point}{ours.removeprefix(root)}".rstrip("/")
    return None


def _own_name() -> str | None:
    """Return our cgroup's name in the v2 hierarchy, or None when it lies outside of what we can see."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    name = next((line[3:] for line in lines if line.startswith("0::")), None)
    return None if name is None or name.startswith("/..") else name


def _may_move(folder: str) -> bool:
    """Tell whether processes may come and go: the kernel wants the files of both ends to be writable."""
    return os.access(f"{folder}/cgroup.procs", os.W_OK)


def _bottom_up(path: str) -> Iterator[str]:
    """Yield the cgroup and all below it, children first."""
    if not _is_ours(path):
        return
    if _has_none_below(path):
        yield path
        return
    for folder, _, _ in os.walk(path, topdown=False):
        yield folder


def _has_none_below(path: str) -> bool:
    """Tell whether a cgroup has no other ones in it, as nearly all; each of them would be a link more."""
    try:
        return os.stat(path).st_nlink == _LINKS_ALONE
    except OSError:
        return False


def _procs(folder: str) -> list[int]:
    try:
        with open(f"{folder}/cgroup.procs", encoding="utf-8") as file:
            found = [int(line) for line in file]
    except OSError:  # removed meanwhile, or a threaded cgroup, whose processes its parent lists
        return []
    return [pid for pid in found if pid > 0]  # 0 stands for a process outside of our pid namespace


def _write(path: str, name: str, text: str) -> bool:
    if not _is_ours(path):
        return False
    try:
        descriptor = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_ours(path: str) -> bool:
    """Keep every act of this module inside folders that it named itself."""
    run, apart, lease = os.path.basename(path).partition(_APART)
    return run.startswith(_PREFIX) and is_run_id(run.removeprefix(_PREFIX)) and (not apart or is_run_id(lease))
