"""The gate of a branch: its marks are in a ref beside it, and both move in one atomic push or neither does."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fencepost.gates.git.clone import Clone
from fencepost.gates.git.command import SECONDS, GitRefused
from fencepost.gates.git.locks import YOUNG, Locks, speaks_of_a_lock
from fencepost.gates.git.probe import NO_ATOMIC, not_atomic, probe, reason
from fencepost.gates.git.refs import DEFAULT_BRANCH, NOTHING, branch_of, branch_ref, fence_ref, remote_of
from fencepost.gates.git.scratch import RemoteState, Scratch, scratch
from fencepost.gates.target_secrets import resolved
from fencepost.model.errors import Busy, GateUnreachable, Misconfigured
from fencepost.model.gate import Proof, check, raised
from fencepost.model.secret_rights import is_referred_place
from fencepost.model.target import Target
from fencepost.ports.gate import Fetch, GateStatus

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Witness

PROBE_SECONDS = 20.0
TRIES = 8


class Along(NamedTuple):
    """What goes with a gated push: other refs, as git spells a move, and options of git's own."""

    specs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    seconds: float = SECONDS
    hear: Callable[[str], None] | None = None  # what the server says


ALONE = Along()


class GitGate:
    """A branch of a remote. Every push moves the marks too, so that a raise in between refuses it."""

    def __init__(
        self, target: Target, *, clock: "Clock", fetch: Fetch, witness: "Witness | None" = None, remote: str = ""
    ) -> None:
        """Open it; `remote` is another way to the same repository, which a clone knows."""
        self._clock = clock
        self._branch = branch_of(target.option("branch", DEFAULT_BRANCH))
        self.remote = _canonical(remote_of(remote or resolved(target.where, fetch)))
        self._locks = Locks(self.remote, clock=clock, witness=witness)
        where = target.where if remote or is_referred_place(target.where) else self.remote
        self._target = Target("git", where, (("branch", self._branch),))

    @property
    def target(self) -> str:
        """Return `git:`, the remote and the branch."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, or raise FenceRefused; a push that was on its way finds them moved, and fails."""
        with scratch(self.remote, self.target) as place:
            for _ in range(TRIES):
                seen = place.see(self._branch)
                check(proof, seen.marks, target=self.target, adopt=adopt)
                lifted = raised(proof, seen.marks, at_us=self._clock.wall_us())
                if lifted == seen.marks:
                    return
                if self.moved(place, (fence_ref(self._branch), seen.fence, place.seal(lifted, parent=seen.fence))):
                    return
        raise GateUnreachable(f"{self.target}: other writers move its marks all the time.")

    def push(self, proof: Proof, revision: str = "HEAD", *, clone: str = ".", meanwhile: object = None) -> str:
        """Push a commit of a clone to the branch, forward only, and return it; raise FenceRefused if the fence is stale."""
        source = Clone(clone)
        commit = source.commit(revision)
        push_all([(self, commit)], proof, source, meanwhile=meanwhile)
        return commit

    def moves(self, place: Scratch, proof: Proof, commit: str) -> list[tuple[str, str, str]]:
        """Return how branch and marks have to move for a commit, none if it is there; raise if they must not."""
        seen = place.see(self._branch)
        self._demand_marks(seen)
        check(proof, seen.marks, target=self.target)
        if seen.head == commit:
            return []
        self._demand_forward(place, seen, commit)
        lifted = raised(proof, seen.marks, at_us=self._clock.wall_us())
        fence = place.seal(lifted, parent=seen.fence)
        return [(branch_ref(self._branch), seen.head, commit), (fence_ref(self._branch), seen.fence, fence)]

    def probe(self) -> None:
        """Raise Misconfigured unless the remote moves refs as a gate needs it; the refs that tell are its own, and go away."""
        with scratch(self.remote, self.target, seconds=PROBE_SECONDS) as place:
            seen = place.see(self._branch)
            self._unlock()
            probe(place, self.target)
            self.moved(
                place, (fence_ref(self._branch), seen.fence, place.seal(seen.marks, parent=seen.fence)), dry_run=True
            )

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a push would be refused now; it may be refused later all the same."""
        with scratch(self.remote, self.target) as place:
            check(proof, place.see(self._branch).marks, target=self.target)

    def status(self) -> GateStatus:
        """Return the marks of the branch."""
        with scratch(self.remote, self.target) as place:
            return GateStatus(self.target, place.see(self._branch).marks, ())

    def moved(self, place: Scratch, *moves: tuple[str, str, str], dry_run: bool = False, along: Along = ALONE) -> bool:
        """Push; False if the remote has moved since we looked, so that looking again tells why."""
        try:
            place.push(*moves, dry_run=dry_run, words=along.words, also=along.specs, hear=along.hear)
        except GitRefused as error:
            said = str(error)
            if NO_ATOMIC in said:
                raise not_atomic(self.target) from None
            if speaks_of_a_lock(said) and self._unlock():
                return False
            now = place.values(tuple(ref for ref, _, _ in moves))
            if any(old != now.get(ref, NOTHING) for ref, old, _ in moves):
                return False
            raise GateUnreachable(f"{self.target} refused the push: {reason(said)}") from None
        return True

    def _unlock(self) -> bool:
        """Clear what a dead git left behind; False: there is no lock to be seen. Raise for one that stays."""
        left = self._locks.cleared([branch_ref(self._branch), fence_ref(self._branch)])
        old = [one for one in left if one.why != YOUNG]
        if old:
            raise GateUnreachable(f"{self.target}: {old[0].words()}")
        return self._locks.are_near

    def _demand_marks(self, seen: RemoteState) -> None:
        """Refuse a branch whose marks are gone: a mirrored or pruned repository would let every old holder in again."""
        if seen.fence == NOTHING:
            raise Misconfigured(
                f"{self.target} has no marks: its fence was never raised, or {fence_ref(self._branch)} was deleted, as "
                f"git push --mirror does. Nothing was pushed. To close it for older runs and go on: "
                f"fencepost gate raise '{self.target}'"
            )

    def _demand_forward(self, place: Scratch, seen: RemoteState, commit: str) -> None:
        if seen.head != NOTHING and not place.is_ancestor(seen.head, commit):
            raise Misconfigured(
                f"{self.target} is at {seen.head[:12]}, which {commit[:12]} does not descend from; a gate only moves a "
                "branch forward. Fetch, rebase or merge, and push again. Nothing was pushed."
            )


def push_all(
    wanted: Sequence[tuple[GitGate, str]],
    proof: Proof,
    clone: Clone,
    *,
    along: Along = ALONE,
    meanwhile: object = None,
) -> None:
    """Move each branch forward to its commit, or raise FenceRefused and move nothing.

    A branch is expected where the remote has it now, and its commit must descend from there: what the clone's index or
    its remote-tracking branches say does not matter.
    """
    first = wanted[0][0]
    with scratch(first.remote, first.target, clone=clone, seconds=along.seconds) as place:
        for _ in range(TRIES):
            moves = [move for gate, commit in wanted for move in gate.moves(place, proof, commit)]
            if not moves and not along.specs:
                return
            if callable(meanwhile):
                meanwhile()
            if first.moved(place, *moves, along=along):
                return
    raise Busy(f"{first.target} moves all the time; nothing was pushed. Try again later.")


def _canonical(where: str) -> str:
    """Spell a path the one way; URLs and host:path stay as they are."""
    if "://" in where or ("/" not in where.partition(":")[0] and ":" in where):
        return where
    return os.path.realpath(os.path.expanduser(where))
