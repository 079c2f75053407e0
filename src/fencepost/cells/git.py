"""Cells in a git remote: one ref each, moved by a push that names the value it expects.

Each document is a commit without parents, so that nothing piles up behind the ref. The same document is always the
same commit: pushing it twice is pushing it once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Protocol

from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

REFS = "refs/fencepost-cells/"
MINE = "refs/cells/"
FILE = "cell.json"
TTL_SECONDS, POLL_SECONDS = 600.0, 15.0
MANY = 8  # names in one read; for more, everything is fetched
LOCAL_SECONDS = 30.0
SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "push.recurseSubmodules=no"),
    *("-c", "push.gpgSign=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
# How to reach a remote is the caller's business; which repository, index or objects to use is not.
KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in {"NAME": "fencepost", "EMAIL": "fencepost@localhost", "DATE": "@0 +0000"}.items()
}


class GitResult(Protocol):
    """How a program ended, and what it said."""

    @property
    def code(self) -> int:
        """Its exit code."""
        ...

    @property
    def out(self) -> bytes:
        """What it printed."""
        ...

    @property
    def err(self) -> str:
        """What it complained about."""
        ...


class RunGit(Protocol):
    """Runs a program, bounded in time; the host's own way is one."""

    def __call__(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes = b"", seconds: float
    ) -> GitResult:
        """Run it to its end, or raise TimeoutError."""
        ...


