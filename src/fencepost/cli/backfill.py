"""`fencepost schedule backfill NAME`: make runs for ticks that are over."""

import argparse
from datetime import timedelta

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.progress_bar import ProgressBar
from fencepost.cli.registry import actor
from fencepost.model.duration import parse_duration
from fencepost.operations.backfill import BACKFILL_MAX, backfill
from fencepost.operations.phrases import counted
from fencepost.operations.run_queries import moment

EXAMPLES = """\
  fencepost schedule backfill nightly --from 2026-03-01 --until 2026-03-08
  fencepost schedule backfill nightly --from 2026-03-01T00:00:00Z \\
      --until 2026-03-08T00:00:00Z --current
"""


def main(argv: list[str]) -> int:
    """Make the runs of a range, and print their ids."""
    args = parser().parse_args(argv)
    tenant = options.tenant_of(args)
    with options.opened(args) as store, ProgressBar("making runs"):
        made = backfill(
            store,
            tenant=tenant,
            schedule=args.name,
            from_=moment(store, tenant, args.name, args.start),
            until=moment(store, tenant, args.name, args.end),
            current=args.current,
            name=args.as_name,
            limit=args.limit,
            stagger=timedelta(seconds=parse_duration(args.stagger)) if args.stagger else None,
            again=args.again,
            new_run_id=wiring.new_run_id,
            by=actor(),
        )
    if args.json:
        options.print_json([made])
        return 0
    if not made.ticks and not args.current:
        render.tell(
            f"no version of {args.name} that was in force then has a tick there; as it is defined now: --current"
        )
    known = f", {made.known} of them made before" if made.known else ""
    render.tell(f"{counted(made.ticks, 'tick')}{known}; {counted(len(made.run_ids), 'new run')}")
    for run_id in made.run_ids:
        print(run_id)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "schedule backfill",
        "Make a run for every tick of a range that is over, with the version that was in force then.",
        EXAMPLES,
    )
    made.add_argument("name", metavar="SCHEDULE", help="the schedule")
    made.add_argument("--from", dest="start", required=True, metavar="T", help="instant, or wall time of the schedule")
    made.add_argument("--until", dest="end", required=True, metavar="T", help="where to stop; left out itself")
    made.add_argument("--current", action="store_true", help="with the version that is in force now")
    made.add_argument(
        "--name", dest="as_name", metavar="N", help="another backfill of the same range needs its own name"
    )
    made.add_argument(
        "--again", action="store_true", help="also where records were pruned, and it is not known what ran"
    )
    made.add_argument("--stagger", metavar="D", help="how far apart the runs become ready (default: the schedule's)")
    made.add_argument(
        "--limit", type=options.positive, default=BACKFILL_MAX, metavar="N", help=f"at most (default {BACKFILL_MAX})"
    )
    options.add_json(made)
    options.add_store(made)
    return made
