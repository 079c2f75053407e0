"""Plays seeds of adoption: `python -m tests.simulation.adoption.run --seconds 60`, or one seed."""

# ruff: noqa: T201  # this is a command

import argparse
import sys
import time
from collections import Counter
from itertools import count

from tests.simulation.adoption.play import simulate_adoption


def main() -> int:
    """Play; return whether a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    totals: Counter[str] = Counter()
    began, broken = time.perf_counter(), 0
    for seed in [arguments.seed] if arguments.seed is not None else count(arguments.start):
        result = simulate_adoption(seed)
        totals.update(result.totals)
        if arguments.trace:
            print("\n".join(result.trace))
        if result.violation:
            broken += 1
            print(result.report())
        if time.perf_counter() - began > arguments.seconds:
            break
    print(", ".join(f"{number:,} {name}" for name, number in sorted(totals.items())))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
