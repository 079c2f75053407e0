"""Plants every mistake and reports how many seeds it took to notice: `make mutations`."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from tests.simulation import mutations as leases  # noqa: E402
from tests.simulation.runtime import mutations as runtime  # noqa: E402
from tests.simulation.world import Violation  # noqa: E402

Tried = Callable[[], tuple[int, Violation | None]]
LIMIT = 150
PAGE = os.path.join(ROOT, "docs", "reference", "mutations.md")
HEAD = """# Mistakes on purpose

Each takes one rule of the product away. The simulator must notice. Written by `make mutations`.

| mistake | seeds | noticed by |
|---|---|---|
"""


def main() -> int:
    """Try them all, print each as it is done, and write the page."""
    rows, missed = [], 0
    for area, name, tried in _all():
        began = time.perf_counter()
        seeds, violation = tried()
        missed += violation is None
        rows.append(
            f"| {area}: {name} | {seeds if violation else 'none'} | {violation.invariant if violation else 'nobody'} |"
        )
        print(f"{rows[-1]} {time.perf_counter() - began:.1f} s", flush=True)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n".join(rows) + f"\n\n{len(rows)} mistakes, {len(rows) - missed} noticed.\n")
    print(f"{len(rows)} mistakes, {missed} not noticed")
    return int(missed > 0)


def _all() -> Iterator[tuple[str, str, Tried]]:
    for name, of_leases in leases.mutations().items():
        yield "leases", name, partial(leases.seeds_until_caught, of_leases, LIMIT)
    for name, of_runtime in runtime.mutations().items():
        yield "runtime", name, partial(runtime.seeds_until_caught, of_runtime, LIMIT)


if __name__ == "__main__":
    sys.exit(main())
