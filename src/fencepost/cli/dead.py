"""`fencepost dead list|show|replay|discard`: runs that need a person."""

import argparse

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.registry import actor
from fencepost.cli.run_words import what
from fencepost.cli.show import print_detail
from fencepost.model.errors import FencepostError, Invalid
from fencepost.operations.attempt_logs import log_of
from fencepost.operations.phrases import ago, fate, last_line
from fencepost.operations.records.run_record import dead_detail_record, dead_record, run_record
from fencepost.operations.run_queries import RunListing, SeenRun, Store, find_run, list_dead, show, with_attempts
from fencepost.operations.run_requests import discard, replay
from fencepost.wiring import state_folders

EXAMPLES = """\
  fencepost dead list
  fencepost dead show r01k9zq8
  fencepost dead replay r01k9zq8
  fencepost dead replay --all --schedule nightly --limit 10
  fencepost dead discard r01k9zq8 --note "the source was closed that day"
"""
LIMIT = 50
REPLAYS_MAX = 100


def main(argv: list[str]) -> int:
    """Do one thing with dead letters."""
    args = parser().parse_args(argv)
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        return ACTIONS[args.action](store, tenant, args)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("dead", "Look after dead letters: runs that ended in a way that needs a person.", EXAMPLES)
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = options.action(actions, "list", "list those that are still open, newest first")
    listing.add_argument("--schedule", default="", metavar="NAME", help="only this schedule's")
    options.add_listing(listing, limit=LIMIT)
    one = options.action(actions, "show", "show everything about one")
    one.add_argument("run", metavar="RUN", help="the run's id, or its beginning")
    again = options.action(actions, "replay", "make a new run of it: same tick and payload, a key of its own")
    again.add_argument("run", nargs="*", metavar="RUN", help="the run's id, or its beginning")
    again.add_argument("--all", action="store_true", help="all dead letters of a schedule, oldest first")
    again.add_argument("--schedule", default="", metavar="NAME", help="with --all: whose")
    again.add_argument(
        "--limit", type=options.positive, default=REPLAYS_MAX, metavar="N", help=f"with --all (default {REPLAYS_MAX})"
    )
    again.add_argument("--again", action="store_true", help="although it was replayed before")
    again.add_argument("--as-then", action="store_true", help="run what was defined then, not what is defined now")
    gone = options.action(actions, "discard", "take it off the desk; the run stays in the records")
    gone.add_argument("run", nargs="+", metavar="RUN", help="the run's id, or its beginning")
    gone.add_argument("--note", default="", metavar="TEXT", help="why, for readers of the audit")
    for action in (one, again, gone):
        options.add_json(action)
        options.add_store(action)
    return options.share_examples(made, actions)


def list_them(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """List dead letters."""
    listing = list_dead(store, tenant, schedule=args.schedule, limit=args.limit)
    if args.json:
        options.print_json(map(dead_record, listing.runs))
    else:
        print_letters(listing)
    return 0


def show_one(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """Show one dead letter, and what can be done with it."""
    detail = show(store, tenant, args.run)
    run = detail.seen.run
    if run.state != "dead":
        raise Invalid(f"run {run.id} is {run.state}, not dead; see: fencepost show {run.id}")
    log = log_of(detail.seen, state_folders.log_folder())
    if args.json:
        options.print_json([dead_detail_record(detail, log)])
        return 0
    print_detail(detail, log)
    print(f"\nrun it again:  fencepost dead replay {run.id}\noff the desk:  fencepost dead discard {run.id}")
    return 0


def replay_them(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """Replay dead letters; one that cannot be replayed does not stop the rest."""
    worst = 0
    for run_id in chosen(store, tenant, args):
        try:
            made = replay(
                store,
                run_id,
                tenant=tenant,
                new_run_id=wiring.new_run_id,
                by=actor(),
                again=args.again,
                as_then=args.as_then,
            )
        except FencepostError as error:
            render.tell(str(error))
            worst = max(worst, error.exit_code)
            continue
        render.tell(made.said or f"{run_id} is replayed as:")
        print(options.json_line(run_record(SeenRun(made.run))) if args.json else made.run.id, flush=True)
    return worst


def chosen(store: Store, tenant: str, args: argparse.Namespace) -> list[str]:
    """Return which dead letters are meant, oldest first."""
    if args.all == bool(args.run):
        raise Invalid("name the runs to replay, or say --all --schedule NAME.")
    if not args.all:
        return [find_run(store, tenant, text).id for text in args.run]
    if not args.schedule:
        raise Invalid("--all needs --schedule NAME, so that not every dead letter is meant.")
    listing = list_dead(store, tenant, schedule=args.schedule, limit=args.limit)
    return [seen.run.id for seen in reversed(listing.runs)]


def discard_them(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """Take dead letters off the desk."""
    for text in args.run:
        run = discard(store, find_run(store, tenant, text).id, tenant=tenant, by=actor(), note=args.note)
        done = f"{run.id} is off the desk; it stays in: fencepost runs --state dead"
        print(options.json_line(run_record(with_attempts(store, run))) if args.json else done)
    return 0


ACTIONS = {"list": list_them, "show": show_one, "replay": replay_them, "discard": discard_them}


def print_letters(listing: RunListing) -> None:
    """Print two lines for each: what died when, and why, with the last thing that it said."""
    if not listing.runs:
        print("no dead letters")
    for seen in listing.runs:
        run = seen.run
        died = ago(run.ended_us or run.created_us, listing.now_us)
        attempts = f", {run.attempt} attempts" if run.attempt > 1 else ""
        print(options.paint(_line(f"{run.id}  {what(seen)}  {died}{attempts}"), options.RED))
        said = last_line(seen.last_log)
        print(_line(f"  {fate(run.reason, run.exit_code)}" + (f": {said}" if said else "")))


def _line(text: str) -> str:
    return render.line(text)
