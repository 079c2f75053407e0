"""Installs the real agent CLIs into a cache of their own: `python -m tests.agents.install`.

What is there already is kept. What cannot be had is told loudly and fails: a suite that skips it would look green. Nothing is
written outside of the cache and a temporary folder.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.agents.clis import CACHE, CLIS, Cli, tried

MARK = "installed"  # written last: a folder without it was never finished
NPM = (
    "--no-audit",
    "--no-fund",
    "--no-package-lock",
    "--loglevel=error",
    "--ignore-scripts=false",
    "--fetch-retries=1",
)
AT_ONCE = 4  # they wait for the network most of the time
SECONDS_MAX = 240.0  # for one of them; then it counts as one that cannot be had
RED, PLAIN = "\033[1;31m", "\033[0m"


def install(cli: Cli, downloads: Path) -> str:
    """Install one CLI, and return what went wrong; nothing if it is there."""
    if (cli.folder / MARK).exists():
        return ""
    shutil.rmtree(cli.folder, ignore_errors=True)
    cli.folder.mkdir(parents=True)
    for words in _steps(cli, downloads):
        if problem := _run(words):
            return f"{' '.join(words[:2])} … {cli.spec}: {problem}"
    if not cli.path.exists():
        return f"{cli.spec} has no {cli.program}."
    (cli.folder / MARK).write_text(cli.spec)
    return ""


def _steps(cli: Cli, downloads: Path) -> list[list[str]]:
    if cli.by_pip:  # an environment of its own: it pins what others need newer
        pip = str(cli.folder / "bin" / "pip")
        return [
            [sys.executable, "-m", "venv", str(cli.folder)],
            [pip, "install", "--quiet", "--no-cache-dir", "--no-compile", cli.spec],
        ]
    return [["npm", "install", "--prefix", str(cli.folder), "--cache", str(downloads / cli.name), *NPM, cli.spec]]


def _run(words: list[str]) -> str:
    """Run a program for so long at most, and return what it complained of, if it failed."""
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        return str(error)
    try:
        said = process.communicate(timeout=SECONDS_MAX)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # noqa: TID251  # a session of its own, started above
        process.communicate()
        return f"it took longer than {SECONDS_MAX:.0f} s, and was ended"
    return (said[-500:] or f"exit code {process.returncode}") if process.returncode else ""


def absent() -> list[Cli]:
    """Return the CLIs that are to be tried and are not installed."""
    return [cli for cli in tried() if not (cli.folder / MARK).exists()]


def prune(cache: Path = CACHE) -> None:
    """Remove versions that are no longer tried."""
    kept = {cli.folder for cli in CLIS}
    for folder in cache.iterdir() if cache.exists() else ():
        if folder not in kept:
            shutil.rmtree(folder)


def main() -> int:
    """Install those that are to be tried, a few at once, the largest first."""
    prune()
    wanted = sorted(tried(), key=lambda cli: not cli.by_pip)
    with tempfile.TemporaryDirectory(prefix="agents") as downloads, ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(lambda cli: install(cli, Path(downloads)), wanted))
    problems = {cli.name: problem for cli, problem in zip(wanted, said, strict=True) if problem}
    for name, problem in problems.items():
        print(f"{RED}{name} CANNOT BE INSTALLED, and is not tried: {problem}{PLAIN}", file=sys.stderr)
    print(f"{len(wanted) - len(problems)} of {len(wanted)} agent CLIs are in {CACHE}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
