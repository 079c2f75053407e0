"""`fencepost dst-check`: what the coming clock changes will do."""

import argparse
from collections.abc import Iterator

from fencepost.cli import options, render
from fencepost.model.instants import format_instant
from fencepost.model.zone import find_zone, tzdata_version
from fencepost.operations.dst import Check, DstEffect, check
from fencepost.operations.phrases import local

EXAMPLES = """\
  fencepost dst-check
  fencepost dst-check --years 5 --json | jq 'select(.effect == "skipped")'
"""
LIMIT = 100
YEARS_MAX = 50


def main(argv: list[str]) -> int:
    """Walk the zones of all active schedules."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        found = check(store, options.tenant_of(args), years=args.years)
    if args.json:
        options.print_json(found.effects[: args.limit])
        return 0
    for line in page(found, args.limit):
        print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("dst-check", "Show what the coming clock changes will do to every active schedule.", EXAMPLES)
    made.add_argument("--years", type=years, default=1, metavar="N", help="how far ahead (default 1, at most 50)")
    options.add_listing(made, limit=LIMIT)
    return made


def years(text: str) -> int:
    """Read how far ahead to look."""
    found = options.positive(text)
    if found > YEARS_MAX:
        raise argparse.ArgumentTypeError(f"{text} years is more than {YEARS_MAX}: zones change their rules sooner")
    return found


def page(found: Check, limit: int) -> Iterator[str]:
    """Yield one block for each clock change, with what it does to which schedules."""
    until = f"{found.until:%Y-%m-%d}"
    if not found.effects:
        yield f"no clock change until {until} touches any of {found.schedules} schedules (tzdata {tzdata_version()})"
        return
    touched = len({one.schedule for one in found.effects})
    yield (
        f"{touched} of {found.schedules} schedules are touched by clock changes until {until} "
        f"(tzdata {tzdata_version()})"
    )
    before = None
    for effect in found.effects[:limit]:
        change = (effect.change_at, effect.zone)
        if change != before:
            yield ""
            yield options.paint(options.wrapped(head(effect)), options.YELLOW)
            before = change
        yield render.line(f"  {effect.schedule}: {effect.note}")
    if len(found.effects) > limit:
        yield f"... and {len(found.effects) - limit} more; see them with --limit N"


def head(effect: DstEffect) -> str:
    """Name a clock change."""
    way = "ahead" if effect.shift_minutes > 0 else "back"
    minutes = abs(effect.shift_minutes)
    far = f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
    when = local(effect.change_at, find_zone(effect.zone))
    return f"{when} {effect.zone}: clocks go {way} by {far} ({format_instant(effect.change_at)})"
