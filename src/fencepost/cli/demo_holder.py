"""One of the two holders of the demo: a program that holds a lease and never doubts that it does.

python -m fencepost.cli.demo_holder NAME FOLDER

It says on standard output, one JSON object per line, what it did; each line on standard input is a text to write.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

from fencepost import wiring
from fencepost.model.errors import FencepostError, FenceRefused
from fencepost.operations.gates import GateWriter, write_file
from fencepost.service.command_order import Order
from fencepost.service.held_lease import HeldLease, hold

LOCK = "lock:report"
NAIVE, GATED = "naive.txt", "gated.txt"
TTL_SECONDS = 3.0
WAIT_SECONDS = 60.0


def main(name: str, folder: str) -> int:
    """Hold the lease, and write what it is told to, in both ways."""
    url = f"sqlite:{folder}/state.db"
    order = Order(
        argv=(),
        tenant="default",
        resources=(LOCK,),
        label=name,
        ttl_seconds=TTL_SECONDS,
        wait_seconds=WAIT_SECONDS,
        gates=(wiring.open_gate(f"file:{folder}/{GATED}").target,),
    )
    tools = wiring.exec_tools(url)._replace(open_store=lambda: wiring.open_store(url), say=lambda _: None)
    held = hold(order, tools)
    tell(fence=held.fence)
    for line in sys.stdin:
        write(held, Path(folder), line.strip())
    with suppress(FencepostError):  # lost meanwhile, which is what this is about
        held.release()
    return 0


def write(held: HeldLease, folder: Path, text: str) -> None:
    """Write the same text past the gate and through it."""
    (folder / NAIVE).write_text(f"{text}\n", encoding="utf-8")
    try:
        write_file(GateWriter(held.proof, None), str(folder / GATED), f"{text}\n".encode())
    except FenceRefused as refused:
        tell(refused=str(refused), exit_code=refused.exit_code)
    else:
        tell(refused=None)


def tell(**fields: object) -> None:
    """Say what happened."""
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
