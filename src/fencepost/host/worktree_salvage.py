"""Saves what an agent left in its worktree on the run's branch, and says what could not be saved.

It never touches the worktree's own index or files: an index of our own is filled from what is there. So it works in the
middle of a merge, with a lock left behind, on a detached HEAD, and as often as it is asked.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Self

from fencepost.host.git_command import NO_COMMIT, Git, GitFailed
from fencepost.host.worktree import Worktree, content_of

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a worktree's content."""

    tip: str  # the commit that holds everything
    branch: str  # where it can be found
    changed: bool  # whether the run left anything
    left: tuple[str, ...] = ()  # why the worktree has to stay, in words


def save(worktree: Worktree, discard: tuple[str, ...]) -> Saved:
    """Put commits, changes and new files on the run's branch. Raises GitFailed when not even that works."""
    head = worktree.git.commit_of("HEAD")
    if head is None:
        raise GitFailed(f"{worktree.path} has no commit checked out any more.")
    with _Index(worktree) as index:
        nested = sorted(_repositories(worktree, discard))
        tree = index.content(head, nested)
        left = [f"{name or '.'} is a repository of its own" for name in nested]
        left += [f"{name} is ignored by git" for name in index.ignored(discard, nested)]
        tip = _committed(worktree, index, head=head, tree=tree)
    branch = _point(worktree, tip)
    return Saved(tip, branch, tip != worktree.base or branch != worktree.branch, tuple(left))


def is_saved(worktree: Worktree, commit: str, discard: tuple[str, ...], *, half_removed: bool = False) -> bool:
    """Tell whether a worktree holds nothing but what a commit holds; of one half removed, files may be missing."""
    if not os.path.isdir(worktree.path):
        return True
    with _Index(worktree) as index:
        nested = sorted(_repositories(worktree, discard, half_removed=half_removed))
        tree = index.content(commit, nested, keep_missing=half_removed)
        return not nested and tree == _tree(worktree.git, commit) and not list(index.ignored(discard, nested))


def words(left: tuple[str, ...]) -> str:
    """Say why a worktree stays."""
    more = f" and {len(left) - SHOWN_MAX} more" if len(left) > SHOWN_MAX else ""
    return ", ".join(left[:SHOWN_MAX]) + more


