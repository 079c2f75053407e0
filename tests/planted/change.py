"""A mistake in a copy of the product's sources, and the tests that must fail on it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = os.path.join(ROOT, "src")
SECONDS_MAX = 120


class Change(NamedTuple):
    """Words in one file that are replaced, and which tests to ask."""

    area: str
    name: str
    path: str  # below src/fencepost
    old: str
    new: str
    tests: tuple[str, ...]  # files, or tests in them
    nth: int = 0  # which of its occurrences

    def applied(self, text: str) -> str:
        """Return the text with the mistake in it."""
        parts = text.split(self.old)
        assert len(parts) > self.nth + 1, f"{self.path} has changed: there is no {self.old!r} in it"
        before, after = parts[: self.nth + 1], parts[self.nth + 1 :]
        return self.old.join(before) + self.new + self.old.join(after)


class Copy:
    """The product's sources once more, to be changed and put right again."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "src")
        leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(SOURCES, self.folder, ignore=leave_out)
        self._seconds = 1_000_000_000

    @contextmanager
    def changed(self, change: Change) -> Iterator[None]:
        """Have the mistake in place for a while."""
        path = os.path.join(self.folder, "fencepost", change.path)
        right = read(path)
        self._put(path, change.applied(right))
        try:
            yield
        finally:
            self._put(path, right)

    def noticed_by(self, change: Change) -> str | None:
        """Return the first test that fails with the mistake in place, or None if all of them pass."""
        with self.changed(change):
            return self.first_failure(change.tests)

    def first_failure(self, tests: tuple[str, ...]) -> str | None:
        """Return the first of these tests that fails on the copy, or None."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", *tests]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return f"{tests[0].rpartition('/')[2]}: no end"
        if done.returncode == 0:
            return None
        failed = re.search(r"^FAILED (?:\S*/)?(\S+::[^\n]*?)(?: - |$)", done.stdout, re.MULTILINE)
        assert done.returncode == 1, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        assert failed is not None, f"no test failed, and yet something did:\n{done.stdout}{done.stderr}"
        return failed.group(1)

    def _environment(self) -> dict[str, str]:
        ours = {"PYTHONPATH": self.folder, "PYTHONPYCACHEPREFIX": f"{self.folder}.compiled"}
        return {
            **os.environ,
            **ours,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }  # none of them is needed, and some are slow

    def _put(self, path: str, text: str) -> None:
        """Write a file of another second than any before it: by size and second Python knows what it has compiled."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self._seconds += 2
        os.utime(path, (self._seconds, self._seconds))


def read(path: str) -> str:
    """Return a file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def source(path: str) -> str:
    """Return the text of one of the product's files."""
    return read(os.path.join(SOURCES, "fencepost", path))
