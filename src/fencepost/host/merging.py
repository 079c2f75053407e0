"""Brings a run's branch into the base branch, without ever touching a working tree that somebody has changed."""

from dataclasses import dataclass

from fencepost.host.git import NOBODY, Git, GitFailed
from fencepost.host.worktree import Repository, Worktree, is_busy
from fencepost.model.errors import FenceRefused

SHOWN_MAX = 5
MARKS = "refs/fencepost/fence/"


@dataclass(frozen=True, slots=True)
class Merged:
    """Whether the base branch has it now, in words; and whether the main directory shows it."""

    done: bool
    words: str
    in_main: bool = False


def merge(repository: Repository, worktree: Worktree, tip: str, *, how: str, fence: int) -> Merged:
    """Move the base branch to a commit that holds the run's work; whoever calls this holds the project's lease.

    Raises FenceRefused if somebody with a newer fence was here before.
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
    if git.is_ancestor(old, tip):
        new = tip
    elif how == "ff":
        return Merged(done=False, words=f"{into} has moved on, so it cannot be moved forward")
    else:
        found = _joined(git, worktree, old=old, tip=tip)
        if isinstance(found, Merged):
            return found
        new = found
    _move(git, into, old=old, new=new, fence=fence, place=place)
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


def _move(git: Git, into: str, *, old: str, new: str, fence: int, place: str | None) -> None:
    """Raise the mark and move the branch, each only from what it was when we looked."""
    mark = f"{MARKS}{into}"
    before = git.line("for-each-ref", "--format=%(objectname)", mark) or NOBODY
    seen = int(git.line("cat-file", "blob", before)) if before != NOBODY else 0
    if seen > fence:
        raise FenceRefused(f"{into} was merged into with fence {seen}, ours is {fence}.")
    after = git.ask("hash-object", "-w", "--stdin", data=f"{fence}\n").strip()
    steps = [f"update {mark} {after} {before}"]
    if place is None:
        steps.append(f"update refs/heads/{into} {new} {old}")
    git.ask("update-ref", "--stdin", data="\n".join(["start", *steps, "prepare", "commit", ""]))
    if place is not None:
        Git(place).ask("merge", "--ff-only", "--quiet", new)


def _checked_out(git: Git, branch: str) -> str | None:
    """Return the working tree in which a branch is checked out."""
    path = ""
    for line in git.ask("worktree", "list", "--porcelain").splitlines():
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}":
            return path
    return None
