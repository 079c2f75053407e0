"""Plays seeds of two stores: `python -m tests.simulation.moving.run --seconds 60`, or one with `--seed N --trace`."""

import sys

from tests.simulation.moving.play import BITES, simulate_moves
from tests.simulation.run import command

if __name__ == "__main__":
    sys.exit(command(simulate_moves, __doc__ or "", BITES))
