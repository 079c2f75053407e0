"""`fencepost drain`: stop the workers of this machine for good."""

import json

from fencepost.cli import options
from fencepost.model.duration import format_duration, parse_duration
from fencepost.operations.draining import drain_workers
from fencepost.wiring import machine_facts, state_folders

EXAMPLES = """\
  fencepost drain                agents finish or are handed back
  fencepost drain --wait 10m     wait longer for those that must finish
"""


def main(argv: list[str]) -> int:
    """Drain every worker of this user on this machine."""
    made = options.parser(
        "drain",
        "Stop the workers of this user on this machine: they start nothing more, agents finish or are handed back. A service "
        "that is only restarted needs no drain: its agents go on, and the next worker adopts them.",
        EXAMPLES,
    )
    made.add_argument("--wait", default="2m", metavar="D", help="how long to wait for them (2m)")
    made.add_argument("--json", action="store_true", help="one JSON object per worker")
    args = made.parse_args(argv)
    drained = drain_workers(
        state_folders.workers_folder(),
        machine_facts.this_hosts_processes(),
        machine_facts.system_clock(),
        seconds=parse_duration(args.wait),
    )
    for one in drained:
        words = "is gone" if one.gone else f"still drains after {format_duration(parse_duration(args.wait))}"
        print(json.dumps(one._asdict()) if args.json else f"worker {one.worker} (pid {one.pid}) {words}")
    if not drained and not args.json:
        print("no worker of this user runs here")
    return 0 if all(one.gone for one in drained) else 1
