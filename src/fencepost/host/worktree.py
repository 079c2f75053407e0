"""Git worktrees of runs: made, found again after a crash, and removed when nothing in them would be lost."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from glob import iglob
from hashlib import sha256

from fencepost.host.git_command import Git, GitFailed
from fencepost.model.errors import Misconfigured
from fencepost.model.project import Project

BRANCHES = "fencepost/"
NOTE = "fencepost.json"  # in the worktree's own part of the repository, where no agent's commit reaches it
MERGING = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a project."""

    top: str  # the main working tree
    common: str  # the git directory that all its worktrees share

    @property
    def git(self) -> Git:
        """Git, in the main working tree."""
        return Git(self.top)


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree of a run, as its note in the repository says."""

    path: str
    admin: str  # its own part of the repository
    run: str
    fence: int
    branch: str
    base: str  # the commit that it started from
    into: str  # the branch that it may be merged into; empty: none
    project: str
    copied: dict[str, str] = field(default_factory=dict)  # path -> what was in it
    saved: str = ""  # set when everything is saved there and the worktree is being removed
    unfinished: bool = False  # its files are being checked out, so that no agent was ever in it

    @property
    def half_made(self) -> bool:
        """Whether its maker did not even get to the point where it is noted what it is."""
        return not self.base

    @property
    def places(self) -> tuple[str, ...]:
        """Where it may be: a crash while it is moved leaves it in one place or the other."""
        if not self.path:
            return ()
        home = os.path.join(os.path.dirname(self.path), self.run)
        return tuple(dict.fromkeys((self.path, home, f"{home}-{self.fence}")))

    @property
    def git(self) -> Git:
        """Git on this worktree, whatever has become of the file `.git` in it."""
        return Git(self.path, git_dir=self.admin)

    def note(self) -> None:
        """Write down what this is, so that it can be found again."""
        kept = {name: value for name, value in asdict(self).items() if name != "admin"}
        draft = os.path.join(self.admin, f"{NOTE}.new")
        with open(draft, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, os.path.join(self.admin, NOTE))


def open_repository(path: str) -> Repository:
    """Find the repository of a directory, or say why a worktree of it cannot be made."""
    git = Git(path)
    if not git.says("rev-parse", "--git-dir"):
        complaint = _complaint(git)
        hint = "" if "not a git repository" in complaint else f" Git says: {complaint}"
        raise Misconfigured(
            f"{path} is not in a git repository, so it has no worktrees.{hint} "
            'Make one with git init, or set isolation = "none": runs then queue.'
        )
    if git.line("rev-parse", "--is-bare-repository") == "true":
        raise Misconfigured(
            f"{path} is a bare repository; a project is a working tree, so clone it and name the clone."
        )
    common = os.path.realpath(os.path.join(path, git.line("rev-parse", "--git-common-dir")))
    return Repository(os.path.realpath(git.line("rev-parse", "--show-toplevel")), common)


def starting_point(project: Project, repository: Repository) -> tuple[str, str]:
    """Return the commit that worktrees start from, and the branch that they may be merged into."""
    git, base = repository.git, project.worktree_base
    into = base
    if not base:
        try:
            into = git.line("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:
            raise Misconfigured(
                f"project {project.name}: HEAD of {project.path} is detached, so it does not say what worktrees start "
                'from; check a branch out, or set worktree_base = "main".'
            ) from None
    commit = git.commit_of(base or "HEAD")
    if commit is None:
        what = f"there is no branch or commit {base!r}" if base else "there is no commit yet"
        raise Misconfigured(f"project {project.name}: {what} in {project.path}; worktrees need one to start from.")
    is_branch = git.says("show-ref", "--verify", "--quiet", f"refs/heads/{into}")
    if project.merge != "keep" and not is_branch:
        raise Misconfigured(
            f'project {project.name}: merge = "{project.merge}" needs a branch, and worktree_base = {base!r} is none.'
        )
    return commit, into if is_branch else ""


def worktrees_folder(project: Project, repository: Repository) -> str:
    """Return where a project's worktrees are."""
    beside, name = os.path.split(repository.top)
    return project.worktrees_dir or os.path.join(beside, f".{name}.worktrees")


