"""Git repositories to work in, and what is in their commits."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Run git as a person with a name."""
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def make_repository(folder: Path) -> None:
    """Make a repository with a commit, and some files that git ignores."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "README").write_text("hello\n")
    (folder / "gone").write_text("to be deleted\n")
    (folder / ".gitignore").write_text("*.log\n.env\n__pycache__/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def files_of(folder: Path, commit: str, *only: str) -> dict[str, str]:
    """Return the files of a commit with their content."""
    listed = git(folder, "ls-tree", "-r", commit, *only).splitlines()
    names = [line.partition("\t")[2] for line in listed if line.split()[1] == "blob" and '"' not in line]
    return {name: git(folder, "show", f"{commit}:{name}") for name in names}
