"""`fencepost unhalt`: let everything go on."""

import json

from fencepost.cli.halt import parser
from fencepost.cli.registry import desk
from fencepost.operations import schedule_registry as operations


def main(argv: list[str]) -> int:
    """End the halt of a tenant."""
    args = parser("unhalt", "End the halt. Schedules that were paused one by one stay paused.").parse_args(argv)
    with desk(args) as at:
        operations.unhalt(at.store.registry(), tenant=at.tenant, actor=at.actor)
    print(json.dumps({"tenant": at.tenant, "halted_since": None}) if args.json else f"going on: tenant {at.tenant}.")
    return 0