def add(project: Project, repository: Repository, *, run: str, fence: int) -> Worktree:
    """Make an empty worktree on the run's branch; the caller holds the repository's lease.

    Git knows it by run and fence. Its folder is named by the run alone, so that a resumed agent finds itself where it
    was: agent CLIs keep their conversations by directory.
    """
    commit, into = starting_point(project, repository)
    path = os.path.join(worktrees_folder(project, repository), run)
    draft = f"{path}-{fence}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    git, branch = repository.git, f"{BRANCHES}{run}"
    known = git.commit_of(f"refs/heads/{branch}")
    where = ["--force", draft, branch] if known else ["--no-track", "-b", branch, draft, commit]
    git.ask("worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", _why(run, fence), *where)
    admin = os.path.realpath(Git(draft).line("rev-parse", "--absolute-git-dir"))
    _rename(draft, path, admin)
    made = Worktree(path, admin, run, fence, branch, commit, into, project.name, unfinished=True)
    made.note()
    return made


def fill(worktree: Worktree, project: Project, repository: Repository) -> Worktree:
    """Check the files out, and copy those that git ignores and the project lists."""
    worktree.git.ask("reset", "--hard", "--quiet")
    copied = dict(_copy(project.copy, repository.top, worktree.path))
    filled = replace(worktree, copied=copied, unfinished=False)
    filled.note()
    return filled


def step_aside(worktree: Worktree) -> Worktree:
    """Make room for the run's next attempt where this one was, for there is something in it that git cannot keep."""
    aside = f"{worktree.path}-{worktree.fence}"
    if os.path.basename(worktree.path) != worktree.run:
        return worktree  # it is out of the way
    head = worktree.git.commit_of("HEAD")
    if head is not None:  # the branch is the next attempt's now
        worktree.git.ask("update-ref", "--no-deref", "HEAD", head)
    _rename(worktree.path, aside, worktree.admin)
    moved = replace(worktree, path=aside)
    moved.note()
    return moved


def worktrees_of(repository: Repository) -> list[Worktree]:
    """Return every worktree that was made for a run, oldest first, also one that was not finished."""
    folder = os.path.join(repository.common, "worktrees")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = (_read(os.path.join(folder, name)) or _half_made(os.path.join(folder, name)) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: one.fence)


def forget(worktree: Worktree, repository: Repository) -> None:
    """Delete a worktree in which nothing is left to lose; the caller holds the repository's lease."""
    _delete(worktree)
    if os.path.isdir(worktree.admin):
        # What git itself would do; it refuses to where a crash has left a part of its files only.
        shutil.rmtree(worktree.admin)
    with suppress(OSError):  # others are there
        os.rmdir(os.path.dirname(worktree.path))
    with suppress(OSError):
        os.rmdir(os.path.join(repository.common, "worktrees"))


def drop_branch(worktree: Worktree, repository: Repository) -> bool:
    """Delete the run's branch if everything on it is on another branch too."""
    git, ref = repository.git, f"refs/heads/{worktree.branch}"
    tip = git.commit_of(ref)
    if tip is None:
        return True
    if git.line("rev-list", "--max-count=1", tip, "--not", f"--exclude={worktree.branch}", "--branches"):
        return False
    git.ask("update-ref", "-d", ref, tip)
    return True


def is_busy(admin: str) -> str:
    """Return which operation of git is under way in a working tree, or nothing."""
    return next((name for name in MERGING if os.path.lexists(os.path.join(admin, name))), "")


def content_of(path: str) -> str:
    """Return a hash of a file's content; of a link, its target."""
    if os.path.islink(path):
        return f"link:{os.readlink(path)}"
    digest = sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def clear_out(folder: int) -> None:
    """Delete everything in a directory that is open, whatever its name leads to by now."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.name, dir_fd=folder)
        else:
            os.unlink(entry.name, dir_fd=folder)


def _delete(worktree: Worktree) -> None:
    """Delete a worktree's files, unless a later attempt of the run works there: then ours are gone already."""
    for path in worktree.places:
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if not _leads_to(folder, worktree.admin, unsaid=path == worktree.path):
                continue
            clear_out(folder)
        finally:
            os.close(folder)
        with suppress(OSError):  # another run's by now
            os.rmdir(path)


