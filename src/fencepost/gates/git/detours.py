"""Finds what a clone's own settings let a plain `git push` go around its gate by: git takes them before those of a run."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fencepost.gates.git.addresses import Likeness, likeness, rewritten, without_password

ASK_SECONDS = 10.0
NAMES = r"^(remote\..*\.(push)?url|url\..*\.(push)?insteadof)$"
URL, PUSH_URL, PUSH_RULE = ".url", ".pushurl", ".pushinsteadof"
OWN = ("local", "worktree")  # the rules of other scopes are repeated for a run, with the way to the gate before them


class GitSetting(NamedTuple):
    """One setting that git has in a clone."""

    scope: str
    key: str
    value: str


class Detour(NamedTuple):
    """A setting by which a push arrives at the gated remote without its gate."""

    scope: str
    key: str
    address: str  # where the push arrives

    def words(self, clone: str) -> str:
        """Say what is wrong, and how it is mended."""
        place = ("-C", clone) if self.scope in OWN else ()
        undo = " ".join(("git", *place, "config", f"--{self.scope}", "--unset-all", self.key))
        return (
            f"git push goes around it: {self.key}, a setting of git in {clone}, leads to "
            f"{without_password(self.address)}, and git takes it before the way to the gate. Undo it ({undo}), "
            "and have the remote's url name that place."
        )


def detours(clone: str, address: str, environ: Mapping[str, str]) -> Iterator[Detour]:
    """Yield what leads to a gated remote past its gate; nothing if there is no clone, or no git."""
    found = list(_settings(clone, environ))
    rules = [(one.key, one.value) for one in found if one.key.startswith("url.") and not one.key.endswith(PUSH_RULE)]
    for one in found:
        if one.key.startswith("remote.") and one.key.endswith(PUSH_URL):
            arrives = rewritten(one.value, rules)
            if _is_gated(arrives, address, clone):
                yield Detour(one.scope, one.key, arrives)
    yield from _ruled(found, clone, address)


def _ruled(found: list[GitSetting], clone: str, address: str) -> Iterator[Detour]:
    """Yield the clone's own rules that rewrite where one of its remotes is pushed to."""
    remotes = [one.value for one in found if one.key.startswith("remote.") and one.key.endswith(URL)]
    for one in found:
        if one.scope in OWN and one.key.startswith("url.") and one.key.endswith(PUSH_RULE):
            ruled = (rewritten(url, [(one.key, one.value)]) for url in remotes if url.startswith(one.value))
            arrives = next((there for there in ruled if _is_gated(there, address, clone)), None)
            if arrives is not None:
                yield Detour(one.scope, one.key, arrives)


def _is_gated(arrives: str, address: str, clone: str) -> bool:
    return likeness(arrives, address, folder=clone) is not Likeness.OTHER


def _settings(clone: str, environ: Mapping[str, str]) -> Iterator[GitSetting]:
    words = ["git", "config", "--null", "--show-scope", "--get-regexp", NAMES]
    kept = {name: value for name, value in environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        ran = subprocess.run(
            words, cwd=clone, env=kept, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # that git or the folder is not there is told elsewhere
    parts = os.fsdecode(ran.stdout).split("\0")
    for scope, said in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = said.partition("\n")
        yield GitSetting(scope, key, value)
