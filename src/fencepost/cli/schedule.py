"""`fencepost schedule`: look at schedules, and hold them back."""

import argparse
import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from fencepost.cli import options, render
from fencepost.cli.plan import tick_line
from fencepost.cli.registry import OpenStore, common_options, desk
from fencepost.model.duration import format_duration, parse_duration
from fencepost.model.fast_instant import instant
from fencepost.model.instants import format_instant, from_us, parse_instant, to_us
from fencepost.model.zone import find_zone
from fencepost.operations import schedule_registry as operations
from fencepost.operations.budget_use import budget_use
from fencepost.operations.phrases import rfc3339
from fencepost.operations.preview import parse_moment
from fencepost.operations.records import as_json
from fencepost.operations.records.schedule_record import pause_record, schedule_detail, schedule_record, version_record
from fencepost.operations.schedule_registry import Listed, coming
from fencepost.operations.scheduler_health import next_tick_us

NAME_WIDTH = 24
ELSEWHERE = {"ticks": "ticks_recorded", "backfill": "backfill"}  # actions that have a module of their own
EPILOG = """\
examples:
  fencepost schedule list
  fencepost schedule show nightly
  fencepost schedule pause nightly --until 2026-12-01T06:00:00Z --note "moving"
  fencepost schedule pause nightly --until 2h
  fencepost schedule resume nightly
  fencepost schedule skip-next nightly 2
  fencepost schedule history nightly --json
"""


def main(argv: list[str]) -> int:
    """Parse, carry out one operation, and say what came of it."""
    if argv and argv[0] in ELSEWHERE:
        from importlib import import_module

        return int(import_module(f"fencepost.cli.{ELSEWHERE[argv[0]]}").main(argv[1:]))
    args = parser().parse_args(argv)
    with desk(args) as at:
        for line in ACTIONS[args.action](args, at):
            print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    common = common_options()
    top = argparse.ArgumentParser(
        prog="fencepost schedule",
        description="Look at the schedules of the registry, and hold them back.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", parents=[common], help="all schedules, with their next tick")
    listing.add_argument("--limit", type=options.positive, default=options.LIMIT_MAX, metavar="N")
    for name, words in (
        ("show", "one schedule in full"),
        ("history", "its versions and pauses"),
        ("pause", "make no runs until it is resumed; its ticks are recorded as paused"),
        ("resume", "end the pause"),
        ("skip-next", "leave out the next ticks"),
    ):
        action = actions.add_parser(name, parents=[common], help=words)
        action.add_argument("name", metavar="SCHEDULE")
        if name == "history":
            action.add_argument("--limit", type=options.positive, default=options.LIMIT_MAX, metavar="N")
        if name == "pause":
            action.add_argument("--note", default="", metavar="TEXT", help="why, for the next person who looks")
            action.add_argument(
                "--until",
                metavar="T",
                help="an instant, a wall time of its zone such as 2026-12-01T06:00, or 2h from now",
            )
        if name == "skip-next":
            action.add_argument("count", nargs="?", type=int, default=1, metavar="N", help="how many; 0 takes it back")
    for name, words in (("ticks", "its recorded ticks"), ("backfill", "run a range of past ticks")):
        actions.add_parser(name, add_help=False, help=f"{words}; see 'fencepost schedule {name} --help'")
    return options.share_examples(top, actions)


