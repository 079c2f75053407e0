"""A kill -9 at each step of making, saving, merging and removing a worktree: what the agent wrote is somewhere.

Each call of git is a step. A git of our own counts them, and at the chosen one kills whoever called it, before or after
the real git does its work. A kill before or after a call that only looks is a kill between two that change something, so
these are enough. Deleting the worktree is the one step without git; it is cut off half-way.
"""

import os
import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from fencepost import wiring
from fencepost.host import worktree as worktrees
from fencepost.host.project_identity import resolve
from fencepost.host.worktree import open_repository, worktrees_of
from fencepost.model.lease import Claim, Granted
from fencepost.model.project import Project
from fencepost.service.workplace import RunWorktree, clear_away
from tests.support.repository import files_of, git, make_repository

SHIM = """#!/bin/sh
read count < {folder}/count
count=$((count + 1))
echo $count > {folder}/count
printf '%s\\0' "$*" >> {folder}/calls
if [ $count = {step} ] && [ {when} = before ]; then kill -9 $PPID; exit 1; fi
{git} "$@"
code=$?
if [ $count = {step} ] && [ {when} = after ]; then kill -9 $PPID; fi
exit $code
"""
CHANGES = re.compile(r"\b(worktree add|reset|add|read-tree|write-tree|commit-tree|hash-object|update-ref) ")
WRITTEN = {"one": "committed", "two": "not committed", "README": "hello\nchanged"}
RUN = "r0000000000000000001"
REAL_GIT = shutil.which("git") or "git"


class Bench:
    """A repository, a store, and one run that works apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        make_repository(self.repo)
        values = {"path": "repo", "concurrency": 1, "isolation": "worktree", "worktree_base": "", "worktrees_dir": ""}
        self.values = {**values, "copy": (), "discard": (), "merge": "merge"}
        self.url = f"sqlite:{folder}/state.db"

    @property
    def project(self) -> Project:
        return resolve("repo", self.values, str(self.folder))

    def carry_out(self, *, step: int, when: str, cut_off: bool = False) -> bool:
        """Go the whole way in a process that is killed at a step; return whether it was."""
        (self.folder / "count").write_text("0\n")
        pid = os.fork()
        if pid == 0:
            try:
                self._shim(step, when)
                if cut_off:
                    _cut_off_deletions()
                self._whole_way()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        assert status == 0 or os.WIFSIGNALED(status), (self.folder / "trouble").read_text()
        return os.WIFSIGNALED(status)

    def moments(self) -> list[tuple[int, str]]:
        """Return where to be killed on the way that was gone: around each call of git that changes something."""
        calls = [f"{words} " for words in (self.folder / "calls").read_text().split("\0")]
        changing = [number for number, call in enumerate(calls, 1) if CHANGES.search(call)]
        after = [(number, "after") for number in changing if number + 1 not in changing]
        return sorted([(number, "before") for number in changing] + after)

    def recover(self) -> None:
        """Do what a person does who is told by the doctor."""
        repository = open_repository(str(self.repo))
        tools = wiring.exec_tools(self.url)._replace(say=lambda _: None)
        for left in worktrees_of(repository):
            clear_away(repository, left, (), tools)
        assert worktrees_of(repository) == []
        assert git(self.repo, "worktree", "list").count("\n") == 0

    def _shim(self, step: int, when: str) -> None:
        folder = self.folder / "bin"
        folder.mkdir()
        path = folder / "git"
        path.write_text(SHIM.format(folder=self.folder, step=step, when=when, git=REAL_GIT))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"

    def _whole_way(self) -> None:
        tools = wiring.exec_tools(self.url)._replace(say=lambda _: None)
        store = tools.open_store()
        claim = Claim(f"lease-{os.getpid()}", "default", ("schedule:s",), RUN, 30.0, tools.processes.myself())
        granted = store.acquire(claim)
        assert isinstance(granted, Granted)
        place = RunWorktree(tools, self.project, granted.lease, lambda: None)
        worktree = place.enter()
        _work(Path(worktree.path))
        (self.folder / "worked").touch()
        said = place.leave(worktree, succeeded=True)
        if self.values["merge"] != "keep" and not any(line.startswith("merged") for line in said):
            (self.folder / "trouble").write_text("\n".join(said))
            os._exit(2)
        store.release(granted.lease, clean=True)


def _work(folder: Path) -> None:
    """Do what an agent does; its own git is not ours to break."""
    path = os.environ["PATH"]
    os.environ["PATH"] = path.partition(":")[2]
    (folder / "one").write_text("committed\n")
    git(folder, "add", "one")
    git(folder, "commit", "-qm", "one")
    (folder / "two").write_text("not committed\n")
    (folder / "README").write_text("hello\nchanged\n")
    (folder / "gone").unlink()
    os.environ["PATH"] = path


def _cut_off_deletions() -> None:
    def half(folder: int) -> None:
        for entry in sorted(os.scandir(folder), key=lambda one: one.name)[::2]:
            if entry.is_file():
                os.unlink(entry.name, dir_fd=folder)
        os.kill(os.getpid(), signal.SIGKILL)  # noqa: TID251  # ourselves

    worktrees.clear_out = half


def where_it_is(bench: Bench) -> Iterator[dict[str, str]]:
    """Yield every place where the agent's work may be: branches, the main directory, and its worktree."""
    for branch in git(bench.repo, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines():
        yield files_of(bench.repo, branch)
    for folder in (bench.repo, *bench.folder.glob(".repo.worktrees/*")):
        yield {path.name: path.read_text().strip() for path in folder.iterdir() if path.is_file()}


def check(bench: Bench, what: str) -> None:
    """See that all of it is in one place, now and after the recovery, which may be done twice."""
    if (bench.folder / "worked").exists():
        assert any(WRITTEN.items() <= place.items() for place in where_it_is(bench)), what
    bench.recover()
    bench.recover()
    if (bench.folder / "worked").exists():
        assert any(WRITTEN.items() <= place.items() for place in where_it_is(bench)), f"{what}, recovered"
    assert git(bench.repo, "fsck", "--connectivity-only", "--no-dangling") == ""


def test_every_byte_is_somewhere_whichever_step_is_the_last(memory_path: Path) -> None:
    whole = Bench(memory_path / "whole")
    assert not whole.carry_out(step=0, when="never")
    assert WRITTEN.items() <= files_of(whole.repo, "main").items()
    moments = whole.moments()
    assert len(moments) > 20

    for step, when in moments:
        bench = Bench(memory_path / f"{when}-{step}")
        assert bench.carry_out(step=step, when=when)
        check(bench, f"killed {when} step {step}")


def test_a_worktree_that_is_half_deleted_is_known_as_such(memory_path: Path) -> None:
    bench = Bench(memory_path / "bench")
    bench.values["merge"] = "keep"
    assert bench.carry_out(step=0, when="never", cut_off=True)
    check(bench, "killed while deleting")
    assert WRITTEN.items() <= files_of(bench.repo, f"fencepost/{RUN}").items()
