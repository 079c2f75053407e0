"""`fencepost store`: migrate, back up, restore, bump, prune or compact the store."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.progress_bar import ProgressBar
from fencepost.config.find import config_path
from fencepost.config.load import load, load_settings
from fencepost.model.duration import format_duration, parse_duration
from fencepost.model.errors import Invalid
from fencepost.model.instants import format_instant
from fencepost.operations import store_maintenance
from fencepost.operations.asked_by import actor_of
from fencepost.operations.audit_verification import Accepted, accept_losses
from fencepost.ports.store import LeaseStore
from fencepost.wiring import audit_sealing, store_choice

EXAMPLES = """\
examples:
  fencepost store backup ~/fencepost.backup
  fencepost store restore ~/fencepost.backup --store postgresql://db/fencepost
  fencepost store bump --to 1794781370283797    after a gate's fence_regress
  fencepost store backup finance.backup --tenant finance --move
  fencepost store prune --dry-run
  fencepost store compact --dry-run
  fencepost store migrate --store postgresql://owner@db.example/fencepost
"""


def main(argv: list[str]) -> int:
    """Parse, carry out one operation, and say what came of it."""
    args = parser().parse_args(argv)
    sentence, facts = ACTIONS[args.action](args)
    print(json.dumps(facts) if args.json else sentence)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--store", metavar="URL", help="sqlite:/path or postgresql://host/db; default: FENCEPOST_STORE")
    common.add_argument("--json", action="store_true", help="print one JSON object")
    top = argparse.ArgumentParser(
        prog="fencepost store",
        description="Look after the store: bring it up to date, back it up, restore it, lift its\nfences.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("migrate", parents=[common], help="bring the store to this program's schema")
    backup = actions.add_parser("backup", parents=[common], help="write one state of the store to a file")
    backup.add_argument("file", metavar="FILE")
    backup.add_argument("--tenant", metavar="T", help="only what is this tenant's")
    backup.add_argument(
        "--move", action="store_true", help="with --tenant: let it leave this store, for the one where FILE is restored"
    )
    restore = actions.add_parser("restore", parents=[common], help="replace the store's content by a backup's")
    restore.add_argument("file", metavar="FILE")
    restore.add_argument("--yes", action="store_true", help="do not ask, even if the store is not empty")
    bump = actions.add_parser("bump", parents=[common], help="lift the fence floor above every fence so far")
    bump.add_argument("--to", type=int, metavar="N", help="and at least to N, such as the mark of a gate")
    prune = actions.add_parser(
        "prune", parents=[common], help="let go of old runs and ticks now, as `up` does by itself"
    )
    prune.add_argument("--dry-run", action="store_true", help="only count")
    prune.add_argument("--retention", metavar="D", help="how long to keep them (default: the configuration's, or 90d)")
    prune.add_argument("--tenant", metavar="T", help="default: the configuration's, else 'default'")
    compact = actions.add_parser(
        "compact",
        parents=[common],
        help="give old runs and entries of the audit a narrow form; older Fenceposts can no longer open the store",
    )
    compact.add_argument("--dry-run", action="store_true", help="only count")
    return options.share_examples(top, actions)


def migrate(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Bring the store to this program's schema."""
    url = store_choice.store_url(args.store)
    with ProgressBar("migrating the store") as bar:
        before, after = wiring.migrate_store(url, lambda at, newest: bar.to(at, newest, f"schema {at} of {newest}"))
    state = "already has" if before == after else f"went from schema {before} to"
    return f"the store {state} schema {after}.", {"from": before, "to": after}


