"""Where a run works when it works apart: its worktree, from its making to what becomes of it in the end.

Everything happens under the run's lease: before each step that others would see, `check` raises if it is lost. Whatever
goes wrong, the worktree stays as it is, and is found by `fencepost worktree list` and by the next attempt.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace

from fencepost.flow.leaser import Undertaker
from fencepost.gates.git.repository import BranchMove, RepositoryGate
from fencepost.host.branch_merge import Merged, merge
from fencepost.host.filesystem import little_room
from fencepost.host.git_command import GitFailed
from fencepost.host.host_turn import turn
from fencepost.host.project_identity import folder_key, merge_gate
from fencepost.host.worktree import (
    Repository,
    Worktree,
    add,
    drop_branch,
    fill,
    forget,
    open_repository,
    step_aside,
    worktrees_folder,
    worktrees_of,
)
from fencepost.host.worktree_salvage import Saved, is_saved, save, words
from fencepost.model.errors import (
    Busy,
    FencepostError,
    FenceRefused,
    GateUnreachable,
    LeaseLost,
    Misconfigured,
    StoreUnavailable,
)
from fencepost.model.gate import proof_of
from fencepost.model.lease import Lease
from fencepost.model.project import Project
from fencepost.service.admission import END_PREDECESSOR_SECONDS
from fencepost.service.command_order import Order, Tools
from fencepost.service.held_lease import HeldLease, hold

REPOSITORY_WAIT_SECONDS = 300.0
TURN, TURN_SECONDS_MAX = "fencepost.turn", 60.0  # the file at which runs of one machine line up for a repository
MERGE_WAIT_SECONDS = 60.0  # a person may be in the project for hours; then the branch waits, not the run
TRIES, PAUSE_SECONDS = 5, 0.3  # another git may hold one of its own locks for a moment


@dataclass(frozen=True, slots=True)
class RunWorktree:
    """A run's own worktree."""

    tools: Tools
    project: Project
    lease: Lease
    check: Callable[[], None]

    def enter(self) -> Worktree:
        """Make the worktree; what an earlier attempt of this run left is saved first."""
        repository = self._open()
        made: Worktree | None = None
        try:
            with self._hold_repository(repository):
                self._take_over(repository)
                self.check()
                made = self._try(lambda: add(self.project, repository, run=self.lease.run_id, fence=self.lease.fence))
            return fill(made, self.project, repository)
        except (OSError, GitFailed, Busy) as error:
            why = f"{str(error).rstrip('.')}.{little_room(worktrees_folder(self.project, repository))}"
            self._abandon(repository, made)
            raise Misconfigured(f"the worktree of run {self.lease.run_id} cannot be made: {why}") from None

    def _abandon(self, repository: Repository, made: Worktree | None) -> None:
        """Remove what could not be finished; if that does not work either, the doctor tells of it."""
        if made is not None:
            with suppress(FencepostError, OSError), self._hold_repository(repository):
                put_away(repository, made, ())

    def leave(self, worktree: Worktree, *, succeeded: bool) -> list[str]:
        """Save what is there, merge it if that is wanted, and remove the worktree; return what to tell."""
        said: list[str] = []
        try:
            self._leave(self._open(), worktree, said, succeeded=succeeded)
        except LeaseLost:
            raise
        except (FencepostError, OSError) as error:
            said.append(f"the worktree stays at {worktree.path}: {error} See: fencepost worktree list")
        return said

    def _leave(self, repository: Repository, worktree: Worktree, said: list[str], *, succeeded: bool) -> None:
        self.check()
        saved = save(worktree, self.project.discard)
        if saved.changed:
            said.append(f"the work is saved on branch {saved.branch}, at {saved.tip[:12]}.")
        merged = None
        if saved.changed and succeeded and self.project.merge != "keep" and saved.branch == worktree.branch:
            merged = self._merge(repository, worktree, saved)
            told = f"merged: {merged.words}." if merged.done else f"not merged: {merged.words}; the branch is kept."
            said.append(told)
        if saved.left:
            said.append(f"the worktree stays at {worktree.path}, because {words(saved.left)}.")
            return
        self.check()
        with self._hold_repository(repository):
            remove(repository, worktree, saved, self.project.discard)
            if not saved.changed or (merged and merged.in_main):
                drop_branch(worktree, repository)

    def _merge(self, repository: Repository, worktree: Worktree, saved: Saved) -> Merged:
        """Merge under the project's lease; its fence and the run's own are compared in the act."""
        gate = merge_gate(repository.top)
        assert gate is not None, "it is a repository"
        order = Order(
            (),
            self.lease.tenant,
            (self.project.resource,),
            label=f"merge of {self.lease.run_id}",
            ttl_seconds=self.lease.ttl_seconds,
            wait_seconds=MERGE_WAIT_SECONDS,
            slots=self.project.slots,
            gates=(gate,),
        )
        try:
            held = hold(order, self._quiet())
            try:
                move = self._mover(held, gate)
                return merge(repository, worktree, saved.tip, how=self.project.merge, move=move)
            finally:
                with suppress(LeaseLost, StoreUnavailable):  # what was moved, was moved under a fence that was good
                    held.release()
        except Busy as busy:
            return Merged(done=False, words=f"the project is busy: {busy}")
        except (FenceRefused, GateUnreachable) as error:
            return Merged(done=False, words=str(error).rstrip("."))
        except LeaseLost:
            self.check()
            return Merged(done=False, words="the project's lease was lost on the way")

    def _mover(self, held: HeldLease, gate: str) -> Callable[[str, str, str, str | None], None]:
        """Return what moves a branch through the repository's gate, with both fences shown."""
        opened = held.gate(gate)
        assert isinstance(opened, RepositoryGate), "that is what its target says"
        proofs = [held.proof, proof_of(self.lease, held.proof.host)]

        def move(branch: str, old: str, new: str, place: str | None) -> None:
            self.check()
            held.check()
            opened.move(proofs, BranchMove(branch, old, new, place))

        return move

    def _take_over(self, repository: Repository) -> None:
        """Save and put away what earlier attempts of this run left; their processes are dead by now."""
        for old in worktrees_of(repository):
            if old.run == self.lease.run_id and old.fence < self.lease.fence:
                self.check()
                try:
                    put_away(repository, old, self.project.discard)
                except GitFailed:
                    step_aside(old)  # it holds what git cannot keep, and stays for a person

    def _open(self) -> Repository:
        return open_repository(self.project.path)

    def _hold_repository(self, repository: Repository) -> AbstractContextManager[None]:
        return hold_repository(repository, self._quiet(), tenant=self.lease.tenant, who=self.lease.run_id)

    def _quiet(self) -> Tools:
        return self.tools._replace(say=lambda _: None)

    def _try(self, work: Callable[[], Worktree]) -> Worktree:
        for _ in range(TRIES - 1):
            try:
                return work()
            except GitFailed as error:
                if "lock" not in str(error):
                    raise
                self.tools.clock.sleep(PAUSE_SECONDS)
        return work()


