"""Worktrees in trouble: odd states of git, ways out of the project, a full disk, and git killed in the middle."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.host import filesystem
from fencepost.host.project_identity import project_resource, resolve
from fencepost.host.worktree import Worktree, open_repository, worktrees_of
from fencepost.model.errors import Misconfigured
from fencepost.model.lease import Claim, Granted, Lease
from fencepost.model.project import Project
from fencepost.service.workplace import RunWorktree, clear_away
from tests.support.repository import files_of, git, make_repository

RUN = "r0000000000000000001"
MERGE = "echo b > README; git commit -qam b; git merge -q a >/dev/null; echo 2 > two"
REAL_GIT = shutil.which("git") or "git"


class Yard:
    """A repository and one run that works apart in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        make_repository(self.repo)
        self.settings: dict[str, object] = {}
        self.tools = wiring.exec_tools(f"sqlite:{folder}/state.db")._replace(say=lambda _: None)
        self.said: list[str] = []

    @property
    def project(self) -> Project:
        values = {"path": "repo", "concurrency": 1, "isolation": "worktree", "worktree_base": "", "worktrees_dir": ""}
        return resolve(
            "repo", {**values, "copy": (), "discard": (), "merge": "keep", **self.settings}, str(self.folder)
        )

    def enter(self) -> tuple[RunWorktree, Worktree]:
        store = self.tools.open_store()
        granted = store.acquire(
            Claim(
                os.urandom(8).hex(),
                "default",
                (f"lock:{os.urandom(4).hex()}",),
                RUN,
                60.0,
                self.tools.processes.myself(),
            )
        )
        assert isinstance(granted, Granted)
        store.close()
        lease: Lease = granted.lease
        place = RunWorktree(self.tools, self.project, lease, lambda: None)
        return place, place.enter()

    def work(self, agent: Callable[[Path], object], *, succeeded: bool = True) -> Path:
        """Go the whole way with something that an agent does."""
        place, worktree = self.enter()
        agent(Path(worktree.path))
        self.said = place.leave(worktree, succeeded=succeeded)
        return Path(worktree.path)

    @property
    def saved(self) -> dict[str, str]:
        return files_of(self.repo, f"fencepost/{RUN}")

    def clean(self) -> None:
        repository = open_repository(str(self.repo))
        for left in worktrees_of(repository):
            clear_away(repository, left, (), self.tools)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clean()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "git checkout -q --detach; echo 1 > one; git add .; git commit -qm one; echo 2 > two",
            {"one": "1", "two": "2"},
        ),
        (
            "git checkout -q -b other; echo 1 > one; git add .; git commit -qm one; echo 2 > two",
            {"one": "1", "two": "2"},
        ),
        ("touch $(git rev-parse --git-dir)/index.lock; echo 2 > two", {"two": "2"}),
        ("rm .git; echo 2 > two", {"two": "2"}),
        ("git update-index --assume-unchanged README; echo more >> README", {"README": "hello\nmore"}),
        (
            "git checkout -q -b a; echo a > README; git commit -qam a; git checkout -q -b b HEAD~;" + MERGE,
            {"two": "2"},
        ),
        ("printf 'a\\nb' > 'odd \"name\\n'; ln -s /nowhere link", {"link": "/nowhere"}),
    ],
    ids=["detached", "other branch", "locked index", "no .git", "assume unchanged", "in a merge", "odd names"],
)
def test_everything_is_saved_whatever_state_git_was_left_in(yard: Yard, script: str, expected: dict[str, str]) -> None:
    who = {f"GIT_{role}_{part}": "a" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}

    place = yard.work(
        lambda folder: subprocess.run(["sh", "-c", script], cwd=folder, env={**os.environ, **who}, check=False)
    )

    assert {name: yard.saved.get(name) for name in expected} == expected
    assert not place.exists()


def test_what_was_left_in_the_middle_of_a_rebase_is_saved(yard: Yard) -> None:
    def agent(folder: Path) -> None:
        for branch, text in (("a", "a\n"), ("b", "b\n")):
            git(folder, "checkout", "-q", "-b", branch, "main")
            (folder / "README").write_text(text)
            git(folder, "commit", "-qam", branch)
        stopped = subprocess.run(["git", "rebase", "-q", "a"], cwd=folder, capture_output=True, check=False)
        assert stopped.returncode == 1
        (folder / "new").write_text("new\n")

    yard.work(agent)

    assert yard.saved["new"] == "new"
    assert ">>>>>>>" in yard.saved["README"]


