"""`fencepost halt` and `unhalt`: the switch that stops everything."""

import argparse
import json

from fencepost.cli.registry import common_options, desk
from fencepost.operations import schedule_registry as operations
from fencepost.operations.records import as_json
from fencepost.operations.records.schedule_record import pause_record

EPILOG = """\
Ticks go on and are recorded as paused. What is running is left alone: end it
with 'fencepost cancel RUN'.

examples:
  fencepost halt --note "the model provider is down"
  fencepost unhalt
"""


def main(argv: list[str]) -> int:
    """Halt everything of a tenant."""
    found = _parser("halt", "Make no more runs, for every schedule of the tenant, until 'fencepost unhalt'.")
    found.add_argument("--note", default="", metavar="TEXT", help="why, for the next person who looks")
    args = found.parse_args(argv)
    with desk(args) as at:
        halted = operations.halt(at.store.registry(), tenant=at.tenant, note=args.note, actor=at.actor)
    said = as_json(pause_record(halted))
    whole = {"tenant": at.tenant, "halted_since": said["since"], **said}
    print(json.dumps(whole) if args.json else f"halted: tenant {at.tenant}.")
    return 0


def unhalt(argv: list[str]) -> int:
    """End the halt of a tenant."""
    args = _parser("unhalt", "End the halt. Schedules that were paused one by one stay paused.").parse_args(argv)
    with desk(args) as at:
        operations.unhalt(at.store.registry(), tenant=at.tenant, actor=at.actor)
    print(json.dumps({"tenant": at.tenant, "halted_since": None}) if args.json else f"going on: tenant {at.tenant}.")
    return 0


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"fencepost {name}",
        description=description,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
    )