def backup(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Write one state of the store to a file."""
    if args.move and not args.tenant:
        raise Invalid("--move is for one tenant: add --tenant T.")
    with opened(args, store_choice.existing_store) as store, ProgressBar("backing up") as bar:

        def tell(rows: int) -> None:
            bar.to(rows, words=f"{rows:,} rows")

        if args.move:
            by = actor_of(os.environ)
            done = store_maintenance.send_away(store, args.file, tenant=args.tenant, by=by, progress=tell)
        else:
            done = store_maintenance.backup(store, args.file, tenant=args.tenant, progress=tell)
    sentence = f"backed up {done.rows} rows of store {done.store} to {done.path}."
    if args.move:
        sentence += (
            f"\nTenant {args.tenant} has left: nothing of it happens here any more. Let it go on in its new store with:\n"
            f"fencepost store restore {done.path} --store URL"
        )
    return sentence, {**done._asdict(), "tenant": args.tenant, "moved": args.move}


def restore(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Replace the store's content by a backup's."""
    with opened(args) as store, ProgressBar("restoring") as bar:
        done = store_maintenance.restore(
            store,
            args.file,
            confirm=lambda url: args.yes or bar.aside(lambda: ask(url)),
            by=actor_of(os.environ),
            progress=lambda rows, of: bar.to(rows, of, words=f"{rows:,} of {of:,} rows"),
        )
    losses = _accept_losses(args)
    lost_from, lost_until = format_instant(done.lost_from), format_instant(done.lost_until)
    whose = (
        f"as store {done.store}; every lease is" if done.tenant is None else f"of tenant {done.tenant}; its leases are"
    )
    sentence = (
        f"restored {done.rows} rows {whose} void, fences go on above {done.floor}.\n"
        f"What happened between {lost_from} and {lost_until} is lost."
    )
    for one in losses:
        sentence += (
            f"\nThe audit of tenant {one.tenant} goes on after seal {one.after}; seals up to {one.lost}, which this "
            "machine\nremembers, are lost with it. Other machines want the same word: fencepost audit accept --note TEXT"
        )
    facts = {"store": done.store, "tenant": done.tenant, "rows": done.rows, "floor": done.floor}
    lost_seals = [one._asdict() for one in losses]
    return sentence, {**facts, "lost_from": lost_from, "lost_until": lost_until, "lost_seals": lost_seals}


def _accept_losses(args: argparse.Namespace) -> list[Accepted]:
    """Let each tenant's audit go on from the backup, on record: a restore is a person's own word for the loss."""
    with closing(wiring.open_runtime(store_choice.store_url(args.store))) as store:
        note = f"restored {os.path.basename(args.file)}"
        return accept_losses(store, audit_sealing.kept_seals(store), by=actor_of(os.environ), note=note)


def bump(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Lift the fence floor."""
    with closing(wiring.open_leases(store_choice.existing_store(args.store))) as store:
        floor = store_maintenance.bump(store, to=args.to)
        for notice in store.facts().notices:
            render.tell(f"warning: {notice}")
    return f"every fence from now on is above {floor}.", {"floor": floor}


def prune(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Let go of old records."""
    path = config_path(os.environ, os.getcwd())
    settings = load(path).settings if path else load_settings()
    kept_for = timedelta(seconds=parse_duration(args.retention or settings.retention))
    tenant = args.tenant or os.environ.get("FENCEPOST_TENANT") or settings.tenant
    with (
        closing(wiring.open_runtime(store_choice.existing_store(args.store, tenant))) as store,
        ProgressBar("pruning") as bar,
    ):
        gone = store_maintenance.prune(
            store,
            tenant=tenant,
            kept_for=kept_for,
            dry=args.dry_run,
            progress=lambda records: bar.to(records, words=f"{records:,} records"),
        )
    verb = "would prune" if args.dry_run else "pruned"
    lost = f", {gone['leases']} lost leases" if gone["leases"] else ""
    what = f"{gone['runs']} runs, {gone['ticks']} ticks{lost} and {gone['pauses']} pauses of tenant {tenant}"
    facts = {"tenant": tenant, "dry_run": args.dry_run, **gone}
    return f"{verb} {what}; kept for {format_duration(int(kept_for.total_seconds()))}.", facts


def compact(args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Give old history its narrow form."""
    url = store_choice.existing_store(args.store)
    with closing(wiring.open_runtime(url)) as store, ProgressBar("compacting") as bar:
        done = store_maintenance.compact(
            store, dry=args.dry_run, progress=lambda at, of: bar.to(at, of, words=f"{at:,} of {of:,} records")
        )
    facts = {"dry_run": args.dry_run, **done._asdict()}
    if args.dry_run:
        return f"would pack {done.entries} entries of the audit and move {done.runs} runs.", facts
    if not any(done):
        return "there is nothing to pack yet.", facts
    return f"packed {done.entries} entries of the audit and moved {done.runs} runs.", facts


ACTIONS = {
    "migrate": migrate,
    "backup": backup,
    "restore": restore,
    "bump": bump,
    "prune": prune,
    "compact": compact,
}


def opened(
    args: argparse.Namespace, find: Callable[[str | None, str | None], str] = store_choice.store_url
) -> closing[LeaseStore]:
    """Open the store that the command line means, for as long as the block lasts."""
    return closing(wiring.open_store(find(args.store, getattr(args, "tenant", None))))


def ask(url: str) -> bool:
    """Ask a person, if there is one."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{url} is not empty. Replace what it holds and void every lease? Type yes: ", end="", file=sys.stderr)
    return input().strip() == "yes"
