"""Makes a failing seed smaller: leaves out faults, half of them at first, as long as the same promise is broken."""

from collections.abc import Callable

from tests.simulation.simulate import Result

TRIES = 150


def shrink(play: Callable[[int, frozenset[int]], Result], seed: int) -> Result:
    """Return the result of the same seed with as few faults as were needed, as far as was found."""
    best = play(seed, frozenset())
    if best.violation is None:
        return best
    invariant, spared = best.violation.invariant, frozenset[int]()
    tries, size = 0, max(1, len(best.strikes) // 2)
    while tries < TRIES:
        left = sorted(best.strikes)
        for start in range(0, len(left), size):
            tries += 1
            tried = play(seed, spared | frozenset(left[start : start + size]))
            if tried.violation is not None and tried.violation.invariant == invariant:
                best, spared = tried, spared | frozenset(left[start : start + size])
                break
        else:
            if size == 1:
                break
            size //= 2
    return best
