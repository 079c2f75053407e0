"""A merge that was frozen after its last look comes too late, whatever its successor did meanwhile."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.gates.git.pending import pending_in
from fencepost.host.project_identity import merge_gate, resolve
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.project import Project
from fencepost.service.admission import Admission
from fencepost.service.command_order import Order, Tools
from fencepost.service.held_lease import HeldLease, hold
from fencepost.service.workplace import RunWorktree
from tests.support.repository import files_of, git, make_repository
from tests.support.scratch import wait_until

# Freezes its caller and itself just before, or right after, the transaction that moves the branch.
SHIM = """#!/bin/sh
case "$*" in *"update-ref --stdin"*) ;; *) exec {git} "$@";; esac
steps=$(cat)
freeze() {{
  mkdir {folder}/frozen 2>/dev/null || return  # once; whoever tries again goes on
  echo $$ > {folder}/shim.pid.new; mv {folder}/shim.pid.new {folder}/shim.pid
  kill -STOP $PPID; kill -STOP $$
}}
case "$steps" in *" refs/heads/main "*) moves=yes;; esac
if [ "$moves" ] && [ {when} = before ]; then freeze; fi
printf '%s\\n' "$steps" | {git} "$@"
code=$?
if [ "$moves" ] && [ {when} = after ]; then freeze; fi
exit $code
"""
REAL_GIT = shutil.which("git") or "git"
TTL_SECONDS = 60.0  # longer than any machine is busy: leases are taken away here, not waited for


class Yard:
    """A project, a run that works apart in it, and a process that goes its whole way and is frozen on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        make_repository(self.repo)
        self.tools: Tools = wiring.exec_tools(f"sqlite:{folder}/state.db")._replace(say=lambda _: None)
        self.children: list[int] = []
        self.concurrency = 1

    @property
    def project(self) -> Project:
        values = {
            "path": "repo",
            "concurrency": self.concurrency,
            "isolation": "worktree",
            "worktree_base": "",
            "worktrees_dir": "",
        }
        return resolve("repo", {**values, "copy": (), "discard": (), "merge": "ff"}, str(self.folder))

    def lease(self, run: str, *resources: str) -> Lease:
        """Be granted what a run of this project gets, with its gates raised."""
        store = self.tools.open_store()
        gate = merge_gate(str(self.repo))
        assert gate
        claim = Claim(os.urandom(8).hex(), "default", resources, run, TTL_SECONDS, self.tools.processes.myself())
        granted = store.acquire(claim._replace(gates=(gate,)))
        assert isinstance(granted, Granted)
        order = Order((), "default", resources, run, TTL_SECONDS, gates=(gate,))
        Admission(order, self.tools, store, wait=self.tools.clock.sleep).prepare(granted)
        store.close()
        return granted.lease

    def start(self, run: str, *, when: str) -> int:
        """Let a process work apart and merge; it freezes before or after the branch is moved."""
        pid = os.fork()
        if pid == 0:
            try:
                self._work(run, when)
            finally:
                os._exit(0)
        self.children.append(pid)
        return pid

    def await_freeze(self, pid: int) -> None:
        """Wait until both it and its git are."""
        told = self.folder / "shim.pid"
        wait_until(
            lambda: told.exists() and _is_stopped(pid) and _is_stopped(int(told.read_text())), what="it is frozen"
        )

    def thaw(self, pid: int) -> str:
        """Let it go on to its end, and return what it said."""
        os.kill(int((self.folder / "shim.pid").read_text()), signal.SIGCONT)  # noqa: TID251
        os.kill(pid, signal.SIGCONT)  # noqa: TID251
        os.waitpid(pid, 0)
        self.children.remove(pid)
        return (self.folder / "said").read_text()

    def kill(self, pid: int) -> None:
        """Let it and its git never wake up."""
        for one in (int((self.folder / "shim.pid").read_text()), pid):
            os.kill(one, signal.SIGKILL)  # noqa: TID251
        os.waitpid(pid, 0)
        self.children.remove(pid)

    def take_leases_away(self) -> None:
        """Do what the store does when the frozen one's time is up."""
        store = self.tools.open_store()
        for held in store.leases():
            store.break_lease(held, why="expired")
        store.close()

    def enter_as_successor(self) -> None:
        """Do what `exec --project` does: take the project, which merges nothing."""
        self.enter_project().release()

    def enter_project(self) -> HeldLease:
        """Take a place in the project."""
        order = Order((), "default", (self.project.resource,), "a person", 30.0, wait_seconds=10.0)
        return hold(order._replace(slots=self.concurrency), self.tools)

    def _work(self, run: str, when: str) -> None:
        lease = self.lease(run, "schedule:s")
        place = RunWorktree(self.tools, self.project, lease, lambda: None)
        worktree = place.enter()
        Path(worktree.path, "ours").write_text("ours\n")
        folder = self.folder / "bin"
        folder.mkdir()
        shim = SHIM.format(folder=self.folder, git=REAL_GIT, when=when)
        (folder / "git").write_text(shim)
        (folder / "git").chmod(0o755)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        try:
            said = place.leave(worktree, succeeded=True)
        except Exception as error:  # noqa: BLE001  # the test wants to read it
            said = [f"{type(error).__name__}: {error}"]
        (self.folder / "said").write_text("\n".join(said))


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    for pid in made.children:
        os.kill(pid, signal.SIGKILL)  # noqa: TID251
        os.waitpid(pid, 0)


