"""Plays seeds of machines at cells: `python -m tests.simulation.cells.run --seconds 60`, or one with `--seed N --trace`."""

import sys

from tests.simulation.cells.play import BITES, simulate_cells
from tests.simulation.run import command

if __name__ == "__main__":
    sys.exit(command(simulate_cells, __doc__ or "", BITES, sparing=simulate_cells))
