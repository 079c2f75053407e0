"""Plays seeds with one kind of gate after the other: `python -m tests.simulation.gates.run --seconds 60`, or one seed."""

# ruff: noqa: T201  # this is a command

import argparse
import sys
import time
from collections import Counter
from itertools import count

from tests.simulation.gates.kinds import BEST_EFFORT, KINDS
from tests.simulation.run import figures
from tests.simulation.simulate import simulate

SHOWN = (
    "seeds",
    "raises",
    "writes accepted",
    "stale writes tried",
    "stale writes passed",
    "frozen between check and write",
)


def main() -> int:
    """Play; return whether a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--gates", choices=[*KINDS, *BEST_EFFORT])
    parser.add_argument("--profile")
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    kinds = [arguments.gates] if arguments.gates else list(KINDS)
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    began, broken, simulated = time.perf_counter(), 0, 0.0
    for seed in [arguments.seed] if arguments.seed is not None else count(arguments.start):
        for kind in kinds:
            result = simulate(seed, profile=arguments.profile or ("zombies" if seed % 2 else None), gates=kind)
            totals[kind].update(result.totals)
            totals[kind]["seeds that failed"] += result.violation is not None
            simulated += result.simulated_seconds
            if arguments.trace:
                print("\n".join(result.trace))
            if result.violation:
                broken += 1
                print(
                    f"gates: {kind}\n{result.report().replace('simulation.run', f'simulation.gates.run --gates {kind}')}"
                )
        if time.perf_counter() - began > arguments.seconds:
            break
    for kind, counted in totals.items():
        print(f"{kind:>10}  " + ", ".join(f"{counted[name]:,} {name}" for name in SHOWN))
    print(figures(sum(totals.values(), start=Counter()), simulated, time.perf_counter() - began))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
