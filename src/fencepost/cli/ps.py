"""`fencepost ps`: what runs and what waits, now."""

import argparse
from collections.abc import Sequence

from fencepost.cli import options, runs
from fencepost.model.run import RunState
from fencepost.operations.fields import run_fields
from fencepost.operations.looking import Listing, Seen, list_live
from fencepost.operations.places import Place
from fencepost.operations.words import rfc3339, span

EXAMPLES = """\
  fencepost ps
  fencepost ps --json | jq -r 'select(.state == "running") | .fence'
  watch fencepost ps
"""
LIMIT = 100


def main(argv: list[str]) -> int:
    """List what has not ended."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        listing = list_live(store, options.tenant_of(args), limit=args.limit)
    if args.json:
        options.print_json(map(run_fields, listing.runs))
    else:
        print_live(listing)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("ps", "Show what runs and what waits, now.", EXAMPLES)
    options.add_listing(made, limit=LIMIT)
    return made


def print_live(listing: Listing) -> None:
    """Print what runs, and below it what waits."""
    running = [one for one in listing.runs if one.run.state == RunState.RUNNING]
    waiting = [one for one in listing.runs if one.run.state == RunState.READY]
    if running:
        head = ("RUNNING", "WHAT", "FOR", "TRY", "FENCE", "WORKER")
        options.print_table(head, [running_row(one, listing.now_us) for one in running])
    if running and waiting:
        print()
    if waiting:
        columns = ("QUEUED", "WHAT", "FOR", "POS", "BEHIND")
        options.print_table(columns, [waiting_row(one, listing.now_us) for one in waiting])
    if not listing.runs:
        print("nothing runs, nothing waits")


def running_row(seen: Seen, now_us: int) -> Sequence[str]:
    """Tell a running run in one line."""
    run = seen.run
    worker = f"stopping, {run.worker}" if run.stop else run.worker or ""
    running_for = span(now_us - run.started_us) if run.started_us else "0s"
    return run.id, runs.what(seen), running_for, str(run.attempt), str(run.fence), worker


def waiting_row(seen: Seen, now_us: int) -> Sequence[str]:
    """Tell a waiting run in one line."""
    run, place = seen.run, seen.place
    position = str(place.position) if place else ""
    return run.id, runs.what(seen), span(now_us - run.waiting_us), position, _waits_for(place, now_us)


def _waits_for(place: Place | None, now_us: int) -> str:
    if place is None:
        return ""
    if place.behind is not None:
        return place.behind.words(now_us)
    if place.halted:
        return "halted"
    before = (
        f"a gate, tried again {rfc3339(place.not_before_us)}"
        if place.gate_closed
        else f"not before {rfc3339(place.not_before_us)}"
    )
    return before if place.not_before_us else "a worker"
