"""A project is a directory, by what it is and not by what it is called."""

from pathlib import Path

import pytest

from fencepost.host.project_identity import containing, project_resource, resolve
from fencepost.model.errors import Invalid, Misconfigured
from tests.support.repository import git, make_repository

VALUES = {
    "path": "repo", "concurrency": 1, "isolation": "none", "worktree_base": "", "worktrees_dir": "",
    "copy": (), "discard": (), "merge": "keep",
}  # fmt: skip


def test_a_symlink_a_subdirectory_and_a_renamed_parent_are_the_same_project(tmp_path: Path) -> None:
    repo = tmp_path / "parent" / "repo"
    make_repository(repo)
    (repo / "deep" / "down").mkdir(parents=True)
    (tmp_path / "link").symlink_to(repo / "deep")
    known = project_resource(str(repo))

    assert project_resource(str(repo / "deep" / "down")) == known
    assert project_resource(str(tmp_path / "link" / "down")) == known
    (tmp_path / "parent").rename(tmp_path / "renamed")
    assert project_resource(str(tmp_path / "renamed" / "repo")) == known


def test_a_linked_worktree_and_a_repository_inside_are_projects_of_their_own(tmp_path: Path) -> None:
    make_repository(tmp_path / "repo")
    make_repository(tmp_path / "repo" / "inner")
    git(tmp_path / "repo", "worktree", "add", "-q", str(tmp_path / "linked"))

    names = {project_resource(str(tmp_path / name)) for name in ("repo", "repo/inner", "linked")}

    assert len(names) == 3


def test_a_folder_below_a_declared_directory_without_git_belongs_to_it(tmp_path: Path) -> None:
    (tmp_path / "repo" / "deep").mkdir(parents=True)
    make_repository(tmp_path / "repo" / "inner")
    project = resolve("repo", VALUES, str(tmp_path))

    assert containing(str(tmp_path / "repo" / "deep"), [project]) == project
    assert containing(str(tmp_path / "repo" / "inner"), [project]) is None
    assert containing(str(tmp_path), [project]) is None


def test_a_directory_that_is_not_here_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match=r"project repo: .* does not exist"):
        resolve("repo", VALUES, str(tmp_path))
    with pytest.raises(Invalid, match="is not a directory"):
        project_resource(str(tmp_path / "file"))
