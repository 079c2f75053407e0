"""Which project a directory belongs to: by what it is, never by how its name is spelt.

A renamed parent, a symlink, a bind mount and a subdirectory all lead to the same device and inode of the working
tree's top. A linked git worktree has a top of its own, so it is another project.
"""

from __future__ import annotations

import os

from fencepost.host.identity import this_host
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease import resource
from fencepost.model.project import Project
from fencepost.model.target import Target

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any, Iterable, Mapping

DEPTH_MAX = 1000


def working_tree_top(path: str) -> str:
    """Return the directory that holds `.git`, from here upwards; without one, the directory itself."""
    start = folder = os.path.realpath(path)
    for _ in range(DEPTH_MAX):
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return start


def project_resource(path: str) -> str:
    """Name the project that a directory belongs to, or say why there is none."""
    return _named(working_tree_top(_directory(path)))


def merge_gate(path: str) -> str | None:
    """Name the gate that merges into a directory's repository pass; None if it is in none. No git is asked: it is quick."""
    own = os.path.join(working_tree_top(path), ".git")
    try:
        if os.path.isfile(own):  # a linked worktree, or a submodule
            own = os.path.join(os.path.dirname(own), _first_line(own).removeprefix("gitdir: "))
            if os.path.exists(os.path.join(own, "commondir")):
                own = os.path.join(own, _first_line(os.path.join(own, "commondir")))
    except OSError:
        return None
    options = (("machine", this_host().machine),)
    return Target("repo", os.path.realpath(own), options).text if os.path.isdir(own) else None


def folder_key(path: str) -> str:
    """Name one directory on this machine, such as a repository's common git directory."""
    facts = os.stat(path)
    return f"{this_host().machine}/{facts.st_dev:x}:{facts.st_ino}"


def resolve(name: str, values: Mapping[str, Any], base: str) -> Project:
    """Find a declared project on this machine; `base` is the folder of its configuration."""
    written = os.path.join(base, os.path.expanduser(str(values["path"])))
    try:
        path = _directory(written)
    except Invalid as error:
        raise Misconfigured(f"project {name}: {error}") from None
    folder = values["worktrees_dir"]
    return Project(
        name=name,
        path=path,
        resource=project_resource(path),
        slots=values["concurrency"],
        isolated=values["isolation"] == "worktree",
        worktree_base=values["worktree_base"],
        worktrees_dir=os.path.join(base, os.path.expanduser(folder)) if folder else "",
        copy=tuple(values["copy"]),
        discard=tuple(values["discard"]),
        merge=values["merge"],
    )


def containing(path: str, projects: Iterable[Project]) -> Project | None:
    """Return the declared project that a directory is or lies in; a repository inside another is one of its own."""
    folder = _directory(path)
    known = list(projects)
    mine = project_resource(folder)
    while not any(one.resource == mine for one in known):
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return None
        folder, mine = parent, _named(parent)
    return next(one for one in known if one.resource == mine)


def _first_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.readline(8192).rstrip("\n")


def _directory(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        what = "is not a directory" if os.path.lexists(path) else "does not exist"
        raise Invalid(f"{path} {what}.")
    return real


def _named(folder: str) -> str:
    return resource("project", folder_key(folder))
