"""A bound of the kernel's own on what some processes may use together, as a service manager or a container sets it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.scratch import wait_until

ROOT = Path("/sys/fs/cgroup")
FILES = {  # by controller: the file of the limit in the old hierarchy and in the new one
    "pids": ("pids.max", "pids.max"),
    "memory": ("memory.limit_in_bytes", "memory.max"),
}


class Limit:
    """A cgroup of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def words(self) -> list[str]:
        """Return how a command line begins whose program shall live within the limit."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh"]

    def number(self) -> int:
        """Count the processes within."""
        return len((self.folder / "cgroup.procs").read_text().split())


@contextmanager
def limited(controller: str, limit: int) -> Iterator[Limit]:
    """Make a cgroup with such a limit; skip where this user may not."""
    folder = _below_ours(controller)
    if folder is None:
        pytest.skip(f"this user may make no {controller} cgroup here")
    try:
        yield Limit(_made(folder, controller, limit))
    finally:
        with suppress(FileNotFoundError):
            wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the cgroup is empty", seconds=20)
            folder.rmdir()


def _made(folder: Path, controller: str, limit: int) -> Path:
    old, new = FILES[controller]
    try:
        folder.mkdir()
        name = new if (folder / "cgroup.controllers").exists() else old
        (folder / name).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"this user may make no {controller} cgroup here: {error}")
    return folder


def _below_ours(controller: str) -> Path | None:
    """Return where a cgroup of this controller would be, below the one that we are in."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return ROOT / controller / path.lstrip("/") / f"fencepost-test-{os.getpid()}"
        if not controllers and controller in _controllers(ROOT / path.lstrip("/")):
            return ROOT / path.lstrip("/") / f"fencepost-test-{os.getpid()}"
    return None


def _controllers(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
