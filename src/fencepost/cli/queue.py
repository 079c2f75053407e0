"""`fencepost queue`: what waits, in order, and behind what."""

import argparse

from fencepost.cli import options, render, runs
from fencepost.operations.fields import run_fields
from fencepost.operations.looking import Listing, list_live
from fencepost.operations.words import span

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
    if args.json:
        options.print_json(
            {**run_fields(one), "waits_for": one.place.waits_for(listing.now_us) if one.place else None}
            for one in listing.runs
        )
    else:
        print_queue(listing)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("queue", "Show what waits, in the order in which it will run, and behind what.", EXAMPLES)
    options.add_listing(made, limit=LIMIT)
    return made


def print_queue(listing: Listing) -> None:
    """Print two lines for each: who, and where it stands."""
    if not listing.runs:
        print("nothing waits")
    for one in listing.runs:
        run = one.run
        print(render.plain(f"{run.id}  {runs.what(one)}  {run.trigger}, for {span(listing.now_us - run.waiting_us)}"))
        if one.place:
            print(render.fit(render.plain(f"  {one.place.words(listing.now_us)}"), options.width()).rstrip())
