"""`fencepost schedule ticks NAME`: the recorded ticks, each with what became of it."""

import argparse

from fencepost.cli import options
from fencepost.model.disposition import DispositionKind
from fencepost.model.instants import parse_instant, to_us
from fencepost.operations.phrases import kept_words, rfc3339
from fencepost.operations.records.tick_record import tick_record
from fencepost.operations.run_queries import list_ticks
from fencepost.ports.pruning import Watermark
from fencepost.ports.read_rows import TickRow

EXAMPLES = """\
  fencepost schedule ticks nightly --limit 5
  fencepost schedule ticks nightly --disposition missed --json
  fencepost schedule ticks nightly --from 2026-03-29T00:00:00Z
"""
LIMIT = 20
EVER_US = 2**63 - 1


def main(argv: list[str]) -> int:
    """List the recorded ticks of a schedule."""
    args = parser().parse_args(argv)
    from_us = to_us(parse_instant(args.start)) if args.start else 0
    with options.opened(args) as store:
        mark = store.watermark(options.tenant_of(args), args.name)
        ticks = list_ticks(
            store,
            options.tenant_of(args),
            args.name,
            from_us=from_us,
            until_us=to_us(parse_instant(args.end)) if args.end else EVER_US,
            disposition=args.disposition,
            limit=args.limit,
        )
    if args.json:
        options.print_json(map(tick_record, ticks))
    else:
        print_ticks(ticks, args.name)
        if mark is not None and mark.pruned_us >= from_us and len(ticks) < args.limit:
            print_pruned(mark)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "schedule ticks", "List the recorded ticks of a schedule, newest first, with what became of each.", EXAMPLES
    )
    made.add_argument("name", metavar="SCHEDULE", help="the schedule")
    made.add_argument("--from", dest="start", metavar="T", help="only from this instant on")
    made.add_argument("--until", dest="end", metavar="T", help="only before this instant")
    made.add_argument("--disposition", default="", choices=["", *DispositionKind], metavar="D", help="only these")
    options.add_listing(made, limit=LIMIT)
    return made


def print_ticks(ticks: list[TickRow], name: str) -> None:
    """Print one line for each; a range of neighbours is one line too."""
    if not ticks:
        print(f"no recorded ticks; for those to come: fencepost ticks {name}")
        return
    rows = [(str(rfc3339(one.tick_us)), one.disposition, one.run_id or "", slots(one)) for one in ticks]
    options.print_table(("TICK", "WHAT", "RUN", "WALL TIME"), rows)


def print_pruned(mark: Watermark) -> None:
    """Say that there were more."""
    print(
        options.wrapped(f"earlier ones, up to {rfc3339(mark.pruned_us)}, were pruned: {kept_words(mark.kept_for_us)}")
    )


def slots(tick: TickRow) -> str:
    """Name a slot, or a range of them."""
    first = tick.slot.replace("T", " ").removesuffix(":00")
    return first if tick.count == 1 else f"{first} and {tick.count - 1} more"
