"""Brings a run's branch into the base branch, without ever touching a working tree that was changed."""

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.host.git_command import Git, GitFailed
from fencepost.host.worktree import Repository, Worktree, is_busy
from fencepost.model.errors import Busy, FenceRefused

SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Merged:
    """Whether the base branch has it now, in words; and whether the main directory shows it."""

    done: bool
    words: str
    in_main: bool = False


Move = Callable[[str, str, str, str | None], None]  # a branch, from, to, and the working tree that shows it


def merge(repository: Repository, worktree: Worktree, tip: str, *, how: str, move: Move) -> Merged:
    """Move the base branch to a commit that holds the run's work; the caller holds the project's lease.

    `move` compares the fence in the act, and raises if a newer run was here before.
    """
    git, into = repository.git, worktree.into
    old = git.commit_of(f"refs/heads/{into}")
    if not into or old is None:
        return Merged(done=False, words=f"there is no branch {into or 'to merge into'} any more")
    if git.is_ancestor(tip, old):
        return Merged(done=True, words=f"{into} has it already")
    place = _checked_out(git, into)
    trouble = _trouble(repository, into, place)
    if trouble:
        return Merged(done=False, words=trouble)
    found = _target(git, worktree, old=old, tip=tip, how=how)
    return found if isinstance(found, Merged) else _moved(move, into, old=old, new=found, place=place)


def _target(git: Git, worktree: Worktree, *, old: str, tip: str, how: str) -> str | Merged:
    """Return the commit that the base branch shall be at, or why there is none."""
    if git.is_ancestor(old, tip):
        return tip
    if how == "ff":
        return Merged(done=False, words=f"{worktree.into} has moved on, so it cannot be moved forward")
    return _joined(git, worktree, old=old, tip=tip)


def _moved(move: Move, into: str, *, old: str, new: str, place: str | None) -> Merged:
    try:
        move(into, old, new, place)
    except Busy as error:
        return Merged(done=False, words=str(error).rstrip("."))
    except FenceRefused as error:
        return Merged(done=False, words=f"it came too late: {error}".rstrip("."))
    return Merged(done=True, words=f"{into} is at {new[:12]} now", in_main=place is not None)


def _trouble(repository: Repository, into: str, place: str | None) -> str:
    """Say why the base branch cannot be moved where it is checked out."""
    if place is None:
        return ""
    if place != repository.top:
        return f"{into} is checked out in {place}"
    git = Git(place)
    busy = is_busy(git.line("rev-parse", "--absolute-git-dir"))
    if busy:
        return f"git is in the middle of something in {place} ({busy})"
    changes = git.ask("status", "--porcelain", "--untracked-files=normal").splitlines()
    return f"{place} has changes that are not committed ({changes[0].strip()})" if changes else ""


def _joined(git: Git, worktree: Worktree, *, old: str, tip: str) -> str | Merged:
    """Return a commit that merges both, without any working tree; or which files are in conflict."""
    try:
        tree = git.line("merge-tree", "--write-tree", old, tip).splitlines()[0]
    except GitFailed as error:
        if error.status != 1:
            return Merged(done=False, words=f"git cannot merge without a working tree: {error}")
        return Merged(done=False, words=f"it is in conflict with {worktree.into}{_conflicts(git, old, tip)}")
    return git.line("commit-tree", tree, "-p", old, "-p", tip, "-m", f"Merge run {worktree.run}")


def _conflicts(git: Git, old: str, tip: str) -> str:
    names = git.ask("merge-tree", "--write-tree", "--name-only", "--no-messages", old, tip, accept=1).splitlines()[1:]
    return f" in {', '.join(names[:SHOWN_MAX])}" if names else ""


def _checked_out(git: Git, branch: str) -> str | None:
    """Return the working tree in which a branch is checked out."""
    path = ""
    for line in git.ask("worktree", "list", "--porcelain").splitlines():
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}":
            return path
    return None