def test_a_sparse_worktree_deletes_nothing_that_it_does_not_show(yard: Yard) -> None:
    def agent(folder: Path) -> None:
        git(folder, "sparse-checkout", "set", "--no-cone", "/README")
        assert not (folder / "gone").exists()
        (folder / "README").write_text("changed\n")

    yard.work(agent)

    assert (yard.saved["README"], yard.saved["gone"]) == ("changed", "to be deleted")


def test_a_sparse_main_directory_gives_whole_worktrees_and_stays_sparse(yard: Yard) -> None:
    git(yard.repo, "sparse-checkout", "set", "--no-cone", "/README")
    yard.settings["merge"] = "ff"
    seen: list[bool] = []

    def agent(folder: Path) -> None:
        seen.append((folder / "gone").exists())
        (folder / "README").write_text("changed\n")
        (folder / "new").write_text("new\n")

    yard.work(agent)

    assert seen == [True]
    assert (yard.repo / "README").read_text() == "changed\n", yard.said
    assert not (yard.repo / "gone").exists()
    assert files_of(yard.repo, "main")["gone"] == "to be deleted"
    assert git(yard.repo, "status", "--porcelain") == ""


def test_a_large_file_is_saved_whole(yard: Yard) -> None:
    content = os.urandom(1 << 20) * 16

    yard.work(lambda folder: (folder / "large").write_bytes(content))

    kept = subprocess.run(
        ["git", "show", f"fencepost/{RUN}:large"], cwd=yard.repo, capture_output=True, check=True
    ).stdout
    assert kept == content


def test_worktrees_go_where_the_project_says(yard: Yard) -> None:
    yard.settings["worktrees_dir"] = "elsewhere/deep"

    place = yard.work(lambda folder: (folder / "new").write_text("new\n"))

    assert place == yard.folder / "elsewhere" / "deep" / RUN
    assert yard.saved["new"] == "new"
    assert not (yard.folder / "elsewhere" / "deep").exists()


def test_copies_come_from_the_project_and_stay_in_the_worktree(yard: Yard) -> None:
    secret = yard.folder / "secret.log"
    secret.write_text("not yours\n")
    (yard.repo / "link.log").symlink_to(secret)
    (yard.repo / "out").symlink_to(yard.folder)
    (yard.repo / "own.log").write_text("mine\n")
    yard.settings["copy"] = ["../secret.log", str(secret), "link.log", "out/secret.log", "own.log", "**/../../*.log"]
    found: dict[str, str] = {}

    def agent(folder: Path) -> None:
        found.update({path.name: path.read_text() for path in folder.glob("*.log")})

    place = yard.work(agent)

    assert found == {"own.log": "mine\n"}
    assert sorted(path.name for path in place.parent.glob("*.log")) == []
    assert secret.read_text() == "not yours\n"


def test_a_second_attempt_goes_on_in_the_same_folder_with_the_work_of_the_first(yard: Yard) -> None:
    first = yard.work(lambda folder: (folder / "new").write_text("half\n"), succeeded=False)
    second = yard.work(lambda folder: (folder / "new").write_text((folder / "new").read_text() + "whole\n"))

    assert first == second
    assert yard.saved["new"] == "half\nwhole"


def test_what_git_cannot_keep_is_moved_out_of_the_next_attempts_way(yard: Yard) -> None:
    def agent(folder: Path) -> None:
        (folder / "cache.log").write_text("ignored\n")
        (folder / "new").write_text("new\n")

    first = yard.work(agent, succeeded=False)
    assert (first / "cache.log").exists()
    second = yard.work(lambda folder: (folder / "more").write_text((folder / "new").read_text()))
    (left,) = worktrees_of(open_repository(str(yard.repo)))

    assert first == second
    assert yard.saved["more"] == "new"
    assert Path(left.path, "cache.log").read_text() == "ignored\n"
    assert left.path == f"{first}-{left.fence}"
    Path(left.path, "cache.log").unlink()


def test_a_stale_attempt_deletes_nothing_of_its_successor(yard: Yard) -> None:
    place, old = yard.enter()
    successor, new = yard.enter()
    assert old.path == new.path
    Path(new.path, "new").write_text("new\n")
    place.leave(old, succeeded=True)

    assert Path(new.path, "new").read_text() == "new\n"
    successor.leave(new, succeeded=True)
    assert yard.saved["new"] == "new"


def test_an_agent_that_was_killed_left_its_work(yard: Yard) -> None:
    def agent(folder: Path) -> None:
        script = (
            "echo half > half; git add half; echo rest > rest; touch $(git rev-parse --git-dir)/index.lock; kill -9 $$"
        )
        killed = subprocess.run(["sh", "-c", script], cwd=folder, check=False)
        assert killed.returncode == -signal.SIGKILL

    yard.work(agent, succeeded=False)

    assert (yard.saved["half"], yard.saved["rest"]) == ("half", "rest")


