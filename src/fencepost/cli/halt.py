"""`fencepost halt`: the switch that stops everything."""

import argparse
import json

from fencepost.cli.registry import common_options, desk
from fencepost.model.light_instant import instant
from fencepost.operations import schedule_registry as operations

EPILOG = """\
Ticks go on and are recorded as paused. What is running is left alone: end it
with 'fencepost cancel RUN'.

examples:
  fencepost halt --note "the model provider is down"
  fencepost unhalt
"""


def main(argv: list[str]) -> int:
    """Halt everything of a tenant."""
    found = parser("halt", "Make no more runs, for every schedule of the tenant, until 'fencepost unhalt'.")
    found.add_argument("--note", default="", metavar="TEXT", help="why, for the next person who looks")
    args = found.parse_args(argv)
    with desk(args) as at:
        halted = operations.halt(at.store.registry(), tenant=at.tenant, note=args.note, actor=at.actor)
    since = instant(halted.since_us)
    print(json.dumps({"tenant": at.tenant, "halted_since": since}) if args.json else f"halted: tenant {at.tenant}.")
    return 0


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Describe the command line."""
    return argparse.ArgumentParser(
        prog=f"fencepost {name}",
        description=description,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
    )
