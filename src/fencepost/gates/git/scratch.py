"""A repository of the gate's own, for one operation: it knows the objects of the program's clone, and none of its settings."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.gates.git.command import SECONDS, GitRefused, git
from fencepost.gates.git.refs import MARKS, NOTHING, branch_ref, fence_ref
from fencepost.gates.mark_text import decode, encode
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.model.fast_typing import NamedTuple
from fencepost.model.gate import Mark

if TYPE_CHECKING:
    from fencepost.gates.git.clone import Clone

READS_MAX = 8
AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in {"NAME": "fencepost", "EMAIL": "fencepost@localhost"}.items()
}


class RemoteState(NamedTuple):
    """What a remote has: the branch, the commit of its marks, and the marks."""

    head: str
    fence: str
    marks: dict[str, Mark]


class Scratch:
    """A bare repository that lives as long as one operation."""

    def __init__(self, folder: str, remote: str, target: str, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._remote = remote
        self._target = target
        self._seconds = seconds

    def see(self, branch: str) -> RemoteState:
        """Read what the remote has now; again if it changed while we read."""
        for _ in range(READS_MAX):
            seen = self._look(branch)
            if seen is not None:
                return seen
        raise GateUnreachable(f"{self._target}: its marks change faster than they can be read.")

    def _look(self, branch: str) -> RemoteState | None:
        refs = self.values((branch_ref(branch), fence_ref(branch)))
        fence = refs.get(fence_ref(branch), NOTHING)
        marks = self._marks(branch, fence)
        return None if marks is None else RemoteState(refs.get(branch_ref(branch), NOTHING), fence, marks)

    def values(self, refs: tuple[str, ...]) -> dict[str, str]:
        """Return where the remote has these refs now; those that it does not have are missing."""
        lines = self._reach("ls-remote", "--", self._remote, *refs).splitlines()
        return {name: value for value, _, name in (line.partition("\t") for line in lines) if name in refs}

    def seal(self, marks: dict[str, Mark], *, parent: str) -> str:
        """Return a new commit with these marks after the one before: never the same one twice, so that a push of it counts."""
        blob = git("hash-object", "-w", "--stdin", folder=self._folder, stdin=encode(marks)).strip()
        tree = git("mktree", folder=self._folder, stdin=f"100644 blob {blob}\t{MARKS}\n".encode()).strip()
        parents = ["-p", parent] if parent != NOTHING else []
        message = f"fence {os.urandom(8).hex()}\n"
        words = ("commit-tree", tree, *parents)
        return git(*words, folder=self._folder, stdin=message.encode(), env=AUTHOR).strip()

    def push(
        self,
        *moves: tuple[str, str, str],
        dry_run: bool = False,
        words: tuple[str, ...] = (),
        also: tuple[str, ...] = (),
        hear: Callable[[str], None] | None = None,
    ) -> None:
        """Move refs from the value that was expected to a new one, or to none, all or nothing; raise Failed if one has moved.

        `also` are moves as git spells them, which expect nothing but what git always does.
        """
        leases = [f"--force-with-lease={ref}:{'' if old == NOTHING else old}" for ref, old, _ in moves]
        specs = [f"{new}:{ref}" for ref, _, new in moves]
        dry = ["--dry-run"] if dry_run else []
        git(
            *("push", "--atomic", "--porcelain", *dry, *words, *leases, "--", self._remote, *specs, *also),
            folder=self._folder,
            seconds=self._seconds,
            hear=hear,
        )

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tell whether a commit that we have descends from another one."""
        try:
            git("merge-base", "--is-ancestor", old, new, folder=self._folder)
        except GitRefused:
            return False
        return True

    def _marks(self, branch: str, fence: str) -> dict[str, Mark] | None:
        if fence == NOTHING:
            return {}
        self._reach("fetch", "--quiet", "--no-tags", "--depth=1", "--", self._remote, fence_ref(branch))
        try:
            return decode(git("cat-file", "blob", f"{fence}:{MARKS}", folder=self._folder).encode())
        except GitRefused:
            return None  # they have moved on since we asked where they are
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Misconfigured(
                f"{self._target}: the marks in {fence_ref(branch)} cannot be read ({error}), so no writer passes. Look at "
                f"them with git log {fence_ref(branch)}, and put the last good ones back."
            ) from None

    def _reach(self, *words: str) -> str:
        try:
            return git(*words, folder=self._folder, seconds=self._seconds)
        except GitRefused as error:
            last = (str(error).splitlines() or [""])[0]
            raise GateUnreachable(f"{self._target} cannot be reached: {last}") from None


@contextmanager
def scratch(remote: str, target: str, *, clone: "Clone | None" = None, seconds: float = SECONDS) -> Iterator[Scratch]:
    """Make one, with the objects of a clone within reach."""
    with tempfile.TemporaryDirectory(prefix="fencepost-git-") as folder:
        git("init", "--quiet", "--bare", "--template=", folder, folder="/")
        if clone is not None:
            clone.lend(folder)
        yield Scratch(folder, remote, target, seconds)
