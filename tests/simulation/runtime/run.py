"""Runs seeds of the runtime: `python -m tests.simulation.runtime.run --seeds 200`, or one with `--seed N --trace`.

With `--store postgresql` they are played on a real server, started for it.
"""

import argparse
import sys
from functools import partial

from tests.simulation.run import command
from tests.simulation.runtime.bites import BITES
from tests.simulation.runtime.play import simulate_runtime


def main() -> int:
    """Play the seeds on the store that was asked for."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    arguments, _ = parser.parse_known_args()
    if arguments.store == "sqlite":
        return command(simulate_runtime, __doc__ or "", BITES, sparing=simulate_runtime)
    from tests.simulation.runtime.postgres import Stand  # noqa: PLC0415  # others need no server

    with Stand.of_our_own() as stand:
        play = partial(simulate_runtime, stand=stand)
        return command(play, __doc__ or "", BITES, sparing=play)


if __name__ == "__main__":
    sys.exit(main())
