"""A writer that is frozen in the middle of its write: between the comparison, where there is one, and the effect.

late_writer.py KIND PLACE FENCE TEXT

It stops itself, and goes on when it is told to. Exits like the command line does.
"""

import os
import signal
import sys

from fencepost.model.errors import FencepostError
from fencepost.model.gate import Proof
from tests.gates.guards import ALL_BY_PLACE


def main(kind: str, place: str, fence: str, text: str) -> int:
    """Write, with a long pause."""
    proof = Proof("default", ("lock:z",), int(fence), os.environ.get("STORE", "A"), "elsewhere", f"run-{fence}")
    try:
        ALL_BY_PLACE[kind](place).write(proof, text, lambda: signal.raise_signal(signal.SIGSTOP))
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
