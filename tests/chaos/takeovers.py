"""How long it takes until a successor runs, measured on real processes and held against the promised bound (P6).

    python -m tests.chaos.takeovers --kills 100

On each store holders are killed (on the same host, where their death is proved at once) and frozen (where only the lease can
tell, as with another machine). A takeover is the time from the fault to the first line of the successor's agent.
"""

# ruff: noqa: T201  # it prints its findings

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fencepost.model.duration import parse_duration
from fencepost.service.admission import POLL_MAX_SECONDS
from tests.chaos.holders import TTL, Totals, rampage, store_of
from tests.support.ground import Ground

CLAIM_SECONDS = 1.0  # to lease, end what is left, raise gates and start Python; on a busy machine it is the whole of it
BINS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 60.0)
WIDTH = 50


class Kind(NamedTuple):
    """A way to lose a holder, and how long a takeover may take then."""

    name: str
    faults: tuple[str, ...]
    bound_seconds: float


KINDS = (
    Kind("killed, same host", ("kill supervisor", "kill supervisor and guard"), POLL_MAX_SECONDS + CLAIM_SECONDS),
    Kind(
        "frozen, lease runs out",
        ("freeze supervisor", "freeze all"),
        parse_duration(TTL) + POLL_MAX_SECONDS + CLAIM_SECONDS,
    ),
)


def measure(kind: Kind, store: str, *, number: int, seed: int) -> Totals:
    """Lose so many holders and return how long each successor took."""
    with tempfile.TemporaryDirectory(prefix="fencepost-takeover-") as folder, store_of(store) as url:
        ground = Ground(Path(folder), store=url)
        try:
            return rampage(ground, rounds=number, seed=seed, lanes=1, faults=kind.faults)
        finally:
            ground.close()


def histogram(times: list[float], bound_seconds: float) -> list[str]:
    """Draw the times; the line of the bound stands where it belongs."""
    lines, low, drawn = [], 0.0, False
    most = max((sum(a <= one < b for one in times) for a, b in zip((0.0, *BINS), BINS, strict=False)), default=1)
    for high in BINS:
        if not drawn and high > bound_seconds:
            lines.append(f"  {'':13}  ---- bound: {bound_seconds:g} s")
            drawn = True
        count = sum(low <= one < high for one in times)
        if count or any(one >= high for one in times):
            bar = "#" * round(WIDTH * count / max(1, most))
            lines.append(f"  {low:5.2f}-{high:5.2f} s  {bar} {count}")
        low = high
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of each kind on each store")
    parser.add_argument("--store", choices=["sqlite", "postgres"], action="append", help="only this one")
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {os.getloadavg()[0]:.1f} load, {os.cpu_count()} processors")
    failed = False
    for store in arguments.store or ("sqlite", "postgres"):
        for kind in [one for one in KINDS if one.name in (arguments.kind or [one.name])]:
            totals = measure(kind, store, number=arguments.kills, seed=arguments.seed)
            times = sorted(totals.takeover_seconds)
            beyond = sum(one > kind.bound_seconds for one in times)
            print(f"\n{store}, {kind.name}: {len(times)} takeovers")
            print("\n".join(histogram(times, kind.bound_seconds)))
            found = {
                "store": store,
                "kind": kind.name,
                "takeovers": len(times),
                "p50_s": round(statistics.median(times), 3) if times else None,
                "p99_s": round(times[int(0.99 * (len(times) - 1))], 3) if times else None,
                "max_s": round(times[-1], 3) if times else None,
                "bound_s": kind.bound_seconds,
                "beyond_bound": beyond,
                "overlaps_or_other_failures": len(totals.failures),
            }
            print(json.dumps(found))
            for failure in totals.failures:
                print("FAILED", failure)
            failed = failed or bool(totals.failures) or len(times) < arguments.kills
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
