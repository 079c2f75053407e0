"""Runs git, bounded in time, and with nothing of a repository's own that could run programs."""

import os
import subprocess
from collections.abc import Callable

from fencepost.gates.git.refs import SAFE
from fencepost.model.errors import GateUnreachable, Misconfigured

SECONDS = 120.0


class GitRefused(Exception):
    """Git said no; its words are the message."""


def git(
    *words: str,
    folder: str,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    safe: bool = True,
    seconds: float = SECONDS,
    hear: Callable[[str], None] | None = None,
) -> str:
    """Run git in a repository and return what it printed, or raise Failed; not safe: with the settings of its own.

    `hear` is told what it said besides.
    """
    try:
        ran = subprocess.run(
            ["git", *(SAFE if safe else ()), *words],
            cwd=folder,
            env=environment(env or {}),
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise Misconfigured("a git gate needs git, which is not installed here.") from None
    except subprocess.TimeoutExpired:
        raise GateUnreachable(f"git {words[0]} took longer than {seconds:.0f} s, and was ended.") from None
    if ran.returncode:
        raise GitRefused(ran.stderr.decode(errors="replace").strip() or f"git {words[0]} ended with {ran.returncode}")
    if hear is not None:
        hear(ran.stderr.decode(errors="replace"))
    return ran.stdout.decode(errors="replace")


def environment(more: dict[str, str]) -> dict[str, str]:
    """Return git's environment: git never asks for a password, and no variable points it elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in KEPT}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **more}


# How to reach a remote is the caller's business; which repository, index or objects to use is not.
KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