def test_a_frozen_merge_is_refused_once_somebody_else_was_in_the_project(yard: Yard) -> None:
    pid = yard.start("r1", when="before")
    yard.await_freeze(pid)
    before = git(yard.repo, "rev-parse", "main")
    yard.take_leases_away()
    yard.enter_as_successor()
    said = yard.thaw(pid)

    assert git(yard.repo, "rev-parse", "main") == before
    assert "not merged" in said
    assert git(yard.repo, "status", "--porcelain") == ""
    assert files_of(yard.repo, "fencepost/r1")["ours"] == "ours"


def test_a_frozen_merge_is_refused_also_where_its_successor_has_another_place_in_the_project(yard: Yard) -> None:
    yard.concurrency = 2
    person = yard.enter_project()
    pid = yard.start("r1", when="before")
    yard.await_freeze(pid)
    person.release()
    yard.take_leases_away()
    successor = yard.enter_project()
    said = yard.thaw(pid)

    assert successor.resources == (yard.project.resource,)
    assert "not merged" in said
    assert "ours" not in files_of(yard.repo, "main")
    assert files_of(yard.repo, "fencepost/r1")["ours"] == "ours"
    successor.release()


def test_a_frozen_merge_is_refused_once_the_next_attempt_of_its_run_has_started(yard: Yard) -> None:
    pid = yard.start("r1", when="before")
    yard.await_freeze(pid)
    yard.take_leases_away()
    yard.lease("r1", "schedule:s")  # it works apart, and has not taken the project
    said = yard.thaw(pid)

    assert "not merged" in said
    assert "ours" not in files_of(yard.repo, "main")
    assert files_of(yard.repo, "fencepost/r1")["ours"] == "ours"


def test_a_merge_that_nobody_overtook_goes_through_after_a_freeze(yard: Yard) -> None:
    pid = yard.start("r1", when="before")
    yard.await_freeze(pid)
    said = yard.thaw(pid)

    assert "merged: main is at" in said
    assert files_of(yard.repo, "main")["ours"] == "ours"
    assert (yard.repo / "ours").read_text() == "ours\n"
    assert git(yard.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("wakes", [True, False])
def test_a_working_tree_that_was_not_updated_is_finished_before_the_next_one_starts(yard: Yard, *, wakes: bool) -> None:
    pid = yard.start("r1", when="after")
    yard.await_freeze(pid)
    assert not (yard.repo / "ours").exists()
    assert pending_in(str(yard.repo / ".git"))
    if not wakes:
        yard.kill(pid)
    yard.take_leases_away()
    yard.enter_as_successor()

    assert (yard.repo / "ours").read_text() == "ours\n"
    assert git(yard.repo, "status", "--porcelain") == ""
    (yard.repo / "ours").write_text("the successor's\n")
    if wakes:
        yard.thaw(pid)
    assert (yard.repo / "ours").read_text() == "the successor's\n"
    assert files_of(yard.repo, "main")["ours"] == "ours"
    assert pending_in(str(yard.repo / ".git")) is None
