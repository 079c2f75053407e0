"""`fencepost ps`: what runs and what waits, now."""

import argparse
from collections.abc import Sequence

from fencepost.cli import options
from fencepost.cli.run_words import depths, fitted, what
from fencepost.operations.phrases import rfc3339, span, waited
from fencepost.operations.project_commands import Command
from fencepost.operations.queue_positions import QueuePosition
from fencepost.operations.run_queries import RunListing, SeenRun, list_live

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
        from fencepost.operations.records.run_record import live_record

        live = [*listing.inside, *listing.waiting][: args.limit]
        options.print_json(live_record(one, listing) for one in live)
    else:
        print_live(listing, limit=args.limit)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("ps", "Show what runs and what waits, now.", EXAMPLES)
    options.add_listing(made, limit=LIMIT)
    return made


def print_live(listing: RunListing, *, limit: int) -> None:
    """Print what runs, below it what waits, and how many wait in each project."""
    running = listing.inside[:limit]
    waiting = listing.waiting[: limit - len(running)]
    if running:
        head = ("RUNNING", "WHAT", "FOR", "TRY", "FENCE", "WORKER")
        options.print_table(head, [running_row(one, listing.now_us) for one in running])
        for one in running:
            if isinstance(one, SeenRun) and one.unattended is not None:
                print(options.wrapped(f"{one.run.id} is {one.unattended.words(listing.now_us)}."))
    if running and waiting:
        print()
    if waiting:
        columns = ("QUEUED", "WHAT", "FOR", "POS", "BEHIND")
        options.print_table(columns, [waiting_row(one, listing.now_us) for one in waiting])
        for line in depths(listing):
            print(options.paint(line, options.FAINT))
    if not running and not waiting:
        print("nothing runs, nothing waits")


def running_row(seen: SeenRun | Command, now_us: int) -> Sequence[str]:
    """Tell a running run, or a command in a project, in one line."""
    if isinstance(seen, Command):
        since_us = seen.started_us or seen.since_us
        return seen.run_id, fitted(seen.what), span(now_us - since_us), "", str(seen.fence), seen.where
    run = seen.run
    worker = f"stopping, {run.worker}" if run.stop else run.worker or ""
    worker = f"unattended, {worker}" if seen.unattended else worker
    running_for = span(now_us - run.started_us) if run.started_us else "0s"
    return run.id, what(seen), running_for, str(run.attempt), str(run.fence), worker


def waiting_row(seen: SeenRun | Command, now_us: int) -> Sequence[str]:
    """Tell a waiting run, or a command in line for a project, in one line."""
    position = str(seen.place.position) if seen.place else ""
    behind = _waits_for(seen.place, now_us)
    if isinstance(seen, Command):
        return seen.run_id, fitted(seen.what), span(now_us - seen.since_us), position, behind
    waits = waited(seen.run.waiting_us, now_us).removeprefix("for ")
    return seen.run.id, what(seen), waits, position, behind


def _waits_for(place: QueuePosition | None, now_us: int) -> str:
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
