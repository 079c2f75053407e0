"""Calls git so that nothing but git answers: no hooks, no prompts, no settings of the caller's environment."""

import os
import subprocess
from collections.abc import Mapping

from fencepost.model.errors import FencepostError, Misconfigured

SECONDS_MAX = 600.0
TOLD_MAX = 400
NO_COMMIT = "0" * 40  # the old value of a ref that must not exist yet
# A repository's own settings could start programs, or change the tree behind our back.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sparseCheckout=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
)
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME")
WHO = "fencepost"


class GitFailed(FencepostError):
    """Git did not do what it was asked; its own words say why."""

    code = "git_failed"

    def __init__(self, message: str, *, code: int = 1) -> None:
        """Keep git's exit code for those who expect it."""
        super().__init__(message)
        self.status = code


class Git:
    """Git in one place: a directory to be in, or a repository and a working tree by name."""

    def __init__(self, folder: str, *, git_dir: str = "", index: str = "") -> None:
        self.folder = folder
        self._extra: dict[str, str] = {}
        if git_dir:
            self._extra |= {"GIT_DIR": git_dir, "GIT_WORK_TREE": folder}
        if index:
            self._extra["GIT_INDEX_FILE"] = index

    def ask(self, *words: str, data: str = "", accept: int = 0) -> str:
        """Return what git printed, or raise GitFailed with what it complained about; `accept` another code than 0."""
        done = self._run(words, data)
        if done.returncode not in (0, accept):
            said = done.stderr.decode(errors="replace").strip() or _ending(done.returncode)
            raise GitFailed(f"git {words[0]} in {self.folder}: {said[-TOLD_MAX:]}", code=done.returncode)
        return done.stdout.decode(errors="surrogateescape")

    def line(self, *words: str) -> str:
        """Return the one line that git printed."""
        return self.ask(*words).strip()

    def says(self, *words: str) -> bool:
        """Tell whether git says yes."""
        return self._run(words, "").returncode == 0

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a name means, or None."""
        done = self._run(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"), "")
        return done.stdout.decode().strip() or None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tell whether a commit is in the history of another."""
        return self.says("merge-base", "--is-ancestor", old, new)

    def _run(self, words: tuple[str, ...], data: str) -> subprocess.CompletedProcess[bytes]:
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        try:
            return subprocess.run(
                ["git", *settings, *words],
                cwd=self.folder,
                env=environment(os.environ, self._extra),
                input=data.encode(errors="surrogateescape"),
                capture_output=True,
                timeout=SECONDS_MAX,
                check=False,
            )
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                raise GitFailed(f"{self.folder} is gone.") from None
            raise Misconfigured("git was not found on PATH; install it, or set isolation = 'none'.") from None
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {words[0]} in {self.folder} took longer than {SECONDS_MAX:.0f} s.") from None


def _ending(code: int) -> str:
    return f"it was ended by signal {-code}" if code < 0 else f"exit code {code}"


def environment(inherited: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return what git sees: the little that it needs, no GIT_ variables, and no way to ask a person."""
    kept = {name: value for name, value in inherited.items() if name in KEPT}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ADVICE": "0",
        "GIT_AUTHOR_NAME": WHO,
        "GIT_AUTHOR_EMAIL": f"{WHO}@localhost",
        "GIT_COMMITTER_NAME": WHO,
        "GIT_COMMITTER_EMAIL": f"{WHO}@localhost",
        **extra,
    }
