"""Runs that work apart: each in a worktree and on a branch of its own, and nothing that an agent wrote is lost."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.gates.git.pending import Checkout, note
from fencepost.host.project_identity import resolve
from fencepost.host.worktree import add, open_repository
from fencepost.ports.runs import RunRow
from tests.support.repository import files_of, git, make_repository
from tests.support.site import Site

IDENTITY = (
    'env = { GIT_AUTHOR_NAME = "a", GIT_AUTHOR_EMAIL = "a@b", GIT_COMMITTER_NAME = "a", GIT_COMMITTER_EMAIL = "a@b" }\n'
)


@pytest.fixture
def shop(memory_path: Path) -> Iterator[Site]:
    make_repository(memory_path / "repo")
    made = Site(memory_path)
    yield made
    made.close()


def configure(site: Site, script: str, *, schedules: int = 1, agent: str = "", **project: object) -> None:
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in project.items())
    site.configure(
        f'[projects.repo]\npath = "repo"\nisolation = "worktree"\n{settings}'
        f'[agents.coder]\nproject = "repo"\ncommand = {json.dumps(["sh", "-c", script])}\n{IDENTITY}{agent}'
        + "".join(f'[schedules.s{number}]\nagent = "coder"\nevery = "1h"\n' for number in range(schedules))
    )


def carry_out(site: Site, *, count: int = 1, workers: int = 2) -> list[RunRow]:
    """Let the schedules' first runs go to their end, and return them."""
    site.up("--workers", str(workers))
    site.until(lambda: sum(run.ended_us is not None for run in site.runs()) >= count, seconds=120)
    return site.runs()


def said(run: RunRow) -> str:
    return Path(run.log or "").read_text()


def test_commits_changes_and_new_files_are_saved_on_the_branch_and_the_worktree_goes(shop: Site) -> None:
    repo = shop.folder / "repo"
    (repo / "mine").write_text("a person is at work here\n")
    configure(shop, "echo 1 > one; git add one; git commit -qm one; echo more >> README; echo 2 > two; rm gone")

    (run,) = carry_out(shop)

    assert run.state == "succeeded"
    saved = files_of(repo, f"fencepost/{run.id}")
    assert (saved["one"], saved["two"], saved["README"], "gone" in saved) == ("1", "2", "hello\nmore", False)
    assert f"saved on branch fencepost/{run.id}" in said(run)
    assert not list(shop.folder.glob(".repo.worktrees/*"))
    assert git(repo, "status", "--porcelain") == "?? mine"
    assert "one" not in files_of(repo, "main")


def test_a_run_that_changed_nothing_leaves_nothing_behind(shop: Site) -> None:
    configure(shop, "mkdir __pycache__; echo x > __pycache__/a.pyc; cat .env", copy=[".env"])
    (shop.folder / "repo" / ".env").write_text("KEY=1\n")

    (run,) = carry_out(shop)

    assert said(run) == "KEY=1\n"
    assert git(shop.folder / "repo", "branch", "--list", "fencepost/*") == ""
    assert git(shop.folder / "repo", "worktree", "list").count("\n") == 0
    assert not list(shop.folder.glob(".repo.worktrees*"))


def test_what_git_cannot_keep_keeps_the_worktree(shop: Site) -> None:
    configure(shop, "echo s > secret.log; git init -q inner; echo i > inner/file; echo new > fresh")

    (run,) = carry_out(shop)
    (left,) = shop.rows("worktree", "list")
    doctor = shop.fencepost("doctor", code=None)
    cleaned = shop.fencepost("worktree", "clean", code=1)

    assert files_of(shop.folder / "repo", f"fencepost/{run.id}")["fresh"] == "new"
    place = Path(left["path"])
    assert (place / "secret.log").read_text() == "s\n"
    assert (place / "inner" / "file").read_text() == "i\n"
    assert "inner is a repository of its own" in said(run)
    assert "secret.log is ignored by git" in said(run)
    assert "1 worktree left by runs" in " ".join(doctor.split())
    assert cleaned.startswith("kept")
    assert place.exists()


def test_what_a_crash_left_unfinished_is_told_by_the_doctor_and_cleaned(shop: Site) -> None:
    configure(shop, "true", merge="ff")
    repo = shop.folder / "repo"
    project = resolve("repo", load(str(shop.folder / "fencepost.toml")).projects["repo"], str(shop.folder))
    head = git(repo, "rev-parse", "HEAD")
    repository = open_repository(str(repo))
    add(project, repository, run="r0000000000000000001", fence=7)
    note(repository.common, Checkout("main", head, head, str(repo)))

    (left,) = shop.rows("worktree", "list")
    doctor = " ".join(shop.fencepost("doctor", code=None).split())
    shop.fencepost("worktree", "clean")

    assert (left["unfinished"], left["in_use"], left["changes"]) == (True, False, 0)
    assert "1 worktree left by runs that did not end well, 1 of them unfinished checkouts" in doctor
    assert "/repo does not show yet what main was moved to" in doctor
    assert shop.rows("worktree", "list") == []
    assert git(repo, "branch", "--list", "fencepost/*") == ""


