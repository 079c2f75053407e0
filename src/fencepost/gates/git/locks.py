"""Lock files that a git left behind when it was killed, in a repository on this machine.

Git never removes them: until a person does, no push is possible. One whose owner is surely dead is cleared; any other is told of.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from fencepost.gates.git.command import GitRefused, git
from fencepost.model.instants import format_instant, from_us

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Witness

SHARED = ("HEAD", "packed-refs", "shallow", "reftable/tables.list")
SETTLED_US = 2_000_000  # git holds a lock for a moment; a younger one is waited for
SHOWN_MAX = 3
YOUNG = "it is new"


class LeftLock(NamedTuple):
    """A lock file that stays, since when, and why it does."""

    path: str
    since_us: int
    why: str

    def words(self) -> str:
        """Say which file it is and what to do."""
        since = format_instant(from_us(self.since_us).replace(microsecond=0))
        return (
            f"git's lock {self.path} is there since {since}, so no push is possible; {self.why}. "
            f"When no git works in that repository any more: rm {self.path}"
        )


class Locks:
    """The lock files of one repository that is reached by its path; of one elsewhere there are none to see."""

    def __init__(self, remote: str, *, clock: "Clock", witness: "Witness | None") -> None:
        self._folder = _local(remote)
        self._clock = clock
        self._witness = witness

    @property
    def are_near(self) -> bool:
        """Tell whether the repository is on this machine, so that its locks can be seen."""
        return os.path.isdir(self._folder)

    def cleared(self, refs: Iterable[str], *, also: Iterable[str] = ()) -> list[LeftLock]:
        """Remove the locks on these refs, and other files, whose owner is dead; return those that stay.

        A lock that exists cannot be made anew, so that a process that is found at work after it was seen
        cannot be its owner. Two that clear take turns.
        """
        home = self._home()
        if not home:
            return []
        paths = [os.path.join(home, f"{name}.lock") for name in (*SHARED, *refs)]
        found = [path for path in (*paths, *also) if os.path.lexists(path)]
        if not found:
            return []
        with _turn(home) as is_mine:
            return [left for path in found if (left := self._clear(path, home, is_mine=is_mine)) is not None]

    def _clear(self, path: str, home: str, *, is_mine: bool) -> LeftLock | None:
        seen = _identity(path)
        if seen is None:
            return None
        since_us = seen.st_mtime_ns // 1000
        if 0 <= self._clock.wall_us() - since_us < SETTLED_US:
            return LeftLock(path, since_us, YOUNG)
        if not is_mine:
            return LeftLock(path, since_us, "another process looks into it just now")
        workers = self._witness.at_work(_places(home), seen.st_uid) if self._witness else None
        if workers is None:
            return LeftLock(path, since_us, "whether its owner is alive cannot be told from here")
        if workers:
            return LeftLock(path, since_us, f"its owner may be {', '.join(workers[:SHOWN_MAX])}")
        if _same(seen, _identity(path)):
            with suppress(FileNotFoundError):
                os.unlink(path)
        return None

    def _home(self) -> str:
        """Return the git directory, or nothing if there is none on this machine."""
        if not self.are_near:
            return ""
        try:
            words = ("rev-parse", "--path-format=absolute", "--git-common-dir")
            return os.path.realpath(git(*words, folder=self._folder).strip())
        except GitRefused:
            return ""


def speaks_of_a_lock(said: str) -> bool:
    """Tell whether git failed because of such a file."""
    return ".lock': File exists" in said


def _local(remote: str) -> str:
    """Return the path of a repository on this machine, or nothing."""
    if remote.startswith("file://"):
        return remote.removeprefix("file://localhost").removeprefix("file://")
    return remote if os.path.isabs(remote) else ""


def _places(home: str) -> list[str]:
    """Return the git directory and the working trees whose commands use it."""
    places = [home, *([os.path.dirname(home)] if os.path.basename(home) == ".git" else [])]
    trees = os.path.join(home, "worktrees")
    for name in os.listdir(trees) if os.path.isdir(trees) else ():
        with suppress(OSError), open(os.path.join(trees, name, "gitdir"), encoding="utf-8") as file:
            places.append(os.path.dirname(file.read().strip()))
    return places


def _identity(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    return other is not None and (one.st_ino, one.st_ctime_ns) == (other.st_ino, other.st_ctime_ns)


@contextmanager
def _turn(home: str) -> Iterator[bool]:
    """Take the turn to clear, if it is free: who waits for one that is frozen would not start either."""
    folder, is_mine = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = True
        yield is_mine
    finally:
        os.close(folder)