@contextmanager
def hold_repository(repository: Repository, tools: Tools, *, tenant: str, who: str) -> Iterator[None]:
    """Hold the short lease under which worktrees come and go: git's own locks do not wait for one another.

    Many runs may want it at once. They line up at a file first, where the next one notices at once that it may go on.
    """
    order = Order(
        (),
        tenant,
        (f"repo:{folder_key(repository.common)}",),
        label=f"worktree of {who}",
        ttl_seconds=30.0,
        wait_seconds=REPOSITORY_WAIT_SECONDS,
    )
    with (
        turn(os.path.join(repository.common, TURN), tools.clock, seconds_max=TURN_SECONDS_MAX),
        hold(order, tools),
    ):
        yield


def clear_away(repository: Repository, worktree: Worktree, discard: tuple[str, ...], tools: Tools) -> Saved | None:
    """Put a leftover away for a person: processes of its run that are still alive have lost the lease, and are ended first."""
    store = tools.open_store()
    try:
        lost = [held for held in store.leases() if held.lost and held.run_id == worktree.run]
        if Undertaker(store, tools.processes).end(lost, kill_seconds=END_PREDECESSOR_SECONDS):
            raise GitFailed("its processes may still run, on another machine; end them there.")
        with hold_repository(repository, tools, tenant="default", who="a person"):
            return put_away(repository, worktree, discard)
    finally:
        store.close()


def put_away(repository: Repository, worktree: Worktree, discard: tuple[str, ...]) -> Saved | None:
    """Save a leftover and remove it; return what was saved, or None if no agent ever worked there.

    Raises GitFailed if anything in it would be lost. The caller holds the repository's lease.
    """
    if worktree.half_made:
        if os.path.isdir(worktree.path) and set(os.listdir(worktree.path)) - {".git"}:
            raise GitFailed(f"{worktree.path} was not finished, and yet it is not empty; look into it, then delete it.")
        forget(worktree, repository)
        drop_branch(worktree, repository)
        return None
    if worktree.unfinished:  # what is missing there was never written; what is there is on the branch
        forget(worktree, repository)
        drop_branch(worktree, repository)
        return None
    if worktree.saved and is_saved(worktree, worktree.saved, discard, half_removed=True):
        forget(worktree, repository)
        return Saved(worktree.saved, worktree.branch, changed=worktree.saved != worktree.base)
    if not os.path.isdir(worktree.path):
        forget(worktree, repository)  # it was deleted by hand
        return None
    saved = save(worktree, discard)
    if saved.left:
        raise GitFailed(f"{worktree.path} holds what git cannot keep: {words(saved.left)}.")
    remove(repository, worktree, saved, discard)
    if not saved.changed:
        drop_branch(worktree, repository)
    return saved


def remove(repository: Repository, worktree: Worktree, saved: Saved, discard: tuple[str, ...]) -> None:
    """Remove a worktree whose content is saved, after one more look; what is half removed is known as such."""
    if not is_saved(worktree, saved.tip, discard):
        raise GitFailed("something was written there while it was being saved.")
    going = replace(worktree, saved=saved.tip)
    going.note()
    with suppress(FileNotFoundError):
        forget(going, repository)
