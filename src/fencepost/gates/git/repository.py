"""The gate of a repository on this machine: branches move into which runs that work apart are merged.

Its marks are a blob behind one ref. A move is one transaction of git's own: the marks are what they were when the fence was
compared, and the branch is where it was. So a merge that was frozen after its last look fails once a successor has raised
the marks, whether that one merges anything or not. Raising also finishes what a move has left undone in the working tree.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from fencepost.gates.git.command import GitRefused, git
from fencepost.gates.git.locks import YOUNG, Locks, speaks_of_a_lock
from fencepost.gates.git.pending import Checkout, clear, finish, note, pending_in
from fencepost.gates.git.refs import NOTHING
from fencepost.gates.mark_text import decode, encode
from fencepost.model.errors import Busy, GateUnreachable, Misconfigured
from fencepost.model.gate import Mark, Proof, check, raised
from fencepost.model.target import Target
from fencepost.ports.gate import GateStatus

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Witness

MARKS = "refs/fencepost-repository/marks"
TRIES = 40  # runs that start at the same time raise it at the same time
PATIENT = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.filesRefLockTimeout",
    "GIT_CONFIG_VALUE_0": "2000",
}


class BranchMove(NamedTuple):
    """A branch that shall go from one commit to another, and the working tree that shows it, if one does."""

    branch: str
    old: str
    new: str
    place: str | None = None


class RepositoryGate:
    """The branches of one repository, by the git directory that all its worktrees share."""

    def __init__(self, target: Target, *, clock: "Clock", machine: str, witness: "Witness | None" = None) -> None:
        self._clock = clock
        self._folder = os.path.realpath(target.where)
        self._locks = Locks(self._folder, clock=clock, witness=witness)
        self._elsewhere = target.option("machine", machine) != machine
        self._target = Target("repo", self._folder, (("machine", target.option("machine", machine)),))

    @property
    def target(self) -> str:
        """Return `repo:`, the git directory and the machine that it is on."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, or raise FenceRefused; then finish what an earlier move has left undone.

        A repository of another machine is another project: what its zombies merge there does not reach this one.
        """
        if self._elsewhere:
            return
        for _ in range(TRIES):
            seen, marks = self._see()
            check(proof, marks, target=self.target, adopt=adopt)
            lifted = raised(proof, marks, at_us=self._clock.wall_us())
            if lifted == marks or self._changed(f"update {MARKS} {self._kept(lifted)} {seen}"):
                self._finish()
                return
        raise GateUnreachable(f"{self.target}: other writers move its marks all the time.")

    def move(self, proofs: Sequence[Proof], wanted: BranchMove) -> None:
        """Move a branch if every fence is still good, and show it in its working tree; else raise, and nothing is changed."""
        self._finish()
        if wanted.place is not None:
            self._try(wanted, wanted.place)
        for _ in range(TRIES):
            seen, marks = self._see()
            for proof in proofs:
                check(proof, marks, target=self.target)
            if wanted.place is not None:
                note(self._folder, Checkout(wanted.branch, wanted.old, wanted.new, wanted.place))
            verify = f"verify {MARKS} {seen}"
            if self._changed(verify, f"update refs/heads/{wanted.branch} {wanted.new} {wanted.old}"):
                if wanted.place is not None:
                    self._show(wanted)
                return
            if self._branch(wanted.branch) != wanted.old:
                clear(self._folder)
                raise Busy(f"{wanted.branch} was moved meanwhile.")
        clear(self._folder)
        raise Busy(f"the marks of {self._folder} move all the time.")

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a move would be refused now; it may be refused later all the same."""
        if not self._elsewhere:
            check(proof, self._see()[1], target=self.target)

    def status(self) -> GateStatus:
        """Return the marks of the repository."""
        if self._elsewhere:
            return GateStatus(self.target, {}, ("it is on another machine",))
        left = pending_in(self._folder)
        warnings = (f"{left.place} does not show yet what {left.branch} was moved to",) if left else ()
        return GateStatus(self.target, self._see()[1], warnings)

    def _show(self, moved: BranchMove) -> None:
        """Let the working tree show the branch; if another change was quicker there, take the move back."""
        if finish(self._folder):
            return
        back = self._changed(f"update refs/heads/{moved.branch} {moved.old} {moved.new}")
        if back:
            clear(self._folder)
        told = "the branch was moved back" if back else "see: git status"
        raise Busy(f"{moved.place} was changed while {moved.branch} was moved; {told}.")

    def _try(self, wanted: BranchMove, place: str) -> None:
        """See whether the working tree could be changed, before anything is."""
        try:
            git("read-tree", "-n", "-m", "-u", wanted.old, wanted.new, folder=place)
        except GitRefused as error:
            raise Busy(f"{place} is in the way: {_first(error)}") from None

    def _finish(self) -> None:
        """Finish an earlier move; what it cannot do, a person sees in `git status` and in the doctor's words."""
        left = pending_in(self._folder)
        if left is None or finish(self._folder):
            return
        with suppress(GitRefused, OSError):
            words = ("rev-parse", "--path-format=absolute", "--git-path", "index.lock")
            index = git(*words, folder=left.place).strip()
            if os.path.exists(index) and not self._locks.cleared((), also=[index]):
                finish(self._folder)

    def _see(self) -> tuple[str, dict[str, Mark]]:
        seen = self._ask("for-each-ref", "--format=%(objectname)", MARKS).strip()
        if not seen:
            return NOTHING, {}
        try:
            return seen, decode(self._ask("cat-file", "blob", seen).encode())
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Misconfigured(
                f"{self.target}: the marks in {MARKS} cannot be read ({error}), so nothing is merged. If nothing of an "
                f"earlier run can be alive any more: git update-ref -d {MARKS}"
            ) from None

    def _kept(self, marks: dict[str, Mark]) -> str:
        return self._ask("hash-object", "-w", "--stdin", stdin=encode(marks)).strip()

    def _branch(self, name: str) -> str:
        return self._ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{name}").strip()

    def _changed(self, *steps: str) -> bool:
        """Carry a transaction out; False if something in it is not as expected."""
        text = "\n".join(["start", *steps, "prepare", "commit", ""])
        try:
            git("update-ref", "--stdin", folder=self._folder, stdin=text.encode(), env=PATIENT)
        except GitRefused as error:
            if "but expected" in str(error) or "reference already exists" in str(error):
                return False
            if speaks_of_a_lock(str(error)):
                self._unlock([step.split(" ")[1] for step in steps])
                return False
            raise GateUnreachable(f"{self.target}: {_first(error)}") from None
        return True

    def _unlock(self, refs: list[str]) -> None:
        """Clear what a dead git left behind; raise for a lock that stays."""
        old = [one for one in self._locks.cleared(refs) if one.why != YOUNG]
        if old:
            raise GateUnreachable(f"{self.target}: {old[0].words()}")

    def _ask(self, *words: str, stdin: bytes = b"") -> str:
        if not os.path.isdir(self._folder):
            raise GateUnreachable(f"{self.target}: {self._folder} is not there.")
        try:
            return git(*words, folder=self._folder, stdin=stdin)
        except GitRefused as error:
            raise GateUnreachable(f"{self.target}: {_first(error)}") from None


def _first(error: GitRefused) -> str:
    return (str(error).splitlines() or [""])[0]
