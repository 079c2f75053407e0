"""Runs seeds from the command line: `python -m tests.simulation.run --seeds 300`, or one with `--seed N --trace`."""

# ruff: noqa: T201  # this is a command

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Protocol

from tests.simulation.shrink import shrink
from tests.simulation.simulate import Result, simulate

# What must have happened at least once before a batch of seeds says anything.
BITES = (
    "grants",
    "takeovers after expiry",
    "takeovers from the dead",
    "takeovers by silence",
    "stale writes tried",
    "stale writes refused",
    "acquire: answer lost",
    "renew: answer lost",
    "self-fences on silence",
    "ended by the guard at the deadline",
    "starts that came too late",
    "served from the queue",
    "broken by hand",
    "lost tails",
    "clock steps",
    "kills",
    "stops",
    "sleeps",
    "reboots",
    "partitions",
    "fails before",
    "never returns",
    "done again later",
    "fails now, done later",
    "caller dies before",
    "caller dies after",
)


TAKEOVERS = ("takeovers", "takeovers after expiry", "takeovers from the dead")


def toothless(totals: Counter[str], bites: Sequence[str] = BITES) -> list[str]:
    """Return what a batch of seeds never did."""
    return [bite for bite in bites if not totals[bite]]


def summary(results: Iterable[Result], real_seconds: float, bites: Sequence[str] = BITES) -> str:
    """Say what a batch of seeds came to."""
    totals: Counter[str] = Counter()
    simulated = 0.0
    for result in results:
        totals.update(result.totals)
        simulated += result.simulated_seconds
        totals["seeds that failed"] += result.violation is not None
    lines = [f"{name:>36} {totals[name]:>8}" for name in sorted(totals)]
    missing = f"never happened: {', '.join(toothless(totals, bites)) or 'nothing, every fault bit'}"
    return "\n".join([*lines, figures(totals, simulated, real_seconds), missing])


def figures(totals: Counter[str], simulated: float, real_seconds: float) -> str:
    """Say how much was played, how fast, what was tried at gates, and how far the zeros can be trusted."""
    time_part = (
        f"{simulated / 3600:.1f} h simulated in {real_seconds:.1f} s, {simulated / real_seconds:.0f} times as fast"
    )
    lease_part = f"{totals['grants']} grants, {sum(totals[name] for name in TAKEOVERS)} takeovers"
    gate_part = f"{totals['stale writes tried']} stale writes tried, {totals['stale writes passed']} passed"
    counted = f"{totals['seeds']} seeds, {totals['events']} events: {time_part}; {lease_part}; {gate_part}"
    return f"{counted}\n{_bounds(totals)}"


def _bounds(totals: Counter[str]) -> str:
    """Say how far zeros can be trusted: none in n tries bounds the rate by 3/n, at 95 %."""
    tries = {"seeds that failed": totals["seeds"], "stale writes passed": totals["stale writes tried"]}
    said = [
        f"{name}: 0 of {n}, so fewer than 1 in {n // 3}" for name, n in tries.items() if n >= 3 and not totals[name]
    ]
    return "; ".join(said) or "no bound"


class Sparing(Protocol):
    """How one seed is played without some of its faults."""

    def __call__(self, seed: int, *, spared: frozenset[int] = frozenset()) -> Result: ...


def command(
    play: Callable[[int], Result], description: str, bites: Sequence[str] = BITES, *, sparing: Sparing | None = None
) -> int:
    """Play the seeds that were asked for; return whether one of them failed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--digest", action="store_true")
    if sparing is not None:
        shrinking = "leave out every fault that a failing seed does not need"
        parser.add_argument("--shrink", action="store_true", help=shrinking)
    parser.add_argument("--seconds", type=float, help="go on with seed after seed for so long")
    arguments, _ = parser.parse_known_args()
    one = arguments.seed is not None
    seeds: Iterable[int] = [arguments.seed] if one else range(arguments.start, arguments.start + arguments.seeds)
    began = time.perf_counter()
    if arguments.seconds:
        seeds = takewhile(lambda _: time.perf_counter() - began < arguments.seconds, count(arguments.start))
    results: list[Result] = []
    for seed in seeds:
        result = play(seed)
        results.append(result)
        if arguments.trace:
            print("\n".join(result.trace))
        if arguments.digest:
            print(seed, result.digest)
        if result.violation and sparing is not None and arguments.shrink:
            result = shrink(partial(_without, sparing), seed)
            print(f"{len(result.strikes)} faults are enough:", *result.strikes.values(), sep="\n  ")
        if result.violation:
            print(result.report(), flush=True)
        result.trace.clear()
    print(summary(results, time.perf_counter() - began, bites))
    return int(any(result.violation for result in results))


def _without(sparing: Sparing, seed: int, spared: frozenset[int]) -> Result:
    return sparing(seed, spared=spared)


if __name__ == "__main__":
    sys.exit(command(simulate, __doc__ or "", sparing=simulate))