class _Index:
    """An index of our own, beside the worktree's."""

    def __init__(self, worktree: Worktree) -> None:
        self._worktree = worktree
        self._path = os.path.join(worktree.admin, "fencepost.index")
        self.git = Git(worktree.path, git_dir=worktree.admin, index=self._path)

    def __enter__(self) -> Self:
        self._clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def content(self, head: str, nested: list[str], *, keep_missing: bool = False) -> str:
        """Return the tree of what is there: changed, new and deleted files, but nothing that is ignored."""
        self.git.ask("read-tree", head)
        thinned = keep_missing or any(one.startswith("S") for one in self._worktree_entries())
        apart = [f":(exclude,literal){name}" for name in nested if name]
        self.git.ask("add", "--no-all" if thinned else "--all", "--", ".", *apart)
        return self.git.line("write-tree")

    def ignored(self, discard: tuple[str, ...], nested: list[str]) -> Iterator[str]:
        """Yield what git ignores and the settings do not give up; unchanged copies of the main tree's are nothing."""
        words = self.git.ask("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        for name in filter(None, words.split("\0")):
            if not is_discarded(name, discard) and name.rstrip("/") not in nested:
                yield from _own(self._worktree, name, discard)

    def staged_tree(self) -> str | None:
        """Return what the agent had staged, unless it was in the middle of a conflict."""
        copy = f"{self._path}.staged"
        try:
            shutil.copyfile(os.path.join(self._worktree.admin, "index"), copy)
            return Git(self._worktree.path, git_dir=self._worktree.admin, index=copy).line("write-tree")
        except (OSError, GitFailed):
            return None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(copy)

    def _worktree_entries(self) -> list[str]:
        """List the worktree's own index, where sparse checkouts mark what is not there on purpose."""
        try:
            return self._worktree.git.ask("ls-files", "-t").splitlines()
        except GitFailed:
            return []

    def _clear(self) -> None:
        for name in (self._path, f"{self._path}.lock", f"{self._path}.staged"):
            with suppress(FileNotFoundError):
                os.unlink(name)


def is_discarded(name: str, discard: tuple[str, ...]) -> bool:
    """Tell whether a path, or a folder on the way to it, may be thrown away."""
    path = name.rstrip("/")
    parts = path.split("/")
    return any(
        fnmatch(path, pattern.rstrip("/")) or any(fnmatch(part, pattern.rstrip("/")) for part in parts)
        for pattern in discard
    )


def _own(worktree: Worktree, name: str, discard: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below a name that are neither copies nor to be thrown away."""
    path = os.path.join(worktree.path, name)
    if os.path.islink(path.rstrip("/")) or not os.path.isdir(path):
        if worktree.copied.get(name) != content_of(path):
            yield name
        return
    for folder, below, files in os.walk(path):
        below[:] = sorted(one for one in below if not is_discarded(one, discard))
        for one in sorted(files):
            file = os.path.relpath(os.path.join(folder, one), worktree.path)
            if not is_discarded(file, discard) and worktree.copied.get(file) != content_of(os.path.join(folder, one)):
                yield file


def _repositories(worktree: Worktree, discard: tuple[str, ...], *, half_removed: bool = False) -> Iterator[str]:
    """Yield the folders that are repositories of their own: what is in those, no commit of ours can hold."""
    if not _is_ours(worktree) and not (half_removed and not os.path.lexists(os.path.join(worktree.path, ".git"))):
        yield ""
    for folder, below, files in os.walk(worktree.path):
        name = os.path.relpath(folder, worktree.path)
        if name != "." and ".git" in (*below, *files):
            below.clear()
            yield name
        below[:] = [one for one in below if one != ".git" and not is_discarded(one, discard)]


def _is_ours(worktree: Worktree) -> bool:
    """Tell whether the worktree still is one: an agent may have made a repository of its own in its place."""
    path = os.path.join(worktree.path, ".git")
    if not os.path.lexists(path):
        return True  # it was deleted; we do not need it
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return os.path.realpath(file.read(8192).strip().removeprefix("gitdir: ")) == worktree.admin
    except OSError:
        return False


def _committed(worktree: Worktree, index: _Index, *, head: str, tree: str) -> str:
    """Return a commit with this content: HEAD itself, or one on top of it; what was only staged comes in between."""
    git, parent = worktree.git, head
    staged = index.staged_tree()
    if staged is not None and staged not in (tree, _tree(git, head)):
        parent = git.line("commit-tree", staged, "-p", head, "-m", f"Staged by run {worktree.run}")
    if tree == _tree(git, parent):
        return parent
    message = f"Left by run {worktree.run}\n\nFencepost saved what was not committed when the run ended."
    return git.line("commit-tree", tree, "-p", parent, "-m", message)


def _point(worktree: Worktree, tip: str) -> str:
    """Let a branch lead to a commit: the run's own, or one beside it where that would drop what is on it."""
    git = worktree.git
    for branch in (worktree.branch, f"{worktree.branch}-{worktree.fence}", f"{worktree.branch}-{tip[:12]}"):
        old = git.commit_of(f"refs/heads/{branch}")
        if old == tip:
            return branch
        if old is None or git.is_ancestor(old, tip):
            git.ask("update-ref", "-m", "fencepost: saved", f"refs/heads/{branch}", tip, old or NO_COMMIT)
            return branch
    raise GitFailed(f"no branch of run {worktree.run} can take {tip}.")


def _tree(git: Git, commit: str) -> str:
    return git.line("rev-parse", f"{commit}^{{tree}}")
