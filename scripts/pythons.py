"""Runs the suite on every Python that Fencepost supports, and on the next one, where it is found: on PATH, or kept by pyenv or uv.

Each has an environment of its own below .venvs/. What is asked for by name has to be there: python scripts/pythons.py 3.12 3.13
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLASSIFIER = "Programming Language :: Python :: "
NEXT = "3.14"  # tried where it is; not promised before the suite was green on it


def main(wanted: list[str]) -> int:
    """Test on each, and say at the end how it went."""
    found = {version: path for version in wanted or versions() if (path := find(version))}
    missing = [version for version in wanted or versions() if version not in found]
    if missing:
        print(f"not here: Python {', '.join(missing)}", file=sys.stderr)
    ended = {version: test(version, path) for version, path in found.items()}
    for version, code in ended.items():
        print(f"Python {version}: {'green' if code == 0 else f'failed with {code}'}  ({found[version]})")
    return 0 if found and not any(ended.values()) and not (wanted and missing) else 1


def versions() -> list[str]:
    """Return the versions that the package says it runs on, and the next one."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [*(one.removeprefix(CLASSIFIER) for one in classifiers if one.startswith(f"{CLASSIFIER}3.")), NEXT]


def find(version: str) -> str | None:
    """Return the path of the first Python that is really of this version."""
    return next((path for path in candidates(version) if is_version(path, version)), None)


def candidates(version: str) -> Iterator[str]:
    """Yield where it may be. A shim of pyenv is there for versions, too, that are not switched on."""
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    for question in (["pyenv", "prefix", version], ["uv", "python", "find", "--no-python-downloads", version]):
        if not shutil.which(question[0]):
            continue
        asked = subprocess.run(question, capture_output=True, text=True, check=False, timeout=60)
        answer = asked.stdout.strip()
        if asked.returncode == 0 and answer:
            yield os.path.join(answer, "bin", "python") if question[0] == "pyenv" else answer


def is_version(path: str, version: str) -> bool:
    """Ask the program itself."""
    question = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    asked = subprocess.run([path, "-c", question], capture_output=True, text=True, check=False, timeout=60)
    return asked.stdout.strip() == version


def test(version: str, path: str) -> int:
    """Run the suite as `make test` does."""
    print(f"Python {version}: {path}", flush=True)
    return subprocess.run(
        ["make", "test", f"PYTHON={path}", f"VENV=.venvs/{version}", *passed_on()], cwd=ROOT, check=False
    ).returncode


def passed_on() -> Iterator[str]:
    """Pass on which tests are meant, and how many at once."""
    return (f"{name}={os.environ[name]}" for name in ("PYTEST", "JOBS") if os.environ.get(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