def test_what_the_branch_cannot_take_without_losing_something_gets_a_branch_beside_it(shop: Site) -> None:
    configure(shop, "echo 1 > one; git add .; git commit -qm 1; git checkout -q --detach main; echo 2 > two")

    (run,) = carry_out(shop)

    repo = shop.folder / "repo"
    assert files_of(repo, f"fencepost/{run.id}")["one"] == "1"
    assert files_of(repo, f"fencepost/{run.id}-{run.fence}")["two"] == "2"


def test_twenty_runs_at_once_each_commit_on_a_branch_of_their_own(shop: Site) -> None:
    repo = shop.folder / "repo"
    shutil.rmtree(repo)
    make_repository(repo, large=True)
    script = "echo $FENCEPOST_RUN_ID > mine; git add mine; git commit -qm mine; test $(ls d7 | wc -l) = 100"
    configure(shop, script, schedules=20)

    runs = carry_out(shop, count=20, workers=20)

    assert [run.state for run in runs] == ["succeeded"] * 20
    assert [files_of(repo, f"fencepost/{run.id}", "mine")["mine"] for run in runs] == [run.id for run in runs]
    assert not list(shop.folder.glob(".repo.worktrees/*"))
    assert git(repo, "status", "--porcelain") == ""


def test_two_runs_at_once_are_both_merged_into_a_clean_main_directory(shop: Site) -> None:
    repo = shop.folder / "repo"
    configure(
        shop, "echo $FENCEPOST_RUN_ID > $FENCEPOST_SCHEDULE; git add .; git commit -qm x", schedules=2, merge="merge"
    )

    runs = carry_out(shop, count=2)

    assert {path.name for path in repo.glob("s*")} == {"s0", "s1"}, "\n".join(map(said, runs))
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "branch", "--list", "fencepost/*") == ""


def test_a_conflict_keeps_the_branch_and_says_so(shop: Site) -> None:
    repo = shop.folder / "repo"
    script = f"cd {repo} && echo theirs > README && git commit -qam theirs && cd - && echo ours > README"
    configure(shop, script, merge="merge")

    (run,) = carry_out(shop)

    assert "not merged: it is in conflict with main in README; the branch is kept" in said(run)
    assert files_of(repo, f"fencepost/{run.id}")["README"] == "ours"
    assert files_of(repo, "main")["README"] == "theirs"


@pytest.mark.parametrize("name", ["README", "scratch"])
def test_a_dirty_main_directory_is_never_touched(shop: Site, name: str) -> None:
    repo = shop.folder / "repo"
    (repo / name).write_text("half a thought\n")
    before = git(repo, "rev-parse", "HEAD")
    configure(shop, "echo ours > ours", merge="ff")

    (run,) = carry_out(shop)

    assert "not merged" in said(run)
    assert "changes that are not committed" in said(run)
    assert git(repo, "rev-parse", "HEAD") == before
    assert (repo / name).read_text() == "half a thought\n"
    assert files_of(repo, f"fencepost/{run.id}")["ours"] == "ours"


def test_a_branch_that_nobody_has_checked_out_is_moved_without_any_working_tree(shop: Site) -> None:
    repo = shop.folder / "repo"
    git(repo, "branch", "release")
    configure(shop, "echo ours > ours", merge="ff", worktree_base="release")

    (run,) = carry_out(shop)

    assert files_of(repo, "release")["ours"] == "ours"
    assert files_of(repo, f"fencepost/{run.id}")["ours"] == "ours"
    assert not (repo / "ours").exists()


def test_hooks_of_the_repository_do_not_run_for_us_and_submodules_are_left_alone(shop: Site) -> None:
    repo = shop.folder / "repo"
    make_repository(shop.folder / "part")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(shop.folder / "part"), "sub")
    git(repo, "commit", "-qm", "submodule")
    for hook in ("post-checkout", "pre-commit", "post-merge", "reference-transaction"):
        path = repo / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\necho {hook} >> {shop.folder}/hooked\n")
        path.chmod(0o755)
    configure(shop, "echo 2 > two", merge="ff")

    (run,) = carry_out(shop)

    assert (repo / "two").exists(), said(run)
    assert git(repo, "ls-tree", "HEAD", "sub").split()[1] == "commit"
    assert not (shop.folder / "hooked").exists()


@pytest.mark.parametrize(
    ("prepare", "settings", "words"),
    [
        (lambda repo: subprocess.run(["rm", "-rf", repo / ".git"], check=True), {}, "is not in a git repository"),
        (lambda repo: git(repo, "checkout", "-q", "--detach"), {}, "is detached"),
        (lambda repo: git(repo, "config", "core.bare", "true"), {}, "is a bare repository"),
        (lambda _: None, {"worktree_base": "nope"}, "there is no branch or commit 'nope'"),
        (lambda _: None, {"worktree_base": "main~0", "merge": "ff"}, "needs a branch"),
        (lambda repo: git(repo, "update-ref", "-d", "HEAD"), {}, "there is no commit yet"),
    ],
    ids=["no git", "detached", "bare", "no base", "merge into no branch", "no commit"],
)
def test_a_project_that_cannot_have_worktrees_is_refused_at_apply_time(
    shop: Site, prepare: object, settings: dict[str, object], words: str
) -> None:
    prepare(shop.folder / "repo")  # type: ignore[operator]
    with pytest.raises(AssertionError, match=words):
        configure(shop, "true", **settings)  # type: ignore[arg-type]
    assert shop.rows("schedule", "list") == []