def _leads_to(folder: int, admin: str, *, unsaid: bool) -> bool:
    """Tell whether a directory is this worktree's, or `unsaid`: an agent may have deleted the file `.git` that says so."""
    try:
        found = os.open(".git", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return unsaid
    except OSError:
        return False
    with open(found, encoding="utf-8", errors="surrogateescape") as file:
        return os.path.realpath(file.read(8192).strip().removeprefix("gitdir: ")) == admin


def _rename(path: str, to: str, admin: str) -> None:
    """Move a worktree's folder, and let git know."""
    if os.path.lexists(to):
        raise GitFailed(f"{to} is in the way; look into it, then delete it.")
    os.rename(path, to)
    draft = os.path.join(admin, "gitdir.new")
    with open(draft, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{os.path.join(to, '.git')}\n")
    os.replace(draft, os.path.join(admin, "gitdir"))


def _read(admin: str) -> Worktree | None:
    try:
        with open(os.path.join(admin, NOTE), encoding="utf-8", errors="surrogateescape") as file:
            noted = Worktree(admin=os.path.realpath(admin), **json.load(file))
    except (OSError, ValueError, TypeError):
        return None
    return replace(noted, path=next((path for path in noted.places if _is_at(path, noted)), noted.path))


def _is_at(path: str, worktree: Worktree) -> bool:
    """Tell whether a worktree is here; who moved it may have been killed before that was written down."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _leads_to(folder, worktree.admin, unsaid=path == worktree.path)
    finally:
        os.close(folder)


def _half_made(admin: str) -> Worktree | None:
    """Return a worktree that its maker was killed over: no agent was ever in it, and it has no note."""
    run, dash, fence = os.path.basename(admin).rpartition("-")
    if not dash or not fence.isdigit() or not run.startswith("r"):
        return None
    try:
        with open(os.path.join(admin, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
            path = os.path.dirname(file.read(8192).strip())
    except OSError:
        path = ""
    if path and os.path.basename(path) not in (run, os.path.basename(admin)):
        return None  # another program's
    made = Worktree(path, os.path.realpath(admin), run, int(fence), f"{BRANCHES}{run}", "", "", "")
    return replace(made, path=next((one for one in made.places if _is_at(one, made)), path)) if path else made


def _copy(patterns: Iterable[str], top: str, target: str) -> Iterator[tuple[str, str]]:
    """Copy what the list names, and nothing from outside or to outside of the project."""
    names = {name for pattern in patterns for name in iglob(pattern, root_dir=top, recursive=True, include_hidden=True)}
    for name in sorted(_files(filter(_is_plain, names), top)):
        source, copy = os.path.join(top, name), os.path.join(target, name)
        if os.path.lexists(copy) or not _is_within(source, top) or not _is_within(os.path.dirname(copy), target):
            continue  # a tracked file, or a way out through a link
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy2(source, copy, follow_symlinks=False)
        yield name, content_of(copy)


def _is_plain(name: str) -> bool:
    """Tell whether a name goes straight down from the project's top, and not into git's own files."""
    return not os.path.isabs(name) and not {"..", ".git"}.intersection(name.split(os.sep))


def _files(names: Iterable[str], top: str) -> Iterator[str]:
    for name in names:
        path = os.path.join(top, name)
        if os.path.isdir(path) and not os.path.islink(path):
            for folder, below, files in os.walk(path):
                below[:] = [one for one in below if one != ".git"]
                yield from (os.path.relpath(os.path.join(folder, one), top) for one in files)
        elif os.path.lexists(path):
            yield name


def _is_within(path: str, top: str) -> bool:
    """Tell whether a path stays below a directory, whatever links are on the way."""
    real = os.path.realpath(path)
    return real == os.path.realpath(top) or real.startswith(os.path.realpath(top) + os.sep)


def _why(run: str, fence: int) -> str:
    return f"fencepost run {run}, fence {fence}"


def _complaint(git: Git) -> str:
    try:
        return git.line("rev-parse", "--git-dir")
    except GitFailed as error:
        return str(error)
