"""Installs the real agent CLIs into a cache of their own: `python -m tests.agents.install`.

What is there already is kept. What cannot be had is told loudly and fails: a suite that skips it would look green.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.agents.clis import CACHE, CLIS, Cli

MARK = "installed"  # written last: a folder without it was never finished
NPM = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error", "--ignore-scripts=false")


def install(cli: Cli) -> str:
    """Install one CLI, and return what went wrong; nothing if it is there."""
    if (cli.folder / MARK).exists():
        return ""
    shutil.rmtree(cli.folder, ignore_errors=True)
    cli.folder.mkdir(parents=True)
    for words in _steps(cli):
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return f"{' '.join(words[:2])} … {cli.spec}: {ran.stderr.strip()[-500:]}"
    if not cli.path.exists():
        return f"{cli.spec} has no {cli.program}."
    (cli.folder / MARK).write_text(cli.spec)
    return ""


def _steps(cli: Cli) -> list[list[str]]:
    if cli.by_pip:  # an environment of its own: it pins what others need newer
        pip = str(cli.folder / "bin" / "pip")
        return [[sys.executable, "-m", "venv", str(cli.folder)], [pip, "install", "--quiet", cli.spec]]
    return [["npm", "install", "--prefix", str(cli.folder), *NPM, cli.spec]]


def absent() -> list[Cli]:
    """Return the CLIs that are not installed."""
    return [cli for cli in CLIS if not (cli.folder / MARK).exists()]


def prune(cache: Path = CACHE) -> None:
    """Remove versions that are no longer tried."""
    kept = {cli.folder for cli in CLIS}
    for folder in cache.iterdir() if cache.exists() else ():
        if folder not in kept:
            shutil.rmtree(folder)


def main() -> int:
    """Install all of them, one after the other."""
    prune()
    problems = {cli.name: problem for cli in CLIS if (problem := install(cli))}
    for name, problem in problems.items():
        print(f"{name} CANNOT BE INSTALLED, and is not tried: {problem}", file=sys.stderr)
    print(f"{len(CLIS) - len(problems)} of {len(CLIS)} agent CLIs are in {CACHE}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
