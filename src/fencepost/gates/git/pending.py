"""A branch that was moved, and a working tree that does not show it yet: written down before, finished after a crash."""

import json
import os
from contextlib import suppress
from typing import NamedTuple

from fencepost.gates.git.command import GitRefused, git

NOTE = "fencepost.merge.json"  # in the git directory that all worktrees share


class Checkout(NamedTuple):
    """What a working tree shall show: the difference between two commits of the branch that is checked out there."""

    branch: str
    old: str
    new: str
    place: str


def note(folder: str, wanted: Checkout) -> None:
    """Write it down, before the branch is moved."""
    path = os.path.join(folder, NOTE)
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(wanted._asdict(), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def pending_in(folder: str) -> Checkout | None:
    """Return what was written down and never finished."""
    try:
        with open(os.path.join(folder, NOTE), encoding="utf-8", errors="surrogateescape") as file:
            return Checkout(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def clear(folder: str) -> None:
    """Forget it."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, NOTE))


def finish(folder: str) -> bool:
    """Let the working tree show what the branch was moved to; False if it was changed, and nothing is touched.

    Doing it twice is the same as once: git leaves alone what is there already, and refuses what is neither old nor new.
    """
    left = pending_in(folder)
    if left is None:
        return True
    try:
        if _is_due(left):
            git("read-tree", "-m", "-u", left.old, left.new, folder=left.place)
    except (GitRefused, OSError):
        return False
    clear(folder)
    return True


def _is_due(left: Checkout) -> bool:
    """Tell whether the branch was moved, is still checked out there, and the index shows where it was before."""
    head = git("rev-parse", "--verify", "--quiet", "HEAD", folder=left.place).strip()
    checked_out = git("rev-parse", "--symbolic-full-name", "HEAD", folder=left.place).strip()
    if head != left.new or checked_out != f"refs/heads/{left.branch}":
        return False
    return git("write-tree", folder=left.place).strip() == _tree(left.old, left.place)


def _tree(commit: str, place: str) -> str:
    return git("rev-parse", f"{commit}^{{tree}}", folder=place).strip()
