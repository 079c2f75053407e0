"""Git repositories to work in, and what is in their commits. Each is made once and copied: git starts slowly."""

import atexit
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.support.scratch import folder_in_memory

FILES, FOLDERS = 5000, 50


def git(folder: Path, *words: str) -> str:
    """Run git as a person with a name."""
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def make_repository(folder: Path, *, large: bool = False) -> None:
    """Make a repository with a commit, and some files that git ignores; a large one has 5,000 files more."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # With its times, so that the index still knows each file by them; the device and inode it does not look at.
    subprocess.run(["cp", "-a", str(_template(large=large)), str(folder)], check=True)
    git(folder, "update-index", "-q", "--refresh")


@cache
def _template(*, large: bool) -> Path:
    """Make what is copied, once for all tests of this process."""
    lent = ExitStack()
    atexit.register(lent.close)
    folder = lent.enter_context(folder_in_memory()) / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("hello\n")
    (folder / "gone").write_text("to be deleted\n")
    (folder / ".gitignore").write_text("*.log\n.env\n__pycache__/\n")
    if large:
        _add_many(folder)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "gc", "-q")  # one pack is copied more quickly than thousands of objects
    return folder


def _add_many(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"d{number % FOLDERS}" / f"f{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")


def files_of(folder: Path, commit: str, *only: str) -> dict[str, str]:
    """Return the files of a commit with their content."""
    listed = git(folder, "ls-tree", "-r", commit, *only).splitlines()
    blobs = [
        (line.partition("\t")[2], line.split()[2]) for line in listed if line.split()[1] == "blob" and '"' not in line
    ]
    asked = "".join(f"{blob}\n" for _, blob in blobs).encode()
    told = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=folder, input=asked, capture_output=True, check=True
    ).stdout
    found = {}
    for name, _ in blobs:
        head, _, told = told.partition(b"\n")
        size = int(head.split()[2])
        found[name], told = told[:size].decode(errors="replace").strip(), told[size + 1 :]
    return found