class GitCells:
    """Refs of a remote, through a scratch repository that lives as long as this."""

    def __init__(self, url: str, *, shown: str, run: RunGit, environ: Mapping[str, str]) -> None:
        remote = url.removeprefix("git+")
        self._remote = remote.removeprefix("file://") if remote.startswith("file://") else remote
        self._run = run
        self._environ = environ
        self._folder = ""
        self._env: dict[str, str] = {}
        self.facts = CellFacts("git", shown, TTL_SECONDS, POLL_SECONDS)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Fetch the refs of these names and what they point to, in one connection."""
        wanted = sorted(names) if len(names) <= MANY else [""]
        specs = [f"+{REFS}{name}*:{MINE}{name}*" for name in wanted]
        options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-gc")
        self._reach("fetch", *options, "--", self._remote, *specs, seconds=seconds)
        lines = self._local("for-each-ref", "--format=%(objectname) %(refname)", MINE).decode().splitlines()
        refs = {ref.removeprefix(MINE): commit for commit, _, ref in (line.partition(" ") for line in lines)}
        found = self._documents({name: refs[name] for name in names if name in refs})
        return {name: Read(found.get(name), refs.get(name)) for name in names}

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Push one ref from the value that is expected."""
        ref = f"{REFS}{name}"
        commit = self._commit(document) if document is not None else ""
        words = ("push", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{tag or ''}")
        try:
            ran = self._git(*words, "--", self._remote, f"{commit}:{ref}", seconds=seconds)
        except TimeoutError as error:
            return SwapOutcome(None, Answer.UNKNOWN, str(error))
        lines = ran.out.decode(errors="replace").splitlines()
        if ran.code == 0 and "Done" in lines:
            return SwapOutcome(commit)
        refused = next((line for line in lines if line.startswith("!")), None)
        if refused is not None:
            remote = [line for line in ran.err.splitlines() if line.startswith("remote:")]
            said = "; ".join(line.strip() for line in (refused.split("\t")[-1], *remote[:3]))
            return SwapOutcome(None, Answer.CONFLICT, self._tamed(said))
        return SwapOutcome(None, Answer.UNKNOWN, self._tamed(_reason(ran.err)))

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the names of the refs."""
        said = self._reach("ls-remote", "--", self._remote, f"{REFS}{prefix}*", seconds=seconds).decode()
        return sorted(line.partition("\t")[2].removeprefix(REFS) for line in said.splitlines())

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Return nothing: a remote that took the probe keeps what it has taken."""
        del seconds
        return ()

    def close(self) -> None:
        """Remove the scratch repository."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _documents(self, commits: dict[str, str]) -> dict[str, bytes]:
        """Return the document behind each commit."""
        asked = "".join(f"{commit}:{FILE}\n" for commit in commits.values())
        said = self._local("cat-file", "--batch", stdin=asked.encode()) if commits else b""
        found = {}
        for name in commits:
            head, _, said = said.partition(b"\n")
            kind = head.split()
            if len(kind) != 3:  # noqa: PLR2004  # as git spells it: object, kind, size; or that there is none
                found[name] = b"no file of a cell"
                continue
            found[name], said = said[: int(kind[2])], said[int(kind[2]) + 1 :]
        return found

    def _commit(self, document: bytes) -> str:
        blob = self._local("hash-object", "-w", "--stdin", stdin=document).decode().strip()
        tree = self._local("mktree", stdin=f"100644 blob {blob}\t{FILE}\n".encode()).decode().strip()
        return self._local("commit-tree", tree, stdin=b"cell\n").decode().strip()

    def _local(self, *words: str, stdin: bytes = b"") -> bytes:
        try:
            ran = self._git(*words, stdin=stdin, seconds=LOCAL_SECONDS)
        except TimeoutError as error:
            raise StoreUnavailable(f"git {words[0]}: {error}.") from None
        if ran.code:
            raise StoreUnavailable(f"git {words[0]} failed on this machine: {_reason(ran.err)}")
        return ran.out

    def _reach(self, *words: str, seconds: float) -> bytes:
        try:
            ran = self._git(*words, seconds=seconds)
        except TimeoutError as error:
            raise StoreUnavailable(f"{self.facts.url} cannot be reached: {error}.") from None
        if ran.code:
            raise StoreUnavailable(f"{self.facts.url} cannot be reached: {self._tamed(_reason(ran.err))}")
        return ran.out

    def _git(self, *words: str, stdin: bytes = b"", seconds: float) -> GitResult:
        if not self._folder:
            self._prepare()
        return self._run(["git", *SAFE, *words], cwd=self._folder, env=self._env, stdin=stdin, seconds=seconds)

    def _prepare(self) -> None:
        """Make an empty repository, and an environment in which git never asks for a password."""
        if shutil.which("git", path=self._environ.get("PATH")) is None:
            raise Misconfigured("a store in a git remote needs git, which was not found on PATH.")
        self._folder = tempfile.mkdtemp(prefix="fencepost-cells-")
        for name in ("objects", "refs"):
            os.mkdir(os.path.join(self._folder, name))
        with open(os.path.join(self._folder, "HEAD"), "w", encoding="utf-8") as file:
            file.write("ref: refs/heads/none\n")
        kept = {name: value for name, value in self._environ.items() if not name.startswith("GIT_") or name in KEPT}
        kept = {name: value for name, value in kept.items() if name not in ("SSH_ASKPASS", "FENCEPOST_STORE_KEY")}
        quiet = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_ASKPASS": "true", "LC_ALL": "C"}
        self._env = {**kept, **AUTHOR, **quiet, "GIT_DIR": self._folder}
        if "ssh" in self._remote.partition(":")[0] and "GIT_SSH" not in kept:
            self._env["GIT_SSH_COMMAND"] = f"{self._ssh()} -oBatchMode=yes"

    def _ssh(self) -> str:
        named = self._env.get("GIT_SSH_COMMAND")
        if named:
            return named
        ran = self._run(
            ["git", "config", "--get", "core.sshCommand"], cwd=self._folder, env=self._env, seconds=LOCAL_SECONDS
        )
        return ran.out.decode().strip() or "ssh"

    def _tamed(self, words: str) -> str:
        """Show the remote without its password."""
        return words.replace(self._remote, self.facts.url)


def _reason(said: str) -> str:
    marks = ("remote:", "error:", "fatal:", "ssh:", "Permission", "Host key")
    lines = [line for line in said.splitlines() if line.startswith(marks)]
    return "; ".join(lines[:3]) or said[:300] or "git said nothing"
