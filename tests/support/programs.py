"""Servers of the system that tests want: found, or installed on a machine that lets us."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import pgbouncer

SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}


def program(name: str, package: str) -> str:
    """Return where a program is. A machine without it that may install nothing skips the test, unless it is CI's."""
    found = _find(name) or _install(name, package)
    if found:
        return found
    words = f"no {name}: install Debian's package `{package}`, or run the tests as root"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


def _find(name: str) -> str | None:
    return shutil.which(name, path=SEARCHED)


def _install(name: str, package: str) -> str | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    with Path(pgbouncer.__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other pytest workers install too, and apt-get suffers only one at a time
        if not _find(name):
            words = ["install", "-y", "--no-install-recommends", package]
            for command in (["update"], words):
                environment = {**os.environ, **QUIET}
                subprocess.run(["apt-get", *command], check=True, capture_output=True, timeout=300, env=environment)
    return _find(name)