def list_all(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """List the schedules."""
    listed = operations.list_schedules(at.store.registry(), tenant=at.tenant, limit=args.limit)
    if args.json:
        yield from (options.json_line(schedule_record(one)) for one in listed)
    elif not listed:
        yield f"no schedules in {at.url}, tenant {at.tenant}"
    else:
        rows = [_row(one) for one in listed]
        yield render.table(("NAME", "STATE", "NEXT", "CURSOR", "WHEN"), rows)


def show(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """Show one schedule in full."""
    found = schedule_detail(at.store, at.tenant, args.name)
    if args.json:
        yield options.json_line(found)
        return
    listed = operations.find_schedule(at.store.registry(), args.name, tenant=at.tenant)
    fields = {name: value for name, value in as_json(found).items() if name not in ("manifest", "upcoming")}
    fields["effects"] = found.effects.words()
    fields["budget"] = "; ".join(one.words for one in budget_use(at.store, at.tenant, listed))
    yield from (f"{name:<20}{_shown(value)}" for name, value in fields.items() if value not in (None, "", {}, 0))
    yield from (f"{'next':<20}{tick_line(tick)}" for tick in coming(listed))


def history(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """Show the versions and the pauses of a schedule, newest first."""
    versions, pauses = operations.history(at.store.registry(), args.name, tenant=at.tenant, limit=args.limit)
    for version in versions:
        if args.json:
            yield options.json_line(version_record(version))
        else:
            end = f" until {instant(version.until_us)}" if version.until_us is not None else ""
            by = render.plain(version.applied_by)
            yield f"version {version.version:<4} applied {instant(version.applied_us)} by {by}{end}"
    for one in pauses:
        if args.json:
            yield options.json_line(pause_record(one))
        else:
            to, by = rfc3339(one.until_us) or "further notice", render.plain(one.by_whom)
            yield f"paused       from {rfc3339(one.since_us)} to {to} by {by}  {render.plain(one.note)}".rstrip()


def pause(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """Pause a schedule."""
    wanted = None
    if args.until:
        wanted = _moment(args.until, operations.find_schedule(at.store.registry(), args.name, tenant=at.tenant))
    paused = operations.pause_schedule(
        at.store.registry(), args.name, tenant=at.tenant, until=wanted, note=args.note, actor=at.actor
    )
    end = rfc3339(paused.until_us)
    if args.json:
        said = as_json(pause_record(paused))
        yield json.dumps({"name": args.name, "paused_since": said["since"], **said})
    else:
        yield f"{args.name} is paused {f'until {end}' if end else 'until it is resumed'}."


def resume(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """Resume a schedule."""
    operations.resume_schedule(at.store.registry(), args.name, tenant=at.tenant, actor=at.actor)
    listed = operations.find_schedule(at.store.registry(), args.name, tenant=at.tenant)
    if args.json:
        yield options.json_line(schedule_record(listed))
    elif listed.state == "halted":
        yield f"{args.name} is no longer paused, but everything is halted; see: fencepost unhalt"
    else:
        yield f"{args.name} is resumed; next: {_next(listed) or 'no tick to come'}."


def skip_next(args: argparse.Namespace, at: OpenStore) -> Iterator[str]:
    """Skip the next ticks of a schedule."""
    ticks = operations.skip_next(at.store.registry(), args.name, args.count, tenant=at.tenant, actor=at.actor)
    texts = [format_instant(tick) for tick in ticks]
    if args.json:
        yield json.dumps({"name": args.name, "skips": texts})
    elif not args.count:
        yield f"{args.name} skips nothing."
    else:
        yield f"{args.name} skips {', '.join(texts) or 'nothing: it has no tick to come'}."


ACTIONS = {
    "list": list_all,
    "show": show,
    "history": history,
    "pause": pause,
    "resume": resume,
    "skip-next": skip_next,
}


def _row(listed: Listed) -> tuple[str, ...]:
    age = format_duration(max(0, (to_us(listed.now) - listed.row.cursor_us) // 1_000_000))
    name = render.cut(listed.row.name, render.room(NAME_WIDTH))
    return (name, listed.state, _next(listed) or "-", age, f"{_when(listed)} {listed.definition.timezone}".strip())


def _next(listed: Listed) -> str | None:
    return instant(next_tick_us(listed.row))


def _when(listed: Listed) -> str:
    return listed.definition.when


def _moment(text: str, listed: Listed) -> datetime:
    """Read an instant, a wall time of the schedule's zone, or a duration from the store's now on."""
    zone = listed.definition.timezone
    if not text[:1].isdigit() or "-" in text or ":" in text:
        return parse_moment(text, find_zone(zone)) if zone else parse_instant(text)
    return from_us(to_us(listed.now)) + timedelta(seconds=parse_duration(text))


def _shown(value: object) -> str:
    return render.plain(value if isinstance(value, str) else json.dumps(value))
