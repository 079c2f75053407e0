"""The server's side: hooks that refuse a push that moves a gated branch without moving its marks, forward, with it.

A pre-receive hook looks before anything is changed, and its words reach the person who pushes. Between it and the change
another push may come; the reference-transaction hook looks again while the refs are locked, and has the last word.
"""

import os
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from fencepost.gates.git.command import GitRefused, git
from fencepost.gates.git.refs import FENCES, MARKS, fence_ref
from fencepost.gates.mark_text import decode
from fencepost.model.errors import FenceRefused, Misconfigured
from fencepost.model.gate import FENCE_MAX, FLOOR, Mark, is_made_up
from fencepost.model.own_program import own_program

HOOKS = ("pre-receive", "reference-transaction")
OURS = "# Written by fencepost gate git-hook"
HEADS = "refs/heads/"


class RefMove(NamedTuple):
    """One ref that is about to change; as old value git may say nothing."""

    old: str
    new: str
    ref: str


def judge(lines: Iterable[str], *, refs_are_locked: bool = False) -> None:
    """Raise FenceRefused if one of the moves, as git hands them to a hook, must not be made."""
    fields = [line.split(" ", 2) for line in lines if line.count(" ") >= 2]  # noqa: PLR2004  # old new ref
    moves = [RefMove(old, new, ref) for old, new, ref in fields if ref.startswith((FENCES, HEADS))]
    if refs_are_locked:
        moves = [move for move in moves if not _changes_nothing(move)]
    moved = {move.ref: move.new for move in moves}
    for move in moves:
        if move.ref.startswith(FENCES):
            _demand_risen(move)
        elif move.ref.startswith(HEADS):
            _demand_fence(move.ref.removeprefix(HEADS), moved)


def install(repository: str) -> list[str]:
    """Write both hooks of a bare repository, and return their paths; a hook of another program is left alone."""
    folder = git("rev-parse", "--path-format=absolute", "--git-path", "hooks", folder=repository, safe=False).strip()
    os.makedirs(folder, mode=0o755, exist_ok=True)
    paths = [os.path.join(folder, name) for name in HOOKS]
    for path in paths:
        if os.path.exists(path) and not _is_ours(path):
            name = os.path.basename(path)
            raise Misconfigured(
                f"{path} is there already, and not ours; let it run this first, with its standard input, and stop if "
                f'it fails: fencepost gate git-hook {name} "$@"'
            )
    for path in paths:
        _write(path, os.path.basename(path))
    return paths


def _changes_nothing(move: RefMove) -> bool:
    """Tell whether a move is git's own housekeeping: `pack-refs` and `gc` write a ref anew, elsewhere, and remove the old copy.

    A copy that is removed stays in the packed refs. Who deletes a ref for good takes it out there as well, and holds their
    lock while this is asked.
    """
    if move.new.strip("0"):
        return move.new == _current(move.ref)
    folder = _ask("rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    if not move.old.strip("0") or os.path.lexists(os.path.join(folder, "packed-refs.lock")):
        return False
    try:
        with open(os.path.join(folder, "packed-refs"), encoding="utf-8", errors="replace") as file:
            return f"{move.old} {move.ref}" in file.read().splitlines()
    except OSError:
        return False


def _demand_fence(branch: str, moved: dict[str, str]) -> None:
    if _current(fence_ref(branch)) and fence_ref(branch) not in moved:
        raise FenceRefused(
            f"{branch} is behind a gate, and this push shows no fence. Nothing was changed. "
            "Push with: fencepost gate git-push"
        )


def _demand_risen(move: RefMove) -> None:
    """Refuse marks that are gone, cannot be read, or went down; another store's were adopted by a person."""
    before, new = _current(move.ref), _marks(move.new, move.ref)
    if any(mark.fence > FENCE_MAX for mark in new.values()):
        raise FenceRefused(f"{move.ref} would hold a fence beyond {FENCE_MAX}, which is none. Nothing was changed.")
    old = _marks(before, move.ref) if before else {}
    for key, mark in old.items():
        now = new.get(key) or new.get(FLOOR)
        if now is None or _is_lower(now, mark):
            raise FenceRefused(
                f"{move.ref} has seen fence {mark.fence} for {key.partition(' ')[2] or 'all others'}, and this push would "
                "take that back: a newer run has started. Nothing was changed; stop."
            )


def _is_lower(now: Mark, before: Mark) -> bool:
    if now.store and before.store and now.store != before.store:
        return False
    if is_made_up(before):
        return False  # a person puts it right: gate raise --adopt
    twin = now.fence == before.fence and now.run_id and before.run_id and now.run_id != before.run_id
    return now.fence < before.fence or bool(twin)


def _marks(commit: str, ref: str) -> dict[str, Mark]:
    try:
        return decode(_ask("cat-file", "blob", f"{commit}:{MARKS}").encode())
    except (GitRefused, ValueError, TypeError, KeyError, AttributeError):
        raise FenceRefused(f"{ref} would no longer hold marks that can be read. Nothing was changed.") from None


def _current(ref: str) -> str:
    return _ask("for-each-ref", "--format=%(objectname)", ref).strip()


def _ask(*words: str) -> str:
    """Ask git in the middle of a push: new objects are in quarantine, and only the hook's own variables show them."""
    own = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    return git(*words, folder=".", env=own)


def _is_ours(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return OURS in file.read()


def _write(path: str, name: str) -> None:
    program = " ".join(shlex.quote(word) for word in own_program())
    only = '[ "$1" = prepared ] || exit 0\n' if name == "reference-transaction" else ""
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o755)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\n{OURS}\n{only}exec {program} gate git-hook {name} "$@"\n')
    os.chmod(draft, 0o755)  # noqa: S103  # a hook is a program that git's users run
    os.replace(draft, path)
