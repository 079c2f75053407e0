"""Who works in some folders with git: asked before a lock file there is taken for one that a dead process left behind."""

import os
from collections.abc import Iterable, Iterator

from fencepost.host import filesystem
from fencepost.host.identity import sees_every_process


def at_work(folders: Iterable[str], uid: int) -> list[str] | None:
    """Return the processes of a user that may hold a lock in these folders; None: this host cannot tell.

    A git counts if it was started there, is told to work there, or does not say. Any other program counts if it has a file open.
    """
    places = [os.path.realpath(folder) for folder in folders]
    if not _can_tell(places, uid):
        return None
    others = [pid for pid in _processes_of(uid) if pid != str(os.getpid())]
    inside = [pid for pid in others if _is_inside(pid, places)]
    sent_there = [pid for pid in others if pid not in inside and _is_git(pid) and _is_told_to(pid, places)]
    return [_name(pid) for pid in (*inside, *sent_there)]


def _can_tell(places: list[str], uid: int) -> bool:
    """Tell whether only processes that we see can write there: none of another machine, container or user."""
    kinds = [filesystem.kind_of(place) for place in places]
    local = all(kind is not None and not filesystem.is_network(kind) for kind in kinds)
    return local and sees_every_process() and os.geteuid() in (0, uid)


def _processes_of(uid: int) -> Iterator[str]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                yield pid
        except OSError:  # it ended meanwhile
            continue


def _is_inside(pid: str, places: list[str]) -> bool:
    """Tell whether a git was started there, or any program has a file open there; who only stands there has no lock."""
    here = _link(pid, "cwd")
    stands = any(here == place or here.startswith(f"{place}/") for place in places)
    return (stands and _is_git(pid)) or any(
        path.startswith(f"{place}/") for path in _open_files(pid) for place in places
    )


def _is_git(pid: str) -> bool:
    return "git" in _read(pid, "comm") or "git" in os.path.basename(_link(pid, "exe"))


def _is_told_to(pid: str, places: list[str]) -> bool:
    """Tell whether an argument or a variable of git's own names one of these places, from where the process stands."""
    variables = [word for word in _read(pid, "environ").split("\0") if word.startswith("GIT_")]
    words = [*_read(pid, "cmdline").split("\0"), *variables]
    here = _link(pid, "cwd")
    named = [
        os.path.realpath(os.path.join(here, text)) for word in words for text in (word, word.partition("=")[2]) if text
    ]
    return any(path == place or path.startswith(f"{place}/") for path in named for place in places)


def _open_files(pid: str) -> Iterator[str]:
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            yield _link(pid, f"fd/{number}")
    except OSError:  # it ended meanwhile
        return
    yield from (line.partition("/")[1] + line.partition("/")[2] for line in _read(pid, "maps").splitlines())


def _name(pid: str) -> str:
    words = _read(pid, "cmdline").replace("\0", " ").strip()
    return f"process {pid} ({words[:60] or _read(pid, 'comm').strip() or 'just ended'})"


def _link(pid: str, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def _read(pid: str, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
