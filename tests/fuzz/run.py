"""Fuzz one target with coverage as a guide, for so long.

    python -m tests.fuzz.run cron --seconds 60

Needs atheris (`make fuzz` installs it). What it finds is written into tests/fuzz/corpus/TARGET, and replayed by every test run.
"""

import argparse
import sys
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
GROWN = Path(__file__).parents[2] / "var" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--grown", metavar="FOLDER", help="where inputs that reach new code go (default: var/fuzz)")
    arguments = parser.parse_args()
    try:
        import atheris  # noqa: PLC0415  # only who fuzzes needs it
    except ModuleNotFoundError:
        sys.exit("atheris is not installed; run: make fuzz")
    with atheris.instrument_imports(include=["fencepost"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415  # what it imports is watched
    if arguments.target not in TARGETS:
        parser.error(f"there is no target {arguments.target!r}; one of {', '.join(TARGETS)}")
    kept = CORPUS / arguments.target
    kept.mkdir(exist_ok=True)
    grown = Path(arguments.grown or GROWN / arguments.target)
    grown.mkdir(parents=True, exist_ok=True)
    folders = [str(grown), str(kept)]  # new inputs go into the first; only what was found to be wrong is kept for ever
    options = [f"-max_total_time={arguments.seconds}", f"-artifact_prefix={kept}/", "-max_len=2000", "-timeout=20"]
    atheris.Setup([sys.argv[0], *folders, *options], TARGETS[arguments.target])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
