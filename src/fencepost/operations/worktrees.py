"""What may be asked about worktrees: which there are, whose they are, and which may go."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fencepost.gates.git.pending import pending_in
from fencepost.host.git_command import Git, GitFailed
from fencepost.host.project_identity import resolve
from fencepost.host.worktree import Repository, Worktree, open_repository, starting_point, worktrees_of
from fencepost.model.errors import FencepostError, Invalid, Misconfigured
from fencepost.model.project import Project
from fencepost.model.run import RunState
from fencepost.operations.run_queries import Store

Declared = Mapping[str, Mapping[str, Any]]


class Found(NamedTuple):
    """A worktree of a run, and what is known about both."""

    project: Project
    repository: Repository
    worktree: Worktree
    run_state: str  # nothing: this store does not know the run
    in_use: str  # why it must be left alone, or nothing
    commits: int  # on its branch that the base has not
    changes: int  # files that are not committed

    @property
    def standing(self) -> str:
        """Say in a word how it is with it."""
        if self.in_use:
            return "in use"
        return "unfinished" if self.worktree.half_made or self.worktree.unfinished else "left"

    @property
    def where(self) -> str:
        """Return where a person can look at it; its maker may have been killed before it had a folder."""
        return self.worktree.path or self.worktree.admin


class Cleaned(NamedTuple):
    """What became of a leftover."""

    found: Found
    done: bool
    words: str


def check_projects(declared: Declared, base: str) -> list[tuple[str, str]]:
    """Return what to warn about; raise Invalid if a project that is here cannot have the worktrees that it asks for."""
    warnings = []
    for name, values in declared.items():
        try:
            project = resolve(name, values, base)
        except Misconfigured as error:
            why = str(error).removeprefix(f"project {name}: ")
            warnings.append((name, f"{why} A worker elsewhere must have it."))
            continue
        if project.isolated:
            try:
                starting_point(project, open_repository(project.path))
            except Misconfigured as error:
                raise Invalid(f"projects.{name}: {error} Nothing was changed.") from None
    return warnings


def list_worktrees(store: Store, tenant: str, declared: Declared, base: str) -> list[Found]:
    """Return the worktrees of every project that is here."""
    found: list[Found] = []
    for project, repository in _repositories(declared, base):
        found += [_found(store, tenant, project, repository, one) for one in worktrees_of(repository)]
    return found


def unshown_merges(declared: Declared, base: str) -> Iterator[str]:
    """Say which working trees do not show yet what their branch was moved to: a merge was cut off in the middle."""
    for _, repository in _repositories(declared, base):
        left = pending_in(repository.common)
        if left is not None:
            yield f"{left.place} does not show yet what {left.branch} was moved to"


def clean(
    store: Store,
    tenant: str,
    found: Iterable[Found],
    put_away: Callable[[Repository, Worktree, tuple[str, ...]], str | None],
) -> Iterator[Cleaned]:
    """Save and remove what crashed runs left; what would be lost, or is in use, stays."""
    for one in found:
        now = _found(store, tenant, one.project, one.repository, one.worktree)
        if now.in_use:
            yield Cleaned(now, done=False, words=now.in_use)
            continue
        try:
            branch = put_away(one.repository, one.worktree, one.project.discard)
        except (FencepostError, OSError) as error:
            yield Cleaned(now, done=False, words=str(error))
        else:
            yield Cleaned(now, done=True, words=f"saved on branch {branch}" if branch else "nothing was in it")


def _repositories(declared: Declared, base: str) -> Iterator[tuple[Project, Repository]]:
    """Yield each repository once, whatever project leads to it."""
    seen = set()
    for name, values in declared.items():
        try:
            project = resolve(name, values, base)
            repository = open_repository(project.path)
        except FencepostError:
            continue  # not here, or not git: then there are no worktrees of it either
        if repository.common not in seen:
            seen.add(repository.common)
            yield project, repository


def _found(store: Store, tenant: str, project: Project, repository: Repository, worktree: Worktree) -> Found:
    run = store.run(worktree.run, tenant=tenant)
    running = run is not None and run.state == RunState.RUNNING and (run.fence or 0) <= worktree.fence
    in_use = "its run is running" if running else ""
    commits, changes = _content(repository, worktree)
    return Found(project, repository, worktree, run.state if run else "", in_use, commits, changes)


def _content(repository: Repository, worktree: Worktree) -> tuple[int, int]:
    """Count what is in a worktree, writing nothing."""
    if worktree.half_made or worktree.unfinished or not os.path.isdir(worktree.path):
        return 0, 0
    try:
        commits = repository.git.line("rev-list", "--count", f"{worktree.base}..refs/heads/{worktree.branch}")
        changes = Git(worktree.path, git_dir=worktree.admin).ask("status", "--porcelain", "--untracked-files=all")
    except GitFailed:
        return 0, 0
    return int(commits), len(changes.splitlines())