@pytest.mark.parametrize("command", ["reset", "add", "commit-tree", "read-tree"])
def test_git_that_is_killed_in_the_middle_loses_nothing(
    yard: Yard, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill git itself once while it works, not the one that called it."""
    for number in range(200):
        (yard.repo / f"f{number}").write_text(f"{number}\n" * 50)
    git(yard.repo, "add", ".")
    git(yard.repo, "commit", "-qm", "many")
    shim = yard.folder / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = {command} ] && found=yes; done\n'
        f'if [ "$found" ] && mkdir {yard.folder}/done 2>/dev/null; then\n'
        f'  {REAL_GIT} "$@" & sleep 0.004; kill -9 $!; wait $!; exit 137\nfi\nexec {REAL_GIT} "$@"\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")

    def agent(folder: Path) -> None:
        for number in range(200):
            (folder / f"f{number}").write_text("changed\n" * 50)

    place, told = None, ""
    try:
        place = yard.work(agent)
    except Misconfigured as error:
        told = str(error)
    monkeypatch.undo()
    assert (yard.folder / "done").exists()
    if place is None:
        assert "cannot be made" in told
        yard.clean()
        place = yard.work(agent)
    if place.exists():
        assert any("the worktree stays" in line for line in yard.said)
        yard.clean()
    assert files_of(yard.repo, f"fencepost/{RUN}", "f199")["f199"].startswith("changed\n")


def test_a_checkout_that_was_cut_off_is_neither_saved_nor_handed_on(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.work(lambda folder: (folder / "new").write_text("of the first attempt\n"), succeeded=False)
    shim = yard.folder / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(
        '#!/bin/sh\nfor word; do [ "$word" = reset ] && found=yes; done\n'
        f'if [ "$found" ]; then printf hel > README; kill -9 $PPID; exit 1; fi\nexec {REAL_GIT} "$@"\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    pid = os.fork()
    if pid == 0:
        yard.enter()
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    monkeypatch.undo()
    (left,) = worktrees_of(open_repository(str(yard.repo)))
    found: dict[str, str] = {}

    yard.work(lambda folder: found.update({path.name: path.read_text() for path in folder.iterdir() if path.is_file()}))

    assert left.unfinished
    assert found["README"] == "hello\n"
    assert found["gone"] == "to be deleted\n"
    assert found["new"] == "of the first attempt\n"
    assert git(yard.repo, "rev-list", "--count", f"main..fencepost/{RUN}") == "1"


def test_a_full_disk_keeps_the_worktree_and_says_so(yard: Yard) -> None:
    place, worktree = yard.enter()
    Path(worktree.path, "large").write_bytes(os.urandom(4 << 20))
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write is refused, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        said = place.leave(worktree, succeeded=True)
        os._exit(0 if any("the worktree stays" in line for line in said) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert Path(worktree.path, "large").stat().st_size == 4 << 20

    assert any("saved" in line for line in place.leave(worktree, succeeded=True))
    assert "large" in git(yard.repo, "ls-tree", "--name-only", f"fencepost/{RUN}").split()


def test_a_checkout_for_which_there_is_no_room_says_so_and_leaves_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    (yard.repo / "large").write_bytes(os.urandom(4 << 20))
    git(yard.repo, "add", ".")
    git(yard.repo, "commit", "-qm", "large")
    monkeypatch.setattr(filesystem, "LITTLE_BYTES", 1 << 60)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write is refused, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        try:
            yard.enter()
        except Misconfigured as error:
            told = str(error)
            os._exit(0 if "cannot be made: git reset in" in told and "are free at" in told else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0

    assert worktrees_of(open_repository(str(yard.repo))) == []
    assert git(yard.repo, "branch", "--list", "fencepost/*") == ""
    assert not list(yard.folder.glob(".repo.worktrees*"))


def test_a_bind_mount_is_the_same_project(yard: Yard) -> None:
    there = yard.folder / "mounted"
    there.mkdir()
    words = ["mount", "--bind", str(yard.repo), str(there)]
    script = "import sys; from fencepost.host.project_identity import project_resource as p; print(p(sys.argv[1]))"
    ran = subprocess.run(
        [
            "unshare",
            "--mount",
            "--map-root-user",
            "sh",
            "-c",
            '"$@" && exec "$PYTHON" -c "$SCRIPT" "$PLACE"',
            "sh",
            *words,
        ],
        env={**os.environ, "PYTHON": sys.executable, "SCRIPT": script, "PLACE": str(there)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode and not os.environ.get("CI"):
        pytest.skip(f"this host does not let us mount: {ran.stderr.strip()}")
    assert ran.stdout.strip() == project_resource(str(yard.repo)), ran.stderr
