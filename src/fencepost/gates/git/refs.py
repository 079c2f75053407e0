"""What the git gate calls things: branches, the ref of their marks, and settings that keep git to its work."""

import re

from fencepost.model.errors import Invalid

DEFAULT_BRANCH = "main"
FENCES = "refs/fencepost/"
PROBES = "refs/fencepost-probe/"
MARKS = "marks.json"
NOTHING = "0" * 40
SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false"),
    *("-c", "push.recurseSubmodules=no"),
    *("-c", "push.gpgSign=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "gc.auto=0"),
)
# Stricter than git: what no shell, no option parser and no ref lookup can misread.
BRANCH = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.#+-]|/(?=[A-Za-z0-9_]))*", re.ASCII)
BRANCH_MAX = 200


def branch_of(name: str) -> str:
    """Return a branch's short name, or raise Invalid."""
    short = name.removeprefix("refs/heads/")
    wrong = not BRANCH.fullmatch(short) or ".." in short or short.endswith((".lock", "/", ".")) or ".lock/" in short
    if wrong or len(short) > BRANCH_MAX or short == "HEAD":
        raise Invalid(f"{name!r} is no branch that a gate pushes to; use letters, digits, and . _ + - / between them.")
    return short


def branch_ref(branch: str) -> str:
    """Return the ref of a branch."""
    return f"refs/heads/{branch}"


def fence_ref(branch: str) -> str:
    """Return the ref that holds the marks of a branch."""
    return f"{FENCES}{branch}"


def remote_of(where: str) -> str:
    """Return a remote that git takes as an address and as nothing else, or raise Invalid."""
    if where.startswith("-") or "\n" in where or "\0" in where or "::" in where.partition("/")[0]:
        raise Invalid(f"{where!r} is no address of a repository; write a URL, host:path or a path.")
    return where
