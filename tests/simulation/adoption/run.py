"""Plays seeds of adoption: `python -m tests.simulation.adoption.run --seconds 60`, or one with `--seed N --trace`."""

import sys

from tests.simulation.adoption.play import BITES, simulate_adoption
from tests.simulation.run import command

if __name__ == "__main__":
    sys.exit(command(simulate_adoption, __doc__ or "", BITES))
