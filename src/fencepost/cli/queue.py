"""`fencepost queue`: what waits, in order, and behind what."""

import argparse
from collections.abc import Sequence

from fencepost.cli import options, render
from fencepost.cli.run_words import depths, what
from fencepost.operations.phrases import span, waited
from fencepost.operations.project_commands import Command
from fencepost.operations.records.run_record import live_record
from fencepost.operations.run_queries import RunListing, SeenRun, list_live

EXAMPLES = """\
  fencepost queue
  fencepost queue --json | jq -r '"\\(.position) \\(.id)"'
"""
LIMIT = 50


def main(argv: list[str]) -> int:
    """List what waits."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        listing = list_live(store, options.tenant_of(args), limit=args.limit, waiting_only=True)
    waiting = listing.waiting[: args.limit]
    if args.json:
        options.print_json(live_record(one, listing) for one in waiting)
    else:
        print_queue(listing, waiting)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("queue", "Show what waits, in the order in which it will run, and behind what.", EXAMPLES)
    options.add_listing(made, limit=LIMIT)
    return made


def print_queue(listing: RunListing, waiting: Sequence[SeenRun | Command]) -> None:
    """Print how many wait in each project, then two lines for each: who, and where it stands."""
    if not waiting:
        print("nothing waits")
    for line in depths(listing):
        print(options.paint(line, options.FAINT))
    for one in waiting:
        print(render.line(_who(one, listing.now_us)))
        if one.place:
            print(render.line(f"  {one.place.words(listing.now_us)}"))


def _who(one: SeenRun | Command, now_us: int) -> str:
    if isinstance(one, Command):
        return f"{one.run_id}  {one.what}  exec, for {span(now_us - one.since_us)}"
    return f"{one.run.id}  {what(one)}  {one.run.trigger}, {waited(one.run.waiting_us, now_us)}"
