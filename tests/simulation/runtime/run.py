"""Runs seeds of the runtime: `python -m tests.simulation.runtime.run --seeds 200`, or one with `--seed N --trace`."""

import sys

from tests.simulation.run import command
from tests.simulation.runtime.play import simulate_runtime

if __name__ == "__main__":
    sys.exit(command(simulate_runtime, __doc__ or ""))
